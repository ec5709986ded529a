"""What PyTorch has under ``torch.utils``."""

from . import checkpoint, dlpack

__all__ = ["checkpoint", "dlpack"]
