"""What PyTorch has under ``torch.utils``."""

from . import checkpoint, data, deterministic, dlpack, hooks

__all__ = ["checkpoint", "data", "deterministic", "dlpack", "hooks"]
