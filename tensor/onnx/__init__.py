"""Names of ``torch.onnx``, which refuse: operations are not recorded as a graph that ONNX could describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from . import operators as operators
from . import symbolic_helper as symbolic_helper
from . import utils as utils
from .utils import export

__all__ = ["export", "is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """False: nothing is being exported."""
    return False


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
