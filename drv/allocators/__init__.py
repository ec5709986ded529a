"""Memory for work on streams: a stack of small allocators.

:func:`device_allocator` and :func:`pinned_allocator` give the ones of a runtime, made at the first call and
dropped with it. What they do is :class:`Allocator`'s subject.
"""

from .blocks import CachedBlock
from .caching import CachingAllocator
from .driver_memory import DriverBlock, DriverMemory
from .history import History
from .options import AllocatorOptions
from .pinned import PinnedAllocator, PinnedBlock
from .protocol import Allocator, Block, DeviceAllocator, MemorySource, Observer
from .stack import device_allocator, pinned_allocator
from .summary import memory_summary

__all__ = [
    "Allocator",
    "AllocatorOptions",
    "Block",
    "CachedBlock",
    "CachingAllocator",
    "DeviceAllocator",
    "DriverBlock",
    "DriverMemory",
    "History",
    "MemorySource",
    "Observer",
    "PinnedAllocator",
    "PinnedBlock",
    "device_allocator",
    "memory_summary",
    "pinned_allocator",
]
