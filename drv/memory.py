"""Raw memory: device and pinned host allocations, and page-locking of memory that exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from .current import current_device
from .errors import InvalidHandleError, InvalidValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    from .device import Device
    from .runtime import Runtime

_PORTABLE, _DEVICE_MAP, _WRITE_COMBINED = 1, 2, 4
_REGISTER_PORTABLE = 1


class DeviceMemory:
    """Device memory, allocated by the driver itself, without a cache.

    Parameters
    ----------
    nbytes : int
        Size in bytes, more than 0.
    device : Device, optional
        Whose memory; this thread's current device by default.

    Attributes
    ----------
    address : int
        First address, aligned to at least 256 bytes.
    nbytes : int
        Size in bytes.
    device : Device
        Whose memory it is.

    Raises
    ------
    OutOfMemoryError
        If the device has no such free range.
    InvalidValueError
        If ``nbytes`` is not positive.

    Notes
    -----
    The contents are undefined at first. Freeing synchronises the device, as ``cuMemFree`` does. Usable as a
    context manager, and by other libraries through ``__cuda_array_interface__``.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.arange(4, dtype=np.float32)
    >>> with drv.DeviceMemory(values.nbytes) as memory:
    ...     drv.copy_to_device(memory, values)
    ...     result = np.empty_like(values)
    ...     drv.copy_to_host(result, memory)
    >>> result.tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    __slots__ = ("__weakref__", "_owned", "address", "device", "nbytes", "runtime")

    def __init__(self, nbytes: int, device: Device | None = None) -> None:
        self._owned = False
        if nbytes <= 0:
            raise InvalidValueError(f"an allocation has at least 1 byte, {nbytes} were asked for")
        if device is None:
            device = current_device()
        self.device = device
        self.runtime = runtime = device.runtime
        device.make_current()
        runtime.collect()
        self.nbytes = nbytes
        self.address = int(
            runtime.check(
                runtime.driver.cuMemAlloc(nbytes), "cuMemAlloc", f"{nbytes} bytes on device {device.ordinal}"
            )
        )
        self._owned = True

    def __getattr__(self, name: str) -> Any:
        if name == "address":
            raise InvalidHandleError("this device memory was freed")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        address_text = f"at {self.address:#x}" if self._owned else "(freed)"
        return f"<drv.DeviceMemory {self.nbytes} bytes {address_text} on device {self.device.ordinal}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The bytes as a one-dimensional array of uint8, for other libraries."""
        return {
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, False),
            "strides": None,
            "version": 3,
        }

    def free(self) -> None:
        """Free the memory once the device's work is done: the call waits for it. A second call does nothing.

        Any other use of the memory raises :class:`InvalidHandleError` afterwards.

        Raises
        ------
        DeviceFaultError
            If work that it waited for failed, or the context was lost before.
        DroppedRuntimeError
            If the runtime was dropped by :func:`drv.reset`.
        """
        if self._owned:
            self.device.make_current()
            self._owned = False
            address = self.address
            del self.address
            self.runtime.check(self.runtime.driver.cuMemFree(address), "cuMemFree", hex(address))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def __del__(self) -> None:
        if self._owned:
            self.runtime.release(self.device, "cuMemFree", self.address)


class PinnedMemory:
    """Page-locked host memory: copies to and from it are asynchronous, and kernels may access it.

    Parameters
    ----------
    nbytes : int
        Size in bytes, more than 0.
    device : Device, optional
        Whose context makes it; all devices may use it. This thread's current device by default.
    write_combined : bool
        Whether the memory bypasses the CPU's caches: faster for the device to read, slow for the host to.

    Attributes
    ----------
    address : int
        First address, the same on the host and on every device.
    nbytes : int
        Size in bytes.

    Raises
    ------
    OutOfMemoryError
        If the host cannot lock so much.
    InvalidValueError
        If ``nbytes`` is not positive.

    Notes
    -----
    Usable as a context manager. NumPy arrays over the memory (:meth:`array`) keep it: freeing it waits
    until the last of them is gone, so that a forgotten array never points to nothing.
    """

    __slots__ = ("__weakref__", "_allocation", "nbytes")

    def __init__(self, nbytes: int, device: Device | None = None, *, write_combined: bool = False) -> None:
        if nbytes <= 0:
            raise InvalidValueError(f"an allocation has at least 1 byte, {nbytes} were asked for")
        if device is None:
            device = current_device()
        flags = _PORTABLE | _DEVICE_MAP | (_WRITE_COMBINED if write_combined else 0)
        self._allocation: _HostAllocation | None = _HostAllocation(device, nbytes, flags)
        self.nbytes = nbytes

    def __repr__(self) -> str:
        address_text = "(freed)" if self._allocation is None else f"at {self.address:#x}"
        return f"<drv.PinnedMemory {self.nbytes} bytes {address_text}>"

    @property
    def address(self) -> int:
        """First address, the same on the host and on every device.

        Raises
        ------
        InvalidHandleError
            After :meth:`free`.
        """
        return self._live().address

    @property
    def runtime(self) -> Runtime:
        """The runtime that the memory belongs to.

        Raises
        ------
        InvalidHandleError
            After :meth:`free`.
        """
        return self._live().device.runtime

    def array(self, dtype: DTypeLike = "u1") -> NDArray[Any]:
        """The memory as a one-dimensional NumPy array of ``dtype``; bytes after the last whole element are left out.

        The host must not touch it while a copy or kernel uses it. The race finder of the simulated driver sees what
        the host does through the array only where :func:`drv.host_access` reports it.

        Raises
        ------
        InvalidHandleError
            If the memory was freed.
        """
        import numpy as np

        element = np.dtype(dtype)
        whole: NDArray[np.uint8] = np.asarray(self._live())
        return whole[: self.nbytes // element.itemsize * element.itemsize].view(element)

    def free(self) -> None:
        """Free the memory, now or when the last array over it is gone. A second call does nothing.

        Copies from or to it must be done.
        """
        self._allocation = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def _live(self) -> _HostAllocation:
        if self._allocation is None:
            raise InvalidHandleError("this pinned memory was freed")
        return self._allocation


class RegisteredMemory:
    """Host memory of a NumPy array, page-locked while this object lives.

    Parameters
    ----------
    array : NDArray
        C-contiguous and not empty; kept alive. Its memory must not be page-locked already.
    device : Device, optional
        Whose context locks it; all devices may use it. This thread's current device by default.

    Attributes
    ----------
    address : int
        First address, on the host.
    nbytes : int
        Size in bytes.

    Raises
    ------
    InvalidValueError
        If ``array`` is empty or not C-contiguous.
    CudaError
        If the memory is page-locked already, or the host cannot lock so much.

    Notes
    -----
    Usable as a context manager. Work that uses the memory must be done before it is unlocked.
    """

    __slots__ = ("__weakref__", "_owned", "address", "array", "device", "nbytes")

    def __init__(self, array: NDArray[Any], device: Device | None = None) -> None:
        self._owned = False
        if not array.flags.c_contiguous or array.nbytes == 0:
            raise InvalidValueError(
                f"only a C-contiguous array with elements can be page-locked; shape {array.shape} and "
                f"strides {array.strides} were given"
            )
        if device is None:
            device = current_device()
        self.device = device
        self.array = array
        self.address = array.ctypes.data
        self.nbytes = array.nbytes
        device.make_current()
        runtime = device.runtime
        runtime.check(
            runtime.driver.cuMemHostRegister(self.address, self.nbytes, _REGISTER_PORTABLE),
            "cuMemHostRegister",
            f"{self.nbytes} bytes",
        )
        self._owned = True

    def unregister(self) -> None:
        """Unlock the memory, which nothing queued may still use. A second call does nothing.

        The array stays as it is, and is ordinary pageable memory again.

        Raises
        ------
        DeviceFaultError
            If the context was lost by an earlier error.
        DroppedRuntimeError
            If the runtime was dropped by :func:`drv.reset`.
        """
        if self._owned:
            self.device.make_current()
            self._owned = False
            runtime = self.device.runtime
            runtime.check(runtime.driver.cuMemHostUnregister(self.address), "cuMemHostUnregister")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()

    def __del__(self) -> None:
        if self._owned:
            self.device.runtime.release(self.device, "cuMemHostUnregister", self.address)


class _HostAllocation:
    """Owner of a page-locked range; NumPy arrays over the range refer to it."""

    __slots__ = ("__weakref__", "_driver", "_owned", "address", "device", "nbytes")

    def __init__(self, device: Device, nbytes: int, flags: int) -> None:
        self._owned = False
        runtime = device.runtime
        self.device = device
        self.nbytes = nbytes
        device.make_current()
        runtime.collect()
        address = runtime.check(
            runtime.driver.cuMemHostAlloc(nbytes, flags), "cuMemHostAlloc", f"{nbytes} bytes"
        )
        self.address = int(address)
        # The simulated driver owns the bytes: arrays must not outlive it, not even after drv.reset().
        self._driver = runtime.driver
        runtime.host_allocations.add(self)
        self._owned = True

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def __del__(self) -> None:
        if self._owned:
            self.device.runtime.release(self.device, "cuMemFreeHost", self.address)
