"""``DistributedSampler`` by the path that PyTorch has it under."""

from .sampler import DistributedSampler

__all__ = ["DistributedSampler"]
