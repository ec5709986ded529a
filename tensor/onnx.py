"""Names of ``torch.onnx``, which refuse: operations are not recorded as a graph that ONNX could describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from .core.names.absent import hints as _hints

__all__ = ["export", "is_in_onnx_export"]


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


def is_in_onnx_export() -> bool:
    """False: nothing is being exported."""
    return False


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
