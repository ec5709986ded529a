"""What PyTorch has under ``torch.utils``."""

from typing import TYPE_CHECKING, Any

from tensor.core.absent_names import missing as _missing

from . import _pytree as _pytree
from . import checkpoint, data, deterministic, dlpack, hooks

__all__ = ["checkpoint", "data", "deterministic", "dlpack", "hooks"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
