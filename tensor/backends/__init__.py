"""Settings of what computes."""

from . import cuda, cudnn

__all__ = ["cuda", "cudnn"]
