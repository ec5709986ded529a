"""Communication hooks: how :class:`parallel.DistributedDataParallel` reduces its buckets."""

from . import default_hooks, powerSGD_hook

__all__ = ["default_hooks", "powerSGD_hook"]
