"""Names of ``torch.multiprocessing.pool``: Python's pool, whose messages share the memory of CPU tensors."""

from multiprocessing.pool import Pool, ThreadPool

__all__ = ["Pool", "ThreadPool"]
