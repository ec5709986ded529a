"""The devices that compute, whatever they are called: CUDA devices here. The names of ``torch.accelerator``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from tensor import cpu, cuda
from tensor.core.devices.device import device as _device

from .core.names.absent import hints as _hints

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

    from tensor.core.devices.current import DeviceArgument

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def _check_available() -> None:
    if not cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def is_available() -> bool:
    """Whether there is a CUDA device, or a simulated one. Creates no context, and never raises."""
    return cuda.is_available()


def device_count() -> int:
    """Number of visible devices, 0 without any. Creates no context, and never raises."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> _device | None:
    """``device("cuda")`` without an index, or None where there is no device.

    None is what PyTorch returns where it was built without CUDA. Nothing is built here, so whether a device is there
    decides, with ``check_available`` and without.

    >>> where = tensor.accelerator.current_accelerator() or tensor.device("cpu")
    """
    return _device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """Index of the current device of this thread.

    Raises
    ------
    RuntimeError
        If there is no device.
    """
    _check_available()
    return cuda.current_device()


def set_device_index(device: DeviceArgument, /) -> None:
    """Make ``device`` current in this thread; a negative index changes nothing.

    Raises
    ------
    RuntimeError
        If there is no device at all.
    ValueError
        For the CPU, for a device that does not exist, and where no index is given.
    """
    _check_available()
    cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:  # noqa: N801 - PyTorch's name
    """Context manager that makes the device of an index current in this thread, and restores the one before.

    Parameters
    ----------
    device : int, optional
        Which; ``None`` changes nothing.

    Raises
    ------
    ValueError
        On entering, for a device that does not exist.
    """

    __slots__ = ("_context",)

    def __init__(self, device: int | None, /) -> None:
        self._context = cuda.device(device)

    def __enter__(self) -> None:
        self._context.__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._context.__exit__(exc_type, error, traceback)


def current_stream(device: DeviceArgument = None, /) -> cuda.Stream:
    """The current stream of ``device``, by default of the current one.

    Raises
    ------
    RuntimeError
        If there is no device at all.
    ValueError
        For the CPU, or a device that does not exist.
    """
    _check_available()
    return cuda.current_stream(device)


def set_stream(stream: cuda.Stream) -> None:
    """Make ``stream`` and its device current in this thread.

    Raises
    ------
    RuntimeError
        If there is no device.
    """
    _check_available()
    cuda.set_stream(stream)
    cuda.set_device(stream.device)


def synchronize(device: DeviceArgument = None, /) -> None:
    """Wait until all work on all streams of ``device``, by default the current one, is done.

    Raises
    ------
    RuntimeError
        If there is no device at all, or if work on it failed.
    ValueError
        For the CPU, or a device that does not exist.
    """
    _check_available()
    cuda.synchronize(device)


def empty_cache() -> None:
    """Give memory that is cached and not in use back to the driver.

    Raises
    ------
    RuntimeError
        If there is no device.
    """
    _check_available()
    cuda.empty_cache()


def get_memory_info(device_index: DeviceArgument = None, /) -> tuple[int, int]:
    """Free and total memory of ``device_index``, by default the current device, in bytes.

    Raises
    ------
    RuntimeError
        If there is no device at all.
    ValueError
        For the CPU, or a device that does not exist.
    """
    _check_available()
    return cuda.mem_get_info(device_index)


def memory_allocated(device_index: DeviceArgument = None, /) -> int:
    """Bytes that tensors occupy on the device.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    _check_available()
    return cuda.memory_allocated(device_index)


def max_memory_allocated(device_index: DeviceArgument = None, /) -> int:
    """Most bytes that tensors occupied on the device since the last reset.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    _check_available()
    return cuda.max_memory_allocated(device_index)


def memory_reserved(device_index: DeviceArgument = None, /) -> int:
    """Bytes that the allocator holds on the device, in use or free.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    _check_available()
    return cuda.memory_reserved(device_index)


def max_memory_reserved(device_index: DeviceArgument = None, /) -> int:
    """Most bytes that the allocator held on the device since the last reset.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    _check_available()
    return cuda.max_memory_reserved(device_index)


def memory_stats(device_index: DeviceArgument = None, /) -> dict[str, Any]:
    """The allocator's counters of the device by name, as :func:`tensor.cuda.memory_stats` has them.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    _check_available()
    return cuda.memory_stats(device_index)


def reset_peak_memory_stats(device_index: DeviceArgument = None, /) -> None:
    """Let the peaks of the device start again from what is in use.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    _check_available()
    cuda.reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: DeviceArgument = None, /) -> None:
    """Let what the counters of the device add up start again from 0.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    _check_available()
    cuda.reset_accumulated_memory_stats(device_index)


def get_device_module(device: _device | str | None = None) -> ModuleType:
    """``tensor.cuda`` or ``tensor.cpu``: the functions of the kind of device.

    Parameters
    ----------
    device : device or str, optional
        Its index does not matter. By default CUDA devices where there are any, else the CPU.

    Raises
    ------
    RuntimeError
        If ``device`` is neither a device, nor a string that names one, nor None.
    """
    if device is None:
        return cuda if cuda.is_available() else cpu
    if not isinstance(device, (_device, str)):
        raise RuntimeError(f"Invalid value of device '{device}', expect device, str, or None")
    return {"cuda": cuda, "cpu": cpu}[_device(device).type]


def get_device_capability(device: DeviceArgument = None, /) -> dict[str, Any]:
    """What the device, by default the current one, can compute with: ``{"supported_dtypes": {...}}``.

    Raises
    ------
    RuntimeError
        If there is no device.
    ValueError
        If the device is not one of them.
    """
    _check_available()
    cuda.get_device_properties(device)
    return {
        "supported_dtypes": {
            dtypes.bool_,
            dtypes.uint8,
            dtypes.int8,
            dtypes.int16,
            dtypes.int32,
            dtypes.int64,
            dtypes.float16,
            dtypes.bfloat16,
            dtypes.float32,
            dtypes.float64,
            dtypes.complex64,
            dtypes.complex128,
        }
    }


def empty_host_cache() -> None:
    """Give cached pinned memory of the host back to the driver.

    Raises
    ------
    RuntimeError
        If there is no device.
    """
    _check_available()
    cuda.memory.empty_host_cache()


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
