"""Device memory: what is allocated and reserved, and how the caching allocator is steered.

Statistics have PyTorch's names; sizes are in bytes. Asking for them creates no context: where CUDA was not
used yet, everything is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import drv
from tensor.core.devices.current import index_of
from tensor.core.devices.state import cuda_state
from tensor.core.devices.stream import Stream
from tensor.core.names.absent import lazily as _lazily
from tensor.core.warning import warn_caller

from .devices import existing_device, mem_get_info
from .memory_pools import MemPool, use_mem_pool
from .monitoring import get_allocator_backend

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tensor.core.devices.current import DeviceArgument
    from tensor.core.devices.state import CudaState

    from .memory_history import _dump_snapshot, _record_memory_history, _snapshot, memory_snapshot

__all__ = [
    "MemPool",
    "OutOfMemoryError",
    "_dump_snapshot",
    "_record_memory_history",
    "_snapshot",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]

OutOfMemoryError = drv.OutOfMemoryError

_HOST_STATS = ("allocated_bytes", "allocation", "reserved_bytes", "segment")


def memory_stats(device: DeviceArgument = None) -> dict[str, int]:
    """All counters of the allocator of ``device``, by default the current one: bytes or numbers of blocks by name.

    ``allocation``, ``allocated_bytes``, ``active``, ``active_bytes``, ``requested_bytes``, ``inactive_split``,
    ``inactive_split_bytes``, ``segment`` and ``reserved_bytes`` are each counted for the pools ``all``,
    ``small_pool`` and ``large_pool``, as ``current``, ``peak``, ``allocated`` and ``freed``:
    ``"allocated_bytes.all.current"``. Beside them are ``oversize_allocations`` and ``oversize_segments`` (the
    same figures, no pools), ``num_alloc_retries``, ``num_ooms``, ``num_sync_all_streams``,
    ``num_device_alloc``, ``num_device_free`` and ``max_split_size``.

    >>> _ = drv.simulator.install()
    >>> x = tensor.zeros(1000, device="cuda")
    >>> stats = tensor.cuda.memory_stats()
    >>> stats["allocation.all.current"], stats["requested_bytes.all.current"]
    (1, 4000)

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist. All functions of this module that take a device do so.
    """
    device_state = _state_in_use(device)
    if device_state is not None:
        return dict(device_state.allocator.statistics())
    # Loaded with the first device, of which there is none yet.
    from drv.allocators.statistics import Statistics

    return Statistics().report(None)


def memory_stats_as_nested_dict(device: DeviceArgument = None) -> dict[str, Any]:
    """:func:`memory_stats` of ``device`` with a dictionary for each part of the names.

    ``stats["allocated_bytes.all.peak"]`` becomes ``stats["allocated_bytes"]["all"]["peak"]``. Raises ValueError as that
    function does.
    """
    return _nested(memory_stats(device))


def memory_allocated(device: DeviceArgument = None) -> int:
    """Bytes of the memory of ``device``, by default the current one, that tensors occupy; 0 before its first use.

    >>> _ = drv.simulator.install()
    >>> x = tensor.zeros(1000, device="cuda")
    >>> tensor.cuda.memory_allocated()  # 4000 bytes, in units of 512
    4096

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: DeviceArgument = None) -> int:
    """The most bytes of ``device``, by default the current one, that tensors have occupied at once.

    Counted since the start, or since :func:`reset_peak_memory_stats`.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: DeviceArgument = None) -> int:
    """Bytes that the caching allocator of ``device`` holds: those of tensors, and those kept for reuse.

    :func:`empty_cache` returns the latter to the driver.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: DeviceArgument = None) -> int:
    """The most bytes that the allocator of ``device``, by default the current one, has held at once.

    Counted since the start, or since :func:`reset_peak_memory_stats`.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: DeviceArgument = None) -> None:
    """Reset all ``peak`` counters of ``device``, by default the current one, to the current values.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    device_state = _state_in_use(device)
    if device_state is not None:
        device_state.allocator.reset_peaks()


def reset_max_memory_allocated(device: DeviceArgument = None) -> None:
    """:func:`reset_peak_memory_stats` of ``device``, as PyTorch has it now; with a warning.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.

    Warns
    -----
    FutureWarning
        That all peaks are reset.
    """
    warn_caller(
        "cuda.reset_max_memory_allocated now calls cuda.reset_peak_memory_stats, which resets /all/ peak memory stats.",
        FutureWarning,
    )
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: DeviceArgument = None) -> None:
    """Reset the counters ``allocated`` and ``freed``, and those of events (``num_...``), of ``device`` to 0.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    device_state = _state_in_use(device)
    if device_state is not None:
        device_state.allocator.reset_accumulated()


def memory_summary(device: DeviceArgument = None, abbreviated: bool = False) -> str:
    """The statistics of the allocator of ``device``, by default the current one, as a table of text.

    Parameters
    ----------
    device : device, int or str, optional
        The device.
    abbreviated : bool
        Whether to leave out the small and the large pool.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    # Loaded with the first device.
    from drv.allocators import memory_summary as table

    device_state = _state_in_use(device)
    ordinal = (index_of(device) or 0) if device_state is None else device_state.ordinal
    return table(memory_stats(device), ordinal, abbreviated=abbreviated)


def host_memory_stats() -> dict[str, int]:
    """Counters of the allocator of pinned host memory, which all devices share, sorted by name.

    ``allocation``, ``allocated_bytes`` (in use), ``segment`` and ``reserved_bytes`` (held) as ``current``,
    ``peak``, ``allocated`` and ``freed``; ``num_host_alloc`` and ``num_host_free``.
    """
    if drv.is_initialized():
        return dict(cuda_state(0).pinned_allocator().statistics())
    # Loaded with the first device, of which there is none yet.
    from drv.allocators.statistics import Stat

    zeros = {"num_host_alloc": 0, "num_host_free": 0}
    for name in _HOST_STATS:
        Stat().report(zeros, name)
    return dict(sorted(zeros.items()))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """:func:`host_memory_stats` with a dictionary for each part of the names.

    ``stats["allocated_bytes.current"]`` becomes ``stats["allocated_bytes"]["current"]``.
    """
    return _nested(host_memory_stats())


def empty_cache() -> None:
    """Return the memory that no tensor occupies to the driver, on all devices.

    Tensors keep theirs; other processes can use what is returned, and further tensors are slower to allocate.
    """
    for device_state in _states_in_use():
        device_state.allocator.empty_cache()


def empty_host_cache() -> None:
    """Give cached pinned memory of the host, which no tensor occupies, back to the driver."""
    if drv.is_initialized():
        cuda_state(0).pinned_allocator().empty_cache()


def set_per_process_memory_fraction(fraction: float, device: DeviceArgument = None) -> None:
    """Limit what the allocator of ``device`` holds to ``fraction`` of the device's memory.

    What would go beyond raises :class:`OutOfMemoryError`; blocks that are kept for reuse are returned to the driver
    first.

    Raises
    ------
    TypeError
        If ``fraction`` is not a float.
    ValueError
        If it is not between 0 and 1; for the CPU, or a device that does not exist.
    """
    if not isinstance(fraction, float):
        raise TypeError(f"Invalid type for fraction argument, must be `float`, got {type(fraction).__name__}")
    device_state = cuda_state(existing_device(device).ordinal)
    device_state.allocator.set_memory_fraction(fraction)
    _fractions(device_state)[device_state.ordinal] = fraction


def get_per_process_memory_fraction(device: DeviceArgument = None) -> float:
    """The fraction of the memory of ``device`` that its allocator may hold, from 0 to 1; 1.0 at first.

    :func:`set_per_process_memory_fraction` sets it.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    device_state = _state_in_use(device)
    return 1.0 if device_state is None else _fractions(device_state).get(device_state.ordinal, 1.0)


def caching_allocator_alloc(
    size: int, device: DeviceArgument = None, stream: Stream | int | None = None
) -> int:
    """Address of ``size`` bytes, for other libraries; :func:`caching_allocator_delete` frees them.

    Parameters
    ----------
    size : int
        Bytes; 0 gives address 0.
    device : device, int or str, optional
        Whose memory; the current device's by default.
    stream : Stream or int, optional
        Stream of the device, or its handle's value, whose work uses the bytes; the current one by default.

    Raises
    ------
    OutOfMemoryError
        If there is no such range.
    TypeError
        If ``stream`` is neither a stream nor an int.
    ValueError
        If the stream belongs to another device; for the CPU, or a device that does not exist.
    """
    device_state = cuda_state(existing_device(device).ordinal)
    if stream is None:
        stream = device_state.local.stream
    if isinstance(stream, Stream):
        if stream.device_state is not device_state:
            raise ValueError(
                f"the stream is of {stream.device}, the memory was asked for on {device_state.device}"
            )
        stream = stream.cuda_stream
    elif not isinstance(stream, int):
        raise TypeError(
            "Invalid type for stream argument, must be `tensor.cuda.Stream` or `int` representing a pointer to "
            f"an existing stream, got {type(stream).__name__}"
        )
    elif stream == drv.Stream.LEGACY:
        # Within the allocator the default stream goes by one number only.
        stream = 0
    block = device_state.allocate(size, stream)
    if block.address:
        _raw_blocks(device_state)[block.address] = (device_state, block)
    return int(block.address)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free the bytes at ``mem_ptr``, an address that :func:`caching_allocator_alloc` returned; address 0 is ignored.

    Raises
    ------
    ValueError
        If it returned no such address, or the address was freed before.
    """
    if not mem_ptr:
        return
    result = _raw_blocks(cuda_state(0)).pop(mem_ptr, None) if drv.is_initialized() else None
    if result is None:
        raise ValueError(
            f"invalid device pointer: {mem_ptr:#x} is no address that caching_allocator_alloc() gave, or was "
            "freed before"
        )
    device_state, block = result
    device_state.free(block)


def _state_in_use(device: DeviceArgument) -> CudaState | None:
    """The state of the device that an argument means; ``None`` as long as no driver was chosen."""
    index_of(device)
    return cuda_state(existing_device(device).ordinal) if drv.is_initialized() else None


def _states_in_use() -> Iterator[CudaState]:
    if drv.is_initialized():
        for ordinal in range(drv.device_count()):
            yield cuda_state(ordinal)


def _nested(flat: Mapping[str, int]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = root
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return root


def _fractions(device_state: CudaState) -> dict[int, float]:
    return device_state.runtime.cache("memory fractions", dict)


def _raw_blocks(device_state: CudaState) -> dict[int, Any]:
    return device_state.runtime.cache("raw allocations", dict)


# What watches allocators, loaded when it is used.
_LAZY = {
    name: f"tensor.cuda.memory_history:{name}"
    for name in ("_dump_snapshot", "_record_memory_history", "_snapshot", "memory_snapshot")
}

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        return _lazily(__name__, name, _LAZY)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})
