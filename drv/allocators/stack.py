"""Putting the allocators of a runtime together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drv import environment
from drv.memory import PinnedMemory

from .caching.allocator import CachingAllocator
from .caching.pinned import PinnedAllocator
from .caching.virtual_memory import VirtualMemory
from .driver_memory import DriverMemory
from .events import StreamEvents
from .guarding.device import GuardingAllocator
from .guarding.guard import Guard
from .guarding.pinned import GuardedPinned
from .guarding.stream_ordered import StreamOrderedMemory
from .options import AllocatorOptions

if TYPE_CHECKING:
    from drv.device import Device
    from drv.runtime import Runtime

    from .protocol import DeviceAllocator

#: Freed allocations that the simulated driver remembers for reports, where it guards memory.
_REMEMBERED = 1 << 16


def device_allocator(runtime: Runtime, ordinal: int) -> DeviceAllocator[Any]:
    """The allocator of the memory of device ``ordinal``: always the same one until the runtime is dropped.

    It caches, as ``GRAPHROOT_CUDA_ALLOC_CONF`` says, unless that asks for a guarding allocator
    (``backend:guarding``) or ``GRAPHROOT_NO_CUDA_MEMORY_CACHING`` is set.

    >>> allocator = drv.allocators.device_allocator(drv.runtime(), 0)
    >>> block = allocator.allocate(1000, stream=0)
    >>> block.size, allocator.statistics()["allocated_bytes.all.current"]
    (1024, 1024)
    >>> allocator.free(block)

    Raises
    ------
    InvalidValueError
        If there is no such device, or the options in the environment cannot be parsed.
    """

    def make() -> DeviceAllocator[Any]:
        device = runtime.device(ordinal)
        options = AllocatorOptions.from_environment()
        if options.guarding and _driver_checks(runtime):
            runtime.driver.guard_memory(options.red_zone, _REMEMBERED)
            return StreamOrderedMemory(device, StreamEvents(runtime))
        source = DriverMemory(device)
        if options.guarding:
            guard = guard_of(runtime, options)
            guarding = GuardingAllocator(source, guard, StreamEvents(runtime))
            guard.members.append(guarding)
            return guarding
        if not environment.memory_caching():
            return source
        return CachingAllocator(ordinal, source, StreamEvents(runtime), options, VirtualMemory(device))

    return runtime.cache(("device allocator", ordinal), make)


def pinned_allocator(runtime: Runtime) -> PinnedAllocator:
    """The allocator of pinned host memory: always the same one until the runtime is dropped.

    Raises
    ------
    InvalidValueError
        If the options in the environment cannot be parsed.
    """

    def device() -> Device:
        return runtime.current.selected or runtime.devices[0]

    def pin(size: int) -> PinnedMemory:
        return PinnedMemory(size, device())

    def make() -> PinnedAllocator:
        options = AllocatorOptions.from_environment()
        events = StreamEvents(runtime)
        if not options.guarding:
            return PinnedAllocator(pin, events, caching=environment.memory_caching())
        guard = guard_of(runtime, options)
        guarding = GuardedPinned(guard, device, driver_checks=_driver_checks(runtime))
        guard.members.append(guarding)
        return PinnedAllocator(guarding, events, caching=False)

    return runtime.cache("pinned allocator", make)


def guard_of(runtime: Runtime, options: AllocatorOptions) -> Guard:
    """What the guarding allocators of a runtime share; it is consulted by every synchronising call."""

    def make() -> Guard:
        runtime.guard = Guard(runtime, options.red_zone, options.quarantine)
        return runtime.guard

    return runtime.cache("guard", make)


def guard_runtime(runtime: Runtime) -> Guard | None:
    """The :class:`Guard` of a runtime whose allocators guard memory; ``None`` where they do not.

    Raises
    ------
    InvalidValueError
        If the options in the environment cannot be parsed.
    """
    options = AllocatorOptions.from_environment()
    return guard_of(runtime, options) if options.guarding else None


def _driver_checks(runtime: Runtime) -> bool:
    """Whether the driver itself finds every stray access, with the thread and the source line."""
    return runtime.simulated and bool(runtime.driver.checks_accesses)
