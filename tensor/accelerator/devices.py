"""Which devices there are, which is current, and its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from tensor import cpu, cuda
from tensor.core.devices.device import device as _device

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

    from tensor.core.devices.current import DeviceArgument


def check_available() -> None:
    """Raise RuntimeError if there is no device."""
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
    check_available()
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
    check_available()
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
    check_available()
    return cuda.current_stream(device)


def set_stream(stream: cuda.Stream) -> None:
    """Make ``stream`` and its device current in this thread.

    Raises
    ------
    RuntimeError
        If there is no device.
    """
    check_available()
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
    check_available()
    cuda.synchronize(device)


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
    check_available()
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
