"""Copies and memsets, and what the host does to pinned memory.

An endpoint is an address (``int``, with a size), a :class:`DeviceMemory`, :class:`PinnedMemory` or
:class:`RegisteredMemory`, an object with ``__cuda_array_interface__``, or on the host a C-contiguous
NumPy array or buffer. Sizes are checked wherever an object tells its own. With ``stream`` the work is
queued there; without, it is put on the legacy default stream and is done when the call returns.

From pageable memory (anything on the host that is not pinned) a queued copy has read its source when
the call returns; to pageable memory it has written when the call returns. Pinned memory must stay
untouched until the stream has run the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .current import current_device, runtime
from .errors import InvalidValueError
from .memory import DeviceMemory, PinnedMemory, RegisteredMemory

if TYPE_CHECKING:
    from .device import Device
    from .stream import Stream


class _Endpoint(NamedTuple):
    """Where a copy reads or writes. ``nbytes`` and ``device`` are ``None`` for a bare address."""

    address: int
    nbytes: int | None
    device: Device | None
    pageable: bool = False


def copy_to_device(
    destination: Any, source: Any, nbytes: int | None = None, *, stream: Stream | None = None
) -> None:
    """Copy host memory ``source`` to device memory ``destination``.

    Parameters
    ----------
    destination
        :class:`DeviceMemory`, an object with ``__cuda_array_interface__``, or an address.
    source
        A C-contiguous NumPy array or buffer, :class:`PinnedMemory`, :class:`RegisteredMemory`, or an address.
    nbytes : int, optional
        Bytes to copy; by default the size that the objects have, which must then be the same. Required where
        both are addresses.
    stream : Stream, optional
        Where to queue the copy. Without it the copy is on the legacy default stream, and done on return.

    Raises
    ------
    InvalidValueError
        If a side has fewer than ``nbytes``, both sizes differ and ``nbytes`` is not passed, a host array is not
        C-contiguous, or an argument is no such memory.
    CudaError
        Without ``stream``: if the copy, or earlier work, failed.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.arange(256, dtype=np.float32)
    >>> memory = drv.DeviceMemory(values.nbytes)
    >>> drv.copy_to_device(memory, values)
    """
    to, origin = _device_endpoint(destination), _host_endpoint(source, writes=False)
    size = _size(nbytes, to, origin)
    device = _enter(stream, to)
    driver = device.runtime.driver
    if stream is None:
        _finish(
            device, driver.cuMemcpyHtoD(to.address, origin.address, size), "cuMemcpyHtoD", to, origin, size
        )
    else:
        result = driver.cuMemcpyHtoDAsync(to.address, origin.address, size, stream.handle)
        _queued(device, result, "cuMemcpyHtoDAsync", to, origin, size)


def copy_to_host(
    destination: Any, source: Any, nbytes: int | None = None, *, stream: Stream | None = None
) -> None:
    """Copy device memory ``source`` to host memory ``destination``.

    Parameters
    ----------
    destination
        A C-contiguous NumPy array or a writable buffer, :class:`PinnedMemory`, :class:`RegisteredMemory`, or an
        address.
    source
        Device memory: :class:`DeviceMemory`, an object with ``__cuda_array_interface__``, or an address.
    nbytes : int, optional
        Bytes to copy; by default the size of both sides, which must be the same then.
    stream : Stream, optional
        Where to queue the copy; the host memory must not be read before it is done. Without it the copy is done on
        return.

    Raises
    ------
    InvalidValueError
        If a side has fewer bytes, both sizes differ and ``nbytes`` is not given, or an argument is not such memory.
    """
    to, origin = _host_endpoint(destination, writes=True), _device_endpoint(source)
    size = _size(nbytes, to, origin)
    device = _enter(stream, origin)
    driver = device.runtime.driver
    if stream is None:
        _finish(
            device, driver.cuMemcpyDtoH(to.address, origin.address, size), "cuMemcpyDtoH", to, origin, size
        )
    else:
        result = driver.cuMemcpyDtoHAsync(to.address, origin.address, size, stream.handle)
        _queued(device, result, "cuMemcpyDtoHAsync", to, origin, size)


def copy_on_device(
    destination: Any, source: Any, nbytes: int | None = None, *, stream: Stream | None = None
) -> None:
    """Copy device memory ``source`` to device memory ``destination``, which must not overlap.

    Parameters
    ----------
    destination, source
        Device memory: :class:`DeviceMemory`, an object with ``__cuda_array_interface__``, or an address.
    nbytes : int, optional
        Bytes to copy; by default the size of both sides, which must be the same then.
    stream : Stream, optional
        Where to queue the copy. Without it the copy is done on return.

    Raises
    ------
    InvalidValueError
        If a side has fewer bytes, both sizes differ and ``nbytes`` is not given, or an argument is not such memory.
    """
    to, origin = _device_endpoint(destination), _device_endpoint(source)
    size = _size(nbytes, to, origin)
    device = _enter(stream, to)
    driver = device.runtime.driver
    if stream is None:
        _finish(
            device, driver.cuMemcpyDtoD(to.address, origin.address, size), "cuMemcpyDtoD", to, origin, size
        )
    else:
        result = driver.cuMemcpyDtoDAsync(to.address, origin.address, size, stream.handle)
        _queued(device, result, "cuMemcpyDtoDAsync", to, origin, size)


def copy_peer(
    destination: Any,
    destination_device: Device,
    source: Any,
    source_device: Device,
    nbytes: int | None = None,
    *,
    stream: Stream | None = None,
) -> None:
    """Copy memory of ``source_device`` to memory of ``destination_device``.

    It goes directly where peer access is enabled, and through the host otherwise.

    Parameters
    ----------
    destination, source
        Device memory: :class:`DeviceMemory`, an object with ``__cuda_array_interface__``, or an address.
    destination_device, source_device : Device
        Whose memory each is.
    nbytes : int, optional
        Bytes to copy; by default the size of both sides, which must be the same then.
    stream : Stream, optional
        Where to queue the copy, a stream of either device. Without it the copy is done on return.

    Raises
    ------
    InvalidValueError
        If a side has fewer bytes, both sizes differ and ``nbytes`` is not given, or an argument is not such memory.
    """
    to, origin = _device_endpoint(destination), _device_endpoint(source)
    size = _size(nbytes, to, origin)
    # Both contexts must exist before the driver is handed them.
    source_device.use()
    destination_device.use()
    device = _enter(stream, _Endpoint(to.address, size, destination_device))
    driver = device.runtime.driver
    arguments = (to.address, destination_device.context, origin.address, source_device.context, size)
    if stream is None:
        _finish(device, driver.cuMemcpyPeer(*arguments), "cuMemcpyPeer", to, origin, size)
    else:
        result = driver.cuMemcpyPeerAsync(*arguments, stream.handle)
        _queued(device, result, "cuMemcpyPeerAsync", to, origin, size)


def copy_2d(
    destination: Any,
    destination_pitch: int,
    source: Any,
    source_pitch: int,
    width: int,
    height: int,
    *,
    stream: Stream | None = None,
) -> None:
    """Copy ``height`` rows of ``width`` bytes, whose beginnings lie ``pitch`` bytes apart on each side.

    Parameters
    ----------
    destination, source
        Memory on the host or on a device, as for :func:`copy_to_device`; a bare address is looked up by the driver,
        so it must be of device or pinned memory.
    destination_pitch, source_pitch : int
        Bytes from the beginning of one row to that of the next, at least ``width``.
    width, height : int
        Bytes in a row, and rows; where either is 0 nothing is copied.
    stream : Stream, optional
        Where to queue the copy. Without it the copy is done on return.

    Raises
    ------
    InvalidValueError
        If a pitch is shorter than a row, or an object has fewer bytes than the rows take.
    """
    from cuda.bindings.driver import CUDA_MEMCPY2D, CUmemorytype

    to, origin = _any_endpoint(destination, writes=True), _any_endpoint(source, writes=False)
    _check_rows(to, destination_pitch, width, height, "destination")
    _check_rows(origin, source_pitch, width, height, "source")
    if width == 0 or height == 0:
        return
    plan = CUDA_MEMCPY2D()
    if origin.pageable:
        plan.srcMemoryType, plan.srcHost = CUmemorytype.CU_MEMORYTYPE_HOST, origin.address
    else:
        plan.srcMemoryType, plan.srcDevice = CUmemorytype.CU_MEMORYTYPE_UNIFIED, origin.address
    if to.pageable:
        plan.dstMemoryType, plan.dstHost = CUmemorytype.CU_MEMORYTYPE_HOST, to.address
    else:
        plan.dstMemoryType, plan.dstDevice = CUmemorytype.CU_MEMORYTYPE_UNIFIED, to.address
    plan.srcPitch, plan.dstPitch = source_pitch, destination_pitch
    plan.WidthInBytes, plan.Height = width, height
    device = _enter(stream, to if to.device is not None else origin)
    driver = device.runtime.driver
    if stream is None:
        _finish(device, driver.cuMemcpy2D(plan), "cuMemcpy2D", to, origin, width * height)
    else:
        result = driver.cuMemcpy2DAsync(plan, stream.handle)
        _queued(device, result, "cuMemcpy2DAsync", to, origin, width * height)


def memset(destination: Any, value: int, count: int, *, bits: int = 8, stream: Stream | None = None) -> None:
    """Write ``value`` to ``count`` items of 8, 16 or 32 bits of device memory.

    Parameters
    ----------
    destination
        Device memory, as for :func:`copy_to_device`.
    value : int
        Of ``bits`` bits, signed or unsigned.
    count : int
        Number of items, not of bytes.
    bits : int
        Bits of an item.
    stream : Stream, optional
        Where to queue the write. Without it the write is done on return.

    Raises
    ------
    InvalidValueError
        If ``value`` does not fit into ``bits``, the items do not fit into ``destination``, or its address
        is no multiple of the item's size.

    Examples
    --------
    >>> memory = drv.DeviceMemory(1024)
    >>> drv.memset(memory, -1, 256, bits=32)
    """
    to = _device_endpoint(destination)
    value = _check_item(to, value, bits)
    _size(count * (bits // 8), to)
    device = _enter(stream, to)
    call = f"cuMemsetD{bits}" if stream is None else f"cuMemsetD{bits}Async"
    function = getattr(device.runtime.driver, call)
    arguments = (to.address, value, count)
    result = function(*arguments) if stream is None else function(*arguments, stream.handle)
    device.runtime.check(result, call, hex(to.address), *arguments[1:])
    if stream is None:
        device.default_stream.synchronize()


def memset_2d(
    destination: Any,
    pitch: int,
    value: int,
    width: int,
    height: int,
    *,
    bits: int = 8,
    stream: Stream | None = None,
) -> None:
    """Write ``value`` to ``height`` rows of ``width`` items of 8, 16 or 32 bits, which begin ``pitch`` bytes apart.

    Parameters
    ----------
    destination
        Device memory, as for :func:`copy_to_device`.
    pitch : int
        Bytes from the beginning of one row to that of the next, at least the bytes of a row.
    value : int
        Of ``bits`` bits, signed or unsigned.
    width, height : int
        Items in a row, and rows.
    bits : int
        Bits of an item.
    stream : Stream, optional
        Where to queue the write. Without it the write is done on return.

    Raises
    ------
    InvalidValueError
        If ``value`` does not fit into ``bits``, the rows do not fit into ``destination``, ``pitch`` is shorter than a
        row, or the address is no multiple of the item's size.
    """
    to = _device_endpoint(destination)
    value = _check_item(to, value, bits)
    _check_rows(to, pitch, width * (bits // 8), height, "destination")
    device = _enter(stream, to)
    call = f"cuMemsetD2D{bits}" if stream is None else f"cuMemsetD2D{bits}Async"
    function = getattr(device.runtime.driver, call)
    arguments = (to.address, pitch, value, width, height)
    result = function(*arguments) if stream is None else function(*arguments, stream.handle)
    device.runtime.check(result, call, hex(to.address), *arguments[1:])
    if stream is None:
        device.default_stream.synchronize()


def host_access(memory: Any, nbytes: int | None = None, *, writes: bool) -> None:
    """Tell the race finder that the host reads, or ``writes``, pinned memory now.

    The simulated driver sees what queued work does with memory, but not what the program does with it through NumPy.
    Does nothing with NVIDIA's driver, which has no race finder.

    Parameters
    ----------
    memory
        :class:`PinnedMemory`, a NumPy array over one, or an address.
    nbytes : int, optional
        Bytes from the beginning of ``memory``; all by default, and required for an address.
    writes : bool
        Whether the host writes the bytes, or only reads them.

    Raises
    ------
    InvalidValueError
        If ``memory`` has fewer bytes.
    """
    active = runtime()
    if active.simulated:
        endpoint = _host_endpoint(memory, writes=writes)
        active.driver.host_access(endpoint.address, _size(nbytes, endpoint), writes=writes)


def _enter(stream: Stream | None, endpoint: _Endpoint) -> Device:
    """Make the device current that does the copy."""
    if stream is not None:
        device = stream.device
    elif endpoint.device is not None:
        device = endpoint.device
    else:
        device = current_device()
    device.use()
    return device


def _queued(device: Device, result: Any, call: str, to: _Endpoint, origin: _Endpoint, size: int) -> None:
    if result[0]:
        device.runtime.fail(result[0], call, hex(to.address), hex(origin.address), f"{size} bytes")


def _finish(device: Device, result: Any, call: str, to: _Endpoint, origin: _Endpoint, size: int) -> None:
    _queued(device, result, call, to, origin, size)
    # CUDA's synchronous calls may return before the device has the data.
    device.default_stream.synchronize()


def _device_endpoint(memory: Any) -> _Endpoint:
    if isinstance(memory, int):
        return _Endpoint(memory, None, None)
    if isinstance(memory, DeviceMemory):
        return _Endpoint(memory.address, memory.nbytes, memory.device)
    if isinstance(memory, PinnedMemory | RegisteredMemory):
        return _Endpoint(memory.address, memory.nbytes, None)
    interface = getattr(memory, "__cuda_array_interface__", None)
    if interface is None:
        raise InvalidValueError(
            f"expected device memory (an address, DeviceMemory, or an object with __cuda_array_interface__), "
            f"{type(memory).__name__} was given"
        )
    return _Endpoint(interface["data"][0], _interface_bytes(interface), None)


def _interface_bytes(interface: Any) -> int:
    """Size of a contiguous array described by ``__cuda_array_interface__``."""
    item = int(interface["typestr"][2:])
    size = item
    for extent, stride in zip(
        reversed(interface["shape"]), reversed(interface.get("strides") or interface["shape"]), strict=True
    ):
        if interface.get("strides") and extent > 1 and stride != size:
            raise InvalidValueError(
                f"expected a C-contiguous array, strides {interface['strides']} were given"
            )
        size *= extent
    return size


def _host_endpoint(memory: Any, *, writes: bool) -> _Endpoint:
    if isinstance(memory, int):
        return _Endpoint(memory, None, None)
    if isinstance(memory, PinnedMemory | RegisteredMemory):
        return _Endpoint(memory.address, memory.nbytes, None)
    import numpy as np

    if isinstance(memory, np.ndarray):
        array = memory
    else:
        try:
            view = memoryview(memory)
        except TypeError:
            raise InvalidValueError(
                f"expected host memory (a NumPy array, a buffer, PinnedMemory, or an address), "
                f"{type(memory).__name__} was given"
            ) from None
        if not view.c_contiguous:
            raise InvalidValueError("a host buffer must be C-contiguous")
        array = np.frombuffer(view.cast("B") if view.nbytes else b"", np.uint8)
    if not array.flags.c_contiguous:
        raise InvalidValueError(
            f"a host array must be C-contiguous, strides {array.strides} were given: "
            "copy to or from numpy.ascontiguousarray(...)"
        )
    if writes and not array.flags.writeable:
        raise InvalidValueError("the host buffer to copy to is read-only")
    return _Endpoint(array.ctypes.data, array.nbytes, None, pageable=True)


def _any_endpoint(memory: Any, *, writes: bool) -> _Endpoint:
    on_device = isinstance(memory, int | DeviceMemory) or hasattr(memory, "__cuda_array_interface__")
    return _device_endpoint(memory) if on_device else _host_endpoint(memory, writes=writes)


def _size(nbytes: int | None, *endpoints: _Endpoint) -> int:
    """Bytes to copy, which every side that tells its size must hold."""
    known = [endpoint.nbytes for endpoint in endpoints if endpoint.nbytes is not None]
    if nbytes is None:
        if not known:
            raise InvalidValueError("bare addresses have no size: pass nbytes")
        if len(set(known)) > 1:
            raise InvalidValueError(
                f"the destination has {known[0]} bytes and the source {known[1]}: pass nbytes"
            )
        return known[0]
    if nbytes < 0:
        raise InvalidValueError(f"nbytes must not be negative, {nbytes} was given")
    if known and nbytes > min(known):
        raise InvalidValueError(f"{nbytes} bytes do not fit: there are only {min(known)}")
    return nbytes


def _check_rows(endpoint: _Endpoint, pitch: int, width: int, height: int, which: str) -> None:
    if width < 0 or height < 0:
        raise InvalidValueError(f"width {width} and height {height} must not be negative")
    if pitch < width and height > 1:
        raise InvalidValueError(
            f"the {which}'s pitch of {pitch} bytes is shorter than a row of {width} bytes"
        )
    needed = pitch * (height - 1) + width if width and height else 0
    if endpoint.nbytes is not None and needed > endpoint.nbytes:
        raise InvalidValueError(f"the rows take {needed} bytes, the {which} has {endpoint.nbytes}")


def _check_item(endpoint: _Endpoint, value: int, bits: int) -> int:
    """The bit pattern of ``value``, which may be given signed or unsigned."""
    if bits not in (8, 16, 32):
        raise InvalidValueError(f"bits must be 8, 16 or 32, {bits} was given")
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise InvalidValueError(f"{value} does not fit into {bits} bits")
    if endpoint.address % (bits // 8):
        raise InvalidValueError(f"address {endpoint.address:#x} is no multiple of {bits // 8} bytes")
    return value & ((1 << bits) - 1)
