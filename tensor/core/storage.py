"""``Storage``: the bytes that a tensor and its views share."""

from __future__ import annotations

import operator
import pickle
from typing import TYPE_CHECKING, Any, overload

import numpy as np

import drv
from drv.host.addresses import address_of
from nvrtc_kernels import printed_names

from .devices.state import cpu, cuda_state, device_state_of
from .host.shared_memory import SharedBlock
from .modes.grad_mode import first_version, inference_blocks
from .parameter_casts import hand_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    from .devices.device import device
    from .devices.state import CudaState, DeviceState
    from .devices.stream import Stream

#: The first protocol of pickle whose bytes can travel beside it.
_OUT_OF_BAND = 5
#: A tensor of all bytes of a storage, which it shares.
_as_tensor: Callable[[Storage], Tensor]
#: A new storage of so many bytes.
_make: Callable[[DeviceState, int], Storage]


def show_with(function: Callable[[Storage], Tensor], make: Callable[[DeviceState, int], Storage]) -> None:
    """Have ``function`` show storages as tensors of bytes, and ``make`` make new ones.

    The module of tensors, which builds on this one, does so.
    """
    global _as_tensor, _make
    _as_tensor, _make = function, make


def new_storage(device_state: DeviceState, nbytes: int) -> Storage:
    """A storage of ``nbytes`` undefined bytes."""
    return _make(device_state, nbytes)


class Storage:
    """Bytes on one device, shared by the tensors that view them.

    Attributes
    ----------
    device_state : DeviceState
        Where the bytes are.
    capacity : int
        How many there are, also while the memory is given back.
    version : int
        Counts what was written in place, through whichever tensor. It is negative where the memory was
        allocated in inference mode.
    plain : bool
        Whether the host may read and write the bytes with no further ado, always in the same place.
    owner
        The object that the memory belongs to; ``None`` for memory of the device's allocator.
    """

    # No class that is often in use has a __getattr__: that makes reading any of its attributes several times as slow.
    __slots__ = ("__weakref__", "capacity", "device_state", "plain", "version")

    owner: Any = None

    device_state: DeviceState
    capacity: int
    version: int
    plain: bool

    @property
    def address(self) -> int:
        """Address of the first byte; RuntimeError is raised while the memory is given back."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<tensor.Storage of {self.nbytes()} bytes on {self.device}>"

    def __len__(self) -> int:
        return self.nbytes()

    @property
    def device(self) -> device:
        """Device of the bytes."""
        return self.device_state.device

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes are on a CUDA device."""
        return self.device_state.is_cuda

    def nbytes(self) -> int:
        """Size in bytes; 0 while the memory is given back."""
        return self.capacity if self._has_memory() else 0

    def size(self) -> int:
        """Number of elements, which are bytes: :meth:`nbytes`."""
        return self.nbytes()

    def untyped(self) -> Storage:
        """Return this storage, which has no dtype.

        A :class:`TypedStorage` returns the storage that it shows.
        """
        return self

    def type(self) -> str:
        """Name of the class that PyTorch's programs know it by."""
        return f"{printed_names.library}.{'cuda.' if self.is_cuda else ''}UntypedStorage"

    def resizable(self) -> bool:
        """Whether :meth:`resize_` can give the memory back: not where it belongs to another library."""
        return True

    def get_device(self) -> int:
        """Index of the CUDA device, -1 for the host."""
        return self.device.index if self.is_cuda else -1  # type: ignore[return-value]

    def is_shared(self) -> bool:
        """Whether other processes can have the same memory: shared memory of the host, and that of devices."""
        return self.is_cuda

    def share_memory_(self) -> Storage:
        """Move the bytes to memory that processes share, all tensors with them; nothing on a device. Returns itself.

        Raises
        ------
        RuntimeError
            If the host has no shared memory left, or the memory is pinned.
        """
        return self

    def data_ptr(self) -> int:
        """Address of the first byte, 0 for an empty storage."""
        if self.is_cuda:
            hand_out(self)
        return self.address if self.nbytes() else 0

    def is_pinned(self) -> bool:
        """Whether this is page-locked host memory."""
        return False

    def pin_memory(self) -> Storage:
        """A copy in pinned memory; this storage itself where it is pinned already.

        Raises
        ------
        RuntimeError
            For a storage on a CUDA device.
        """
        raise RuntimeError(f"cannot pin a storage on {self.device}: only host memory can be pinned")

    def resize_(self, nbytes: int) -> Storage:
        """Give the memory back (``nbytes`` 0), or get it again with undefined contents.

        Tensors that view the storage raise an error as long as it has no memory. One without bytes may get any number.

        Raises
        ------
        RuntimeError
            For a size that is neither 0 nor the storage's own: tensors rely on the bytes that they view.
        """
        nbytes = operator.index(nbytes)
        if not self.capacity and nbytes > 0:
            self.exchange(_make(self.device_state, nbytes))
        if nbytes not in (0, self.capacity):
            raise RuntimeError(
                f"cannot resize a storage of {self.capacity} bytes to {nbytes}: only to 0, and back to {self.capacity}"
            )
        if nbytes == 0 and self.capacity and self._has_memory():
            self._release()
            self.plain = False
            self.version += 1
        elif nbytes and not self._has_memory():
            self._acquire()
        return self

    def exchange(self, other: Storage) -> None:
        """Have the memory of ``other``, a storage of the same class, which gets this one's; all tensors follow.

        Raises
        ------
        RuntimeError
            If the memory is not the project's own.
        """
        raise RuntimeError(
            f"Trying to resize storage that is not resizable: {self!r} is another library's memory"
        )

    def clone(self) -> Storage:
        """A copy on the same device; of pinned memory, a pageable one.

        It has the same number of bytes.
        """
        return _as_tensor(self).clone()._storage

    # The bytes, read and written as a tensor

    def element_size(self) -> int:
        """Size of an element, which is a byte: 1."""
        return 1

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> Storage: ...

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return _as_tensor(self)[at].clone()._storage
        return self._byte(at).item()

    def __setitem__(self, at: int | slice, value: int) -> None:
        # A number that a byte cannot hold loses its higher bits.
        (_as_tensor(self)[at] if isinstance(at, slice) else self._byte(at)).fill_(value & 255)

    def _byte(self, at: int) -> Tensor:
        if not hasattr(at, "__index__"):
            raise TypeError(f"can't index a storage with {type(at).__name__}, only with an int")
        size = self.nbytes()
        if not -size <= at.__index__() < size:
            raise IndexError(f"index {at} out of range for storage of size {size}")
        return _as_tensor(self).select(0, at)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """All bytes as numbers; waits for a device.

        The list has :meth:`size` ints in [0, 255].
        """
        numbers: list[int] = _as_tensor(self).tolist()
        return numbers

    def fill_(self, value: int) -> Storage:
        """Write ``value``, of which the lowest eight bits count, to every byte.

        Returns
        -------
        Storage
            The storage itself.

        Raises
        ------
        TypeError
            If ``value`` is no int.
        """
        _as_tensor(self).fill_(value & 255)
        return self

    def copy_(self, source: Storage, non_blocking: bool = False) -> Storage:
        """Copy the bytes of ``source``, a storage of the same size on any device.

        For ``non_blocking`` see :meth:`Tensor.copy_`.

        Raises
        ------
        RuntimeError
            If the sizes differ.
        TypeError
            If ``source`` is no storage.
        """
        if not isinstance(source, Storage):
            raise TypeError(f"copy_(): argument 'source' must be a storage, not {type(source).__name__}")
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but source was {source.nbytes()} bytes"
            )
        _as_tensor(self).copy_(_as_tensor(source), non_blocking)
        return self

    def to(self, device: Any, non_blocking: bool = False) -> Storage:
        """The bytes on ``device``: this storage itself, or a copy. For ``non_blocking`` see :meth:`Tensor.to`.

        Raises
        ------
        RuntimeError
            If ``device`` does not name one.
        """
        return self._on(device_state_of(device), non_blocking=non_blocking)

    def cpu(self) -> HostStorage:
        """The bytes on the host: this storage itself where they are there, else a copy.

        The copy waits for the device.
        """
        result: Any = self._on(cpu)
        return result  # type: ignore[no-any-return]

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Storage:
        """The bytes on a CUDA device, by default the current one: this storage itself, or a copy.

        For ``non_blocking`` see :meth:`Tensor.cuda`.
        """
        return self._on(device_state_of("cuda" if device is None else device), non_blocking=non_blocking)

    def _on(self, device_state: DeviceState, *, non_blocking: bool = False) -> Storage:
        if device_state is self.device_state:
            return self
        return _as_tensor(self).to(device_state.device, non_blocking=non_blocking)._storage

    def __copy__(self) -> Storage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        result: Storage | None = memo.get(id(self))
        if result is None:
            result = memo[id(self)] = self.clone()
        return result

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """What a pickle has of a storage: its bytes, and the name of its device. Waits for a device."""
        array: Any = self.cpu().bytes()
        data = pickle.PickleBuffer(array) if protocol >= _OUT_OF_BAND else array.tobytes()
        return rebuild_storage, (data, str(self.device))

    def _gone(self) -> RuntimeError:
        return RuntimeError(
            f"the memory of this storage on {self.device_state.device} is gone, it was resized to 0 bytes: "
            f"call resize_({self.capacity}) before using tensors that view it"
        )

    def record_use(self, stream: Stream) -> None:
        """Note that what ``stream`` holds copies from or to the bytes: pinned memory is not reused before.

        Does nothing for other memory: of pageable memory no copy is left to be done when the call that made it returns.
        """

    def belongs_to(self, stream: Stream) -> bool:
        """Whether the bytes, were they freed, could be handed out to ``stream`` at once: no other one uses them.

        True on the host. On a device it depends on the streams that :meth:`Tensor.record_stream` has noted.
        """
        return True

    def _has_memory(self) -> bool:
        raise NotImplementedError

    def _release(self) -> None:
        """Let go of the memory, and of ``address``."""
        raise NotImplementedError

    def _acquire(self) -> None:
        """Take ``size`` bytes of memory."""
        raise NotImplementedError


class HostStorage(Storage):
    """Pageable bytes of the host.

    Attributes
    ----------
    owner : numpy.ndarray or None
        A C-contiguous array of exactly the storage's bytes, of any shape and type; ``None`` while the
        memory is given back.
    """

    __slots__ = ("_address", "owner")

    owner: NDArray[Any] | None
    #: ``None`` until somebody asks for it.
    _address: int | None

    def __init__(self, owner: NDArray[Any]) -> None:
        self.device_state = cpu
        self.owner = owner
        self._address = None
        self.capacity = owner.nbytes
        self.version = first_version() if inference_blocks.count else 0
        self.plain = True

    @property
    def address(self) -> int:
        """See :class:`Storage`."""
        result = self._address
        if result is None:
            if self.owner is None:
                raise self._gone()
            # Asking an array for its address costs more than adding two small ones, and is rarely needed.
            self._address = result = address_of(self.owner)
        return result

    def bytes(self, *, writes: bool = False) -> NDArray[np.uint8]:
        """The bytes as a one-dimensional array, to read them or, with ``writes``, to change them.

        Pinned memory tells the simulated driver's race finder that the host does so now.
        """
        if self.owner is None:
            raise self._gone()
        self._host_access(writes=writes)
        return self.owner.reshape(-1).view(np.uint8)

    def buffer(self, *, writes: bool) -> NDArray[Any]:
        """An array of the same memory as :meth:`bytes`, of any type and shape, that others can be made over."""
        owner = self.owner
        if owner is None or owner.dtype.isbuiltin != 1:
            return self.bytes(writes=writes)
        self._host_access(writes=writes)
        return owner

    def clone(self) -> Storage:
        """See :meth:`Storage.clone`."""
        return HostStorage(self.bytes().copy())

    def pin_memory(self) -> Storage:
        """See :meth:`Storage.pin_memory`."""
        pinned = PinnedStorage(self.capacity)
        pinned.bytes(writes=True)[:] = self.bytes()
        return pinned

    def exchange(self, other: Any) -> None:
        """See :meth:`Storage.exchange`."""
        # Not plain: tensors may hold arrays over the former memory.
        self.plain = other.plain and not self.capacity
        self._address = other._address = None
        self.owner, other.owner = other.owner, self.owner
        self.capacity, other.capacity = other.capacity, self.capacity

    def shared_block(self) -> SharedBlock | None:
        """The shared memory that the bytes are in; ``None`` if they are this process's own."""
        owner: Any = self.owner
        while isinstance(owner, np.ndarray):
            owner = owner.base
        return owner if isinstance(owner, SharedBlock) else None

    def is_shared(self) -> bool:
        """See :meth:`Storage.is_shared`."""
        return self.shared_block() is not None

    def share_memory_(self) -> Storage:
        """See :meth:`Storage.share_memory_`."""
        if self.capacity and not self.is_shared():
            former = self.bytes()
            shared = HostStorage(np.asarray(SharedBlock.create(self.capacity)))
            shared.bytes(writes=True)[:] = former
            self.exchange(shared)
        return self

    def _host_access(self, *, writes: bool) -> None:
        pass

    def _has_memory(self) -> bool:
        return self.owner is not None

    def _release(self) -> None:
        self._address = None
        self.owner = None

    def _acquire(self) -> None:
        # Not plain: tensors may hold arrays over the memory that was given back.
        self.owner = np.empty(self.capacity, np.uint8)


class PinnedStorage(HostStorage):
    """Page-locked bytes of the host, from the caching allocator of pinned memory.

    Raises
    ------
    OutOfMemoryError
        If the host cannot lock so much.
    """

    __slots__ = ("lease",)

    lease: PinnedLease | None

    def __init__(self, size: int) -> None:
        self._address = None
        self.capacity = size
        self._acquire()
        self.device_state = cpu
        self.version = first_version() if inference_blocks.count else 0

    def is_pinned(self) -> bool:
        """Whether this is page-locked host memory. What a dropped runtime locked is ordinary memory."""
        return self.lease is None or self.lease.device_state.runtime.alive

    def pin_memory(self) -> Storage:
        """See :meth:`Storage.pin_memory`."""
        return self if self.is_pinned() else super().pin_memory()

    def share_memory_(self) -> Storage:
        """See :meth:`Storage.share_memory_`."""
        raise RuntimeError(
            "cannot move pinned memory to shared memory, as a device may be copying from or to it: share a clone() of "
            "the tensor"
        )

    def record_use(self, stream: Stream) -> None:
        """Note that what ``stream`` holds copies from or to the bytes: they are not reused before."""
        if self.lease is not None:
            self.lease.device_state.pinned_allocator().record_stream(
                self.lease.block, stream.cuda_stream, stream.device_state.ordinal
            )

    def exchange(self, other: Any) -> None:
        """See :meth:`Storage.exchange`."""
        super().exchange(other)
        self.lease, other.lease = other.lease, self.lease

    def _host_access(self, *, writes: bool) -> None:
        if not self.plain and self.lease is not None and self.lease.device_state.runtime.alive:
            drv.host_access(self.lease.block.address, self.capacity, writes=writes)

    def _release(self) -> None:
        super()._release()
        self.lease = None

    def _acquire(self) -> None:
        device_state = cuda_state()
        self.lease = PinnedLease(device_state, self.capacity) if self.capacity else None
        self.owner = np.empty(0, np.uint8) if self.lease is None else np.asarray(self.lease)
        self.plain = not device_state.runtime.simulated or not self.capacity


class PinnedLease:
    """Holds a block of pinned memory for a storage, and for the NumPy arrays that show its bytes."""

    __slots__ = ("__weakref__", "block", "capacity", "device_state")

    def __init__(self, device_state: CudaState, size: int) -> None:
        self.device_state = device_state
        self.capacity = size
        self.block: Any = None
        self.block = device_state.pinned_allocator().allocate(size)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.capacity,),
            "typestr": "|u1",
            "data": (self.block.address, False),
            "version": 3,
        }

    def __del__(self) -> None:
        if self.block is not None and self.device_state.runtime.alive:
            self.device_state.pinned_allocator().free(self.block)


class DeviceStorage(Storage):
    """Bytes of a CUDA device, from its allocator. They belong to the stream they were allocated for.

    Attributes
    ----------
    block
        What the allocator handed out; ``None`` while the memory is given back.
    """

    __slots__ = ("address", "block")

    device_state: CudaState
    address: int
    block: Any

    def __del__(self) -> None:
        if self.block is not None:
            free = self.device_state.free
            free(self.block)

    def record_stream(self, stream: Stream) -> None:
        """Note that ``stream`` uses the bytes: once freed, they are not reused before its work is done."""
        # The default streams of all devices have one handle.
        if self.block is not None and (
            stream.cuda_stream != self.block.stream or stream.device_state is not self.device_state
        ):
            self.device_state.allocator.record_stream(
                self.block, stream.cuda_stream, stream.device_state.ordinal
            )

    def belongs_to(self, stream: Stream) -> bool:
        """Whether the bytes, were they freed, could be handed out to ``stream`` at once: no other one uses them."""
        block = self.block
        # Allocators without a cache do not note who uses a block.
        return block is not None and block.stream == stream.cuda_stream and not getattr(block, "uses", True)

    def exchange(self, other: Any) -> None:
        """See :meth:`Storage.exchange`."""
        # Whoever knows an address knows it of either.
        hand_out(self)
        hand_out(other)
        self.block, other.block = other.block, self.block
        self.capacity, other.capacity = other.capacity, self.capacity
        self.address, other.address = other.address, self.address

    def _has_memory(self) -> bool:
        return self.block is not None

    def _release(self) -> None:
        block, self.block = self.block, None
        del self.address
        self.__class__ = _ReleasedDeviceStorage
        self.device_state.free(block)

    def _acquire(self) -> None:
        self.block = self.device_state.allocate(self.capacity, self.device_state.local.stream.cuda_stream)
        self.address = self.block.address
        self.__class__ = DeviceStorage


class _ReleasedDeviceStorage(DeviceStorage):
    """What a :class:`DeviceStorage` is while its memory is given back."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == "address":
            raise self._gone()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def device_storage(device_state: CudaState, size: int, block: Any) -> DeviceStorage:
    """A storage of ``size`` bytes, in what the allocator handed out for them.

    The class has no ``__init__``, so that :func:`tensor.core.base.maker`, which has no calls to spare, may do the same.
    """
    self = DeviceStorage()
    self.device_state = device_state
    self.capacity = size
    self.block = block
    self.address = block.address
    self.version = first_version() if inference_blocks.count else 0
    self.plain = False
    return self


class ForeignStorage(Storage):
    """Bytes of a CUDA device that another library allocated.

    Attributes
    ----------
    owner
        What keeps them.
    """

    __slots__ = ("address", "owner")

    address: int

    def __init__(self, device_state: CudaState, size: int, address: int, owner: Any) -> None:
        self.device_state = device_state
        self.capacity = size
        self.address = address
        self.version = first_version() if inference_blocks.count else 0
        self.plain = False
        self.owner = owner

    def resizable(self) -> bool:
        """See :meth:`Storage.resizable`."""
        return False

    def record_stream(self, stream: Stream) -> None:
        """Do nothing: its owner decides when the memory is used again."""

    def belongs_to(self, stream: Stream) -> bool:
        """Never: who else uses the bytes is not known."""
        return False

    def resize_(self, nbytes: int) -> Storage:
        """Raise RuntimeError unless nothing changes: the memory is another library's."""
        if operator.index(nbytes) != self.capacity:
            raise RuntimeError(f"cannot resize a storage whose memory belongs to {type(self.owner).__name__}")
        return self

    def _has_memory(self) -> bool:
        return True


def rebuild_storage(data: Any, device: str) -> Storage:
    """The storage that a pickle describes. ``data`` is kept where it may be written.

    Raises
    ------
    RuntimeError
        If there is no such device.
    """
    view = memoryview(data)
    array = np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
    if device == "cpu":
        return HostStorage(array if array.flags.writeable else array.copy())
    try:
        device_state = device_state_of(device)
    except RuntimeError as error:
        raise RuntimeError(
            f"a pickled tensor belongs on {device}, which is not here: {error}. Move tensors to the CPU before "
            "they are pickled for another machine."
        ) from error
    return HostStorage(array)._on(device_state)
