"""Communication hooks: how :class:`parallel.DistributedDataParallel` reduces its buckets."""

from . import default_hooks

__all__ = ["default_hooks"]
