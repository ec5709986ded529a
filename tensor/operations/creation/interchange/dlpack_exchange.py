"""Memory shared with other libraries through DLPack.

Whoever takes CUDA memory names a stream, and whoever gives it orders that stream behind its own work, so
that nobody waits on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import drv
from tensor.core import layout as layouts
from tensor.core.base import TensorBase, view_of
from tensor.core.devices.state import CudaState, cpu, cuda_state, device_state_of
from tensor.core.devices.stream import Stream
from tensor.core.storage import DeviceStorage, ForeignStorage, HostStorage, PinnedStorage
from tensor.core.warning import warn_caller
from tensor.operations.creation.copies import copy_into_new
from tensor.operations.definition import operation

from .dlpack import DLDeviceType, borrow, capsule_of, device_of

if TYPE_CHECKING:
    from tensor.core.devices.state import DeviceState
    from tensor.methods.tensor import Tensor

_HOST = (DLDeviceType.kDLCPU, DLDeviceType.kDLCUDAHost)
_CUDA = (DLDeviceType.kDLCUDA, DLDeviceType.kDLCUDAManaged)
#: The newest version of DLPack whose structures are known here.
_NEWEST = (1, 0)


# DLPack, giving


def dlpack_device(input: Tensor) -> tuple[DLDeviceType, int]:
    """DLPack's type and index of the tensor's device; pinned memory is ``kDLCUDAHost``."""
    device_state = input._layout.device_state
    if isinstance(device_state, CudaState):
        return DLDeviceType.kDLCUDA, device_state.ordinal
    pinned = isinstance(input._storage, PinnedStorage)
    return DLDeviceType.kDLCUDAHost if pinned else DLDeviceType.kDLCPU, 0


def dlpack(
    input: Tensor,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule over the tensor's memory, for the ``from_dlpack`` of another library.

    Parameters
    ----------
    stream : int, optional
        For a CUDA tensor, the consumer's stream, which is made to wait for this tensor's device's current one:
        ``None`` and 1 are the legacy default stream, 2 is the per-thread default stream, other numbers are
        handles; -1 asks for no wait.
    max_version : tuple of int, optional
        The newest version of DLPack that the consumer knows; without it the capsule is one of before 1.0.
    dl_device : tuple of int, optional
        Type and index of the device that the consumer wants the elements on.
    copy : bool, optional
        True copies always, False never, ``None`` where the device asks for it.

    Raises
    ------
    BufferError
        If the tensor requires grad, or DLPack or this library has no such device.
    ValueError
        If a copy is needed that ``copy`` forbids, or for a stream that is none.
    """
    if input.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    _check_stream(input, stream)
    versioned = max_version is not None and max_version[0] >= 1
    device_type, index = dlpack_device(input) if dl_device is None else dl_device
    lent = _moved(input, device_type, index, copy)
    layout, storage = lent._layout, lent._storage
    device_state = layout.device_state
    owner: Any = storage
    writeable = True
    if isinstance(device_state, CudaState):
        if stream != -1:
            _hand_over(lent, device_state, stream)
        where = (DLDeviceType.kDLCUDA, device_state.ordinal)
    else:
        # Consumers that serve the host alone often know nothing but kDLCPU, so pinned memory is called so as
        # long as nobody asks for the other name.
        where = (DLDeviceType.kDLCPU if dl_device is None else DLDeviceType(device_type), 0)
        owner = lent._host
        writeable = bool(owner.flags.writeable)
    return capsule_of(
        owner,
        lent.data_ptr(),
        layout.shape,
        layout.strides,
        layout.dtype,
        where,
        writeable=writeable,
        versioned=versioned,
        copied=lent is not input,
    )


def _check_stream(input: Tensor, stream: int | None) -> None:
    if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool)):
        raise TypeError(f"stream must be ``int`` or ``none``, got {type(stream).__name__}")
    if not input._layout.device_state.is_cuda:
        if stream not in (None, -1):
            raise ValueError(f"stream should be None on cpu, got {stream}")
    elif stream is not None and (stream == 0 or stream < -1):
        raise ValueError(
            f"{stream} is no stream: pass 1 for the legacy default stream, 2 for the per-thread default stream, "
            "the value of a cudaStream_t, or -1 for no synchronisation"
        )


def _moved(input: Tensor, device_type: int, index: int, copy: bool | None) -> Tensor:
    """The tensor itself or a copy, on a device in DLPack's terms."""
    device_state: DeviceState = input._layout.device_state
    pinned = isinstance(input._storage, PinnedStorage)
    if device_type in _HOST:
        target: DeviceState = cpu
        moves = device_state is not cpu or (device_type == DLDeviceType.kDLCUDAHost and not pinned)
    elif device_type == DLDeviceType.kDLCUDA:
        target = cuda_state(index)
        moves = device_state is not target
    else:
        raise BufferError(
            f"Unsupported device_type: {int(device_type)}; tensors are on CPUs and CUDA devices"
        )
    if moves and copy is False:
        raise ValueError(
            f"cannot move (i.e. copy=False) tensor from {input._layout.device} to {target.device} without copying."
        )
    if moves or copy:
        layout = input._layout.on(target).as_dense()
        return copy_into_new(input, layout, pin_memory=device_type == DLDeviceType.kDLCUDAHost)
    return input


def _hand_over(lent: Tensor, device_state: CudaState, stream: int | None) -> None:
    handle = drv.Stream.LEGACY if stream is None else stream
    consumer = Stream.of(device_state, drv.Stream.from_handle(device_state.native, handle))
    consumer.wait_stream(device_state.local.stream)
    # The consumer says when it needs the memory no more, but its stream may still be at work then. Other streams
    # than the default one may be destroyed by that time, so they cannot be waited for.
    if handle == drv.Stream.LEGACY and isinstance(lent._storage, DeviceStorage):
        lent._storage.record_stream(consumer)


# DLPack, taking


@operation(method=False)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Tensor over the memory of another library's array: changes of one show in the other.

    CUDA memory is ordered behind the producer's work on this thread's current stream of its device. Its owner
    may use it again once the tensor and its views are gone, so work on other streams must be done by then.

    Parameters
    ----------
    ext_tensor
        An object with the methods ``__dlpack__`` and ``__dlpack_device__``, or a DLPack capsule.
    device
        Where the tensor is wanted; by default where it is.
    copy : bool, optional
        True copies always, False never, ``None`` where ``device`` asks for it.

    Raises
    ------
    BufferError
        For a device, dtype, strides or version of DLPack that tensors do not have.
    ValueError
        If a copy is needed that ``copy`` forbids.

    Examples
    --------
    >>> import numpy as np
    >>> tensor.from_dlpack(np.ones(2))
    tensor([1., 1.], dtype=tensor.float64)
    """
    target = None if device is None else device_state_of(device)
    copied = False
    if hasattr(ext_tensor, "__dlpack__"):
        device_type, index = ext_tensor.__dlpack_device__()
        device_state = _device_state(device_type, index)
        _check_move(device_state, target, copy)
        asked: dict[str, Any] = {}
        if isinstance(device_state, CudaState):
            current = device_state.local.stream
            asked["stream"] = int(current.native.handle)
            if isinstance(ext_tensor, TensorBase) and isinstance(ext_tensor._storage, DeviceStorage):
                ext_tensor._storage.record_stream(current)
        try:
            newer = {} if copy is None or target not in (None, device_state) else {"copy": copy}
            capsule = ext_tensor.__dlpack__(**asked, max_version=_NEWEST, **newer)
            copied = bool(newer.get("copy"))
        except TypeError:
            # A producer of before DLPack 1.0, which never copies.
            capsule = ext_tensor.__dlpack__(**asked)
    else:
        capsule = ext_tensor
    device_state = _device_state(*device_of(capsule))
    _check_move(device_state, target, copy)
    result = _borrowed(capsule, device_state)
    if target is not None and target is not device_state:
        return copy_into_new(result, result._layout.on(target).as_dense())
    if copy and not copied:
        return copy_into_new(result, result._layout.as_dense())
    return result


def _device_state(device_type: int, index: int) -> DeviceState:
    if device_type in _HOST:
        return cpu
    if device_type in _CUDA:
        return cuda_state(index)
    raise BufferError(
        f"Unsupported device_type: {int(device_type)}; tensors are on CPUs ({DLDeviceType.kDLCPU:d}) and CUDA devices "
        f"({DLDeviceType.kDLCUDA:d})"
    )


def _check_move(device_state: DeviceState, target: DeviceState | None, copy: bool | None) -> None:
    if copy is False and target is not None and target is not device_state:
        raise ValueError(
            f"cannot move DLPack tensor from device {device_state.device} to {target.device} without copying. Set copy=None "
            "or copy=True."
        )


def _borrowed(capsule: Any, device_state: DeviceState) -> Tensor:
    result = borrow(capsule, aligned=device_state.is_cuda)
    layout = layouts.strided[result.shape, result.strides, result.dtype, device_state]
    if not result.writeable:
        warn_caller(
            "The array given through DLPack is not writable"
            + (
                ": writing to the tensor changes it all the same."
                if device_state.is_cuda
                else ", and writing to the tensor is an error."
            )
            + " Copy it to protect its data or to write to the tensor.",
        )
    if isinstance(device_state, CudaState):
        return view_of(ForeignStorage(device_state, layout.nbytes, result.address, result.owner), layout, 0)
    if not layout.nbytes:
        return view_of(HostStorage(np.empty(0, np.uint8)), layout, 0)
    held = _HostBytes(result.owner, result.address, layout.nbytes, writeable=result.writeable)
    return view_of(HostStorage(np.asarray(held)), layout, 0)


class _HostBytes:
    """Host memory of another library, as NumPy is told of it."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, address: int, size: int, *, writeable: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, not writeable),
            "version": 3,
        }
