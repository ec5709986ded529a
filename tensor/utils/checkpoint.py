"""``checkpoint``: functions that run again for their backward pass, instead of keeping activations.

Two ways, as in PyTorch. Without re-entrance, the default, operations are recorded as always, and only what they
save is left out and made again when the backward pass asks for the first of it. With re-entrance the function
runs unrecorded, as one node, inside of which the backward pass starts another.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

from tensor.autograd import differentiation
from tensor.autograd.engine.graph_task import current
from tensor.autograd.function import Function, once_differentiable
from tensor.autograd.recording.saving import saved_tensors_hooks
from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import enable_grad, modes
from tensor.core.names.absent import hints as _hints

from . import forward_state
from .recomputation import CheckpointError, Region, set_checkpoint_early_stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "checkpoint",
    "checkpoint_sequential",
    "noop_context_fn",
    "set_checkpoint_early_stop",
]


def noop_context_fn() -> tuple[Any, Any]:
    """Two context managers that do nothing: the default of ``context_fn`` of :func:`checkpoint`.

    The first would surround the forward pass, the second what is computed again for the backward pass.
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool = False,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, which keeps no activations and runs again in the backward pass.

    >>> x = tensor.ones(3, requires_grad=True)
    >>> y = tensor.utils.checkpoint.checkpoint(lambda x: x.exp().sin(), x)
    >>> y.sum().backward()

    Parameters
    ----------
    function : callable
        Must do the same when it runs again.
    *args, **kwargs
        Its arguments.
    use_reentrant : bool
        Whether the backward pass of ``function`` is one of its own inside the outer one. Then only the
        gradients of tensors among ``args``, and of leaves, are found, and only by ``backward()`` without
        ``inputs``.
    context_fn : callable
        Gives two context managers: for the first run and for the others.
    determinism_check : str
        ``"default"`` compares shapes, dtypes and devices of what both runs save; ``"none"`` does not.
    debug : bool
        Whether an error about differences shows where the tensor was saved in both runs.
    early_stop : bool
        Whether the function is left as soon as all that it saved is there again.
    preserve_rng_state : bool
        Whether the default generators of the CPU and of all devices give the same numbers again.

    Raises
    ------
    TypeError
        If ``function`` is not callable.
    ValueError
        For another ``determinism_check``; for ``kwargs``, ``context_fn`` or ``debug`` with ``use_reentrant=True``.
    CheckpointError
        In the backward pass, if the function saved other tensors when it ran again.
    RuntimeError
        In the backward pass, with ``use_reentrant=True``: if it is one of ``grad()`` or has ``inputs``, or no output
        requires grad.
    """
    if not callable(function):
        raise TypeError(f"checkpoint() expects a function to run, got {type(function).__name__}")
    if use_reentrant:
        if kwargs:
            raise ValueError(
                f"Unexpected keyword arguments: {','.join(kwargs)}. With use_reentrant=True the function takes "
                "arguments by position only"
            )
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if modes.recording and not any(isinstance(x, TensorBase) and x.requires_grad for x in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check!r}"
        )
    forward_context, recomputing_context = context_fn()
    if not modes.recording:
        with forward_context:
            return function(*args, **kwargs)
    region = Region(
        function,
        args,
        kwargs,
        state=forward_state.note(random=preserve_rng_state),
        context=recomputing_context,
        compares=determinism_check == "default",
        debug=debug,
        early_stop=early_stop,
    )
    with forward_context, saved_tensors_hooks(region.pack, region.unpack):
        result = function(*args, **kwargs)
    region.complete = True
    return result


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool = False,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call functions one after the other, in segments of which all but the last are checkpoints.

    >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> tensor.utils.checkpoint.checkpoint_sequential(model, 2, tensor.ones(2, 4)).shape
    tensor.Size([2, 1])

    Parameters
    ----------
    functions : nn.Sequential or iterable of callables
        Each takes what the one before it returned.
    segments : int
        How many.
    input
        Argument of the first function.
    use_reentrant, preserve_rng_state : bool
        See :func:`checkpoint`.

    Raises
    ------
    ValueError
        If there are fewer functions than segments, or for an unknown keyword argument.
    """
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    steps = list(functions.children() if hasattr(functions, "children") else functions)
    if not 1 <= segments <= max(len(steps), 1):
        raise ValueError(f"checkpoint_sequential() cannot make {segments} segments of {len(steps)} functions")
    length = len(steps) // segments
    for start in range(0, length * (segments - 1), length):
        input = checkpoint(
            _all_of(steps[start : start + length]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    # Its backward pass comes first: the activations are needed at once.
    return _all_of(steps[length * (segments - 1) :])(input)


def _all_of(steps: Iterable[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return run


class CheckpointFunction(Function):
    """A function as one node, which runs it again and starts a backward pass of its own: ``use_reentrant=True``.

    :func:`checkpoint` calls it. ``tensor.autograd.grad`` and ``backward(inputs=...)`` raise RuntimeError where they meet it.
    """

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """Run ``run_function(*args)``, unrecorded, and keep on ``ctx`` what it takes to do so again.

        With ``preserve_rng_state`` that includes the states of the default generators.
        """
        ctx.run_function = run_function
        ctx.state = forward_state.note(random=preserve_rng_state)
        ctx.others = tuple([None if isinstance(x, TensorBase) else x for x in args])
        ctx.save_for_backward(*[x if isinstance(x, TensorBase) else None for x in args])
        ctx.set_materialize_grads(False)
        return run_function(*args)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the function that ``ctx`` has kept again, recorded, and backward from ``grads``.

        Raises
        ------
        RuntimeError
            In a backward pass of ``grad()`` or with ``inputs``, or if no output requires grad.
        """
        if current.task is not None and current.task.needed is not None:
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() "
                "without passing the `inputs` argument."
            )
        args = [
            other if tensor is None else tensor.detach().requires_grad_(tensor.requires_grad)
            for tensor, other in zip(ctx.saved_tensors, ctx.others, strict=True)
        ]
        with ctx.state(), enable_grad():
            outputs = ctx.run_function(*args)
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        starts = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=True)
            if grad is not None and isinstance(output, TensorBase) and output.requires_grad
        ]
        if not starts:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        differentiation.backward([each for each, _ in starts], [each for _, each in starts])
        result = [x.grad if isinstance(x, TensorBase) else None for x in args]
        return None, None, *result


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
