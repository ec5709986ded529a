"""Names of ``torch.onnx.utils``, which refuse."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NoReturn

from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["export", "model_signature", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> NoReturn:
    """Refuse to write ``model``, called with ``args``, to ``f``.

    Raises
    ------
    RuntimeError
        Always, before anything is written.
    """
    raise RuntimeError(
        "tensor.onnx.export(): models cannot be exported to ONNX here. Save the state dict as safetensors with "
        "tensor.save(model.state_dict(), path), load it with PyTorch, and export there"
    )


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Do nothing: ``symbolic_fn`` would write the operation ``symbolic_name`` in version ``opset_version`` of ONNX.

    Packages register such functions when they are imported. They are never called, as :func:`export` refuses.
    """


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Do nothing: no ONNX form of ``symbolic_name`` in version ``opset_version`` is known.

    :func:`register_custom_op_symbolic` notes none.
    """


def model_signature(model: Any) -> inspect.Signature:
    """The signature of a call of ``model``: of the ``forward`` of a module, or of a function.

    >>> tensor.onnx.utils.model_signature(nn.Linear(1, 1))
    <Signature (input: 'Tensor') -> 'Tensor'>
    """
    return inspect.signature(model.forward if hasattr(model, "forward") else model)


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
