"""Putting the allocators of a runtime together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import environment
from ..memory import PinnedMemory
from .caching import CachingAllocator
from .driver_memory import DriverMemory
from .events import StreamEvents
from .options import AllocatorOptions
from .pinned import PinnedAllocator
from .virtual_memory import VirtualMemory

if TYPE_CHECKING:
    from ..runtime import Runtime
    from .protocol import DeviceAllocator


def device_allocator(runtime: Runtime, ordinal: int) -> DeviceAllocator[Any]:
    """The allocator of a device's memory: always the same one until the runtime is dropped.

    It caches, as ``GRAPHROOT_CUDA_ALLOC_CONF`` says, unless ``GRAPHROOT_NO_CUDA_MEMORY_CACHING`` is set.

    Raises
    ------
    InvalidValueError
        If there is no such device, or the options are wrong.
    """

    def make() -> DeviceAllocator[Any]:
        device = runtime.device(ordinal)
        source = DriverMemory(device)
        if not environment.memory_caching():
            return source
        options = AllocatorOptions.from_environment()
        return CachingAllocator(ordinal, source, StreamEvents(runtime), options, VirtualMemory(device))

    return runtime.cache(("device allocator", ordinal), make)


def pinned_allocator(runtime: Runtime) -> PinnedAllocator:
    """The allocator of pinned host memory: always the same one until the runtime is dropped."""

    def pin(size: int) -> PinnedMemory:
        return PinnedMemory(size, runtime.current.selected or runtime.devices[0])

    return runtime.cache(
        "pinned allocator",
        lambda: PinnedAllocator(pin, StreamEvents(runtime), caching=environment.memory_caching()),
    )
