"""Transforms of functions: derivatives of them, and vectorization over a batch.

``grad``, ``vjp``, ``jvp``, ``jacrev``, ``jacfwd``, ``hessian`` and ``linearize`` differentiate a function; ``vmap`` lets one
that is written for a single sample take a batch. Transforms nest in any order: ``vmap(grad(loss), (None, 0, 0))`` gives a
gradient for each sample. ``functional_call`` and ``stack_module_state`` make functions of modules.
"""

from tensor.core.names.absent import lazily as _lazily

from .jacobians import hessian, jacfwd, jacrev
from .transforms import grad, grad_and_value, jvp, linearize, vjp
from .vectorization import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

# Functions about modules stand in a higher layer.
_LAZY = {
    "functional_call": "nn.utils.module_state:functional_call",
    "replace_all_batch_norm_modules_": "nn.utils.module_state:replace_all_batch_norm_modules_",
    "stack_module_state": "nn.utils.module_state:stack_module_state",
}


def __getattr__(name: str) -> object:
    return _lazily(__name__, name, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
