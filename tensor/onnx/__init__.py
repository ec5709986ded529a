"""Names of ``torch.onnx``, which refuse: operations are not recorded as a graph that ONNX could describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import lazily as _lazily

from . import operators as operators
from . import symbolic_helper as symbolic_helper
from . import utils as utils
from .utils import export, register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]

# Modules of functions that write ONNX, one for each version of it: their names refuse.
_LAZY = {f"symbolic_opset{version}": "tensor.onnx.symbolic_opset" for version in range(7, 24)}


def is_in_onnx_export() -> bool:
    """False: nothing is being exported."""
    return False


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        return _lazily(__name__, name, _LAZY)
