"""Names of ``torch.multiprocessing.pool``: Python's pool, whose messages share the memory of CPU tensors."""

from multiprocessing.pool import Pool, ThreadPool

from tensor.core.names.absent import hints as _hints

__all__ = ["Pool", "ThreadPool"]

__getattr__ = _hints(__name__)
