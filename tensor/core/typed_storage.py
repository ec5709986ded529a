"""Storages as PyTorch's programs make and read them: ``UntypedStorage``, ``TypedStorage`` and one class per dtype.

What a tensor has is a :class:`~tensor.core.storage.Storage`: bytes. ``UntypedStorage`` makes such ones and is what
``isinstance`` asks for; a ``TypedStorage`` shows one as elements of a dtype.
"""

from __future__ import annotations

import mmap
import operator
import os
from functools import cache
from os import fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes, printed_names
from nvrtc_kernels.printed_names import printed

from .base import view_of, wrap
from .devices.state import cpu, device_state_of
from .dtypes.default import get_default_dtype
from .dtypes.scalars import element
from .layout import contiguous
from .plans.copies import copied
from .plans.fills import FILL
from .storage import HostStorage, Storage, new_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

    from .devices.device import device as Device


class _OfStorages(type):
    """Class of ``UntypedStorage``, whose objects are all storages of tensors, wherever their memory is."""

    def __call__(cls, *arguments: Any, device: Any = None) -> Storage:
        return _from_arguments("UntypedStorage", arguments, device, dtypes.uint8)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Storage)


class UntypedStorage(Storage, metaclass=_OfStorages):
    """Bytes on one device, shared by the tensors that view them.

    ``UntypedStorage()`` has none, ``UntypedStorage(size)`` so many undefined ones, ``UntypedStorage(sequence)`` the
    given ones; ``device`` is the CPU unless given. Any other call raises TypeError. ``isinstance(x, UntypedStorage)`` is
    true of every storage that :meth:`Tensor.untyped_storage` gives.

    Examples
    --------
    >>> tensor.UntypedStorage([1, 2, 3]).tolist()
    [1, 2, 3]
    """

    __slots__ = ()

    @staticmethod
    def from_buffer(buffer: Any, *, dtype: dtype = dtypes.uint8, byte_order: str = "native") -> Storage:
        """A copy of the bytes of an object with the buffer protocol, which holds numbers of ``dtype``.

        They are in the ``byte_order`` ``"native"``, ``"little"`` or ``"big"``. Raises ValueError for another one, or bytes
        that are no whole number of elements.
        """
        return _from_buffer(buffer, dtype, byte_order)

    @staticmethod
    def from_file(filename: str | PathLike[str], shared: bool = False, nbytes: int = 0) -> Storage:
        """The bytes of a file, mapped into the host's memory: they are read when they are used.

        Parameters
        ----------
        filename : str or path
            The file.
        shared : bool
            Whether what is written goes to the file, which is made, or grows, to have ``nbytes``; otherwise writes stay in
            memory.
        nbytes : int
            Number of bytes, from the beginning of the file.

        Raises
        ------
        RuntimeError
            If the file cannot be opened, or is shorter and not ``shared``.
        """
        return _mapped(fspath(filename), shared, operator.index(nbytes))


def _mapped(filename: str, shared: bool, count: int) -> Storage:
    if count < 0:
        raise RuntimeError(f"UntypedStorage.from_file() of negative size {count}")
    try:
        descriptor = os.open(filename, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o666)
    except OSError as error:
        raise RuntimeError(f"unable to open file <{filename}>: {error.strerror}") from error
    try:
        size = os.fstat(descriptor).st_size
        if size < count:
            if not shared:
                raise RuntimeError(f"file <{filename}> has {size} bytes and not {count}: ask for fewer")
            os.ftruncate(descriptor, count)
        if not count:
            return HostStorage(np.empty(0, np.uint8))
        # The array keeps the mapping, which keeps a descriptor of its own.
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        return HostStorage(np.frombuffer(mmap.mmap(descriptor, count, access=access), np.uint8))
    finally:
        os.close(descriptor)


def _from_arguments(name: str, arguments: tuple[Any, ...], device: Any, dtype: dtype) -> Storage:
    """A storage of a number of elements, or of a sequence of them."""
    device_state = cpu if device is None else device_state_of(device)
    if len(arguments) > 1:
        raise TypeError(f"{name}() takes a size or a sequence, got {len(arguments)} arguments")
    argument = arguments[0] if arguments else 0
    if hasattr(argument, "__index__"):
        count = operator.index(argument)
        if count < 0:
            raise RuntimeError(f"{name}() of negative size {count}")
        return new_storage(device_state, count * dtype.itemsize)
    if not hasattr(argument, "__len__") or not hasattr(argument, "__getitem__") or isinstance(argument, str):
        raise TypeError(f"{name}() takes a size or a sequence of numbers, got {type(argument).__name__}")
    array = np.empty(len(argument), dtype.numpy)
    for position in range(len(argument)):
        array[position] = element(argument[position], dtype)
    storage: Storage = HostStorage(array)
    return storage.to(device_state.device)


def _from_buffer(buffer: Any, dtype: dtype, byte_order: str) -> Storage:
    if byte_order not in ("native", "little", "big"):
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little' or 'native')")
    data = np.frombuffer(buffer, np.uint8)
    if data.size % dtype.itemsize:
        raise ValueError(
            f"buffer of {data.size} bytes is no multiple of the {dtype.itemsize} bytes of {dtype!r}"
        )
    data = data.copy()
    part = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if byte_order == "big" and part > 1:
        data.view(f"u{part}").byteswap(inplace=True)
    return HostStorage(data)


class TypedStorage:
    """The bytes of a storage as elements of a dtype, for old programs; :meth:`untyped` gives the storage itself.

    ``TypedStorage(size)`` has so many undefined elements, ``TypedStorage(sequence)`` the given ones.

    Parameters
    ----------
    dtype
        By default the default dtype.
    device
        The CPU unless given.
    wrap_storage
        A storage to show, instead of a new one.

    Raises
    ------
    TypeError
        For other arguments, or a ``wrap_storage`` that is none.
    RuntimeError
        For a negative size, or numbers that the dtype does not hold.

    Examples
    --------
    >>> x = tensor.zeros(3)
    >>> elements = x.storage()
    >>> elements[1] = 2.5
    >>> x
    tensor([0.0000, 2.5000, 0.0000])
    """

    __slots__ = ("__weakref__", "_untyped_storage", "dtype")

    def __init__(
        self, *arguments: Any, wrap_storage: Any = None, dtype: dtype | None = None, device: Any = None
    ) -> None:
        self.dtype = dtype or get_default_dtype()
        if wrap_storage is None:
            self._untyped_storage = _from_arguments("TypedStorage", arguments, device, self.dtype)
            return
        if arguments or not isinstance(wrap_storage, Storage):
            raise TypeError(
                f"wrap_storage must be an UntypedStorage alone, got {type(wrap_storage).__name__}"
            )
        self._untyped_storage = wrap_storage

    @classmethod
    def from_buffer(
        cls, buffer: Any, *, dtype: dtype | None = None, byte_order: str = "native"
    ) -> TypedStorage:
        """A copy of the bytes of an object with the buffer protocol.

        Parameters
        ----------
        dtype
            By default the default dtype.
        byte_order : str
            ``"native"``, ``"little"`` or ``"big"``: of the numbers in the buffer.

        Raises
        ------
        ValueError
            For another byte order, or bytes that are no whole number of elements.
        """
        dtype = dtype or get_default_dtype()
        return cls(wrap_storage=_from_buffer(buffer, dtype, byte_order), dtype=dtype)

    def __repr__(self) -> str:
        numbers = "".join(f" {each}\n" for each in self.tolist())
        return (
            f"{numbers}[tensor.TypedStorage(dtype={self.dtype!r}, device={self.device}) of size {len(self)}]"
        )

    def __len__(self) -> int:
        count: int = self._untyped_storage.nbytes() // self.dtype.itemsize
        return count

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def _elements(self) -> Tensor:
        """A tensor of all elements."""
        return tensor_of(self._untyped_storage, self.dtype)

    def _at(self, at: Any) -> Tensor:
        """A tensor of one element, or of those of a slice."""
        storage, count = self._untyped_storage, len(self)
        layout = contiguous[(count,), self.dtype, storage.device_state]
        if isinstance(at, slice):
            places = range(count)[at]
            if places.step < 0:
                raise RuntimeError("slices of a storage go forward: their step is positive")
            layout = layout.with_strides((len(places),), (places.step,))
            return view_of(storage, layout, places.start * self.dtype.itemsize)
        if not hasattr(at, "__index__"):
            raise RuntimeError(f"can't index a TypedStorage with {type(at).__name__}")
        if not -count <= at.__index__() < count:
            raise IndexError(f"index {at} out of range for storage of size {count}")
        return view_of(storage, layout.with_strides((1,), (1,)), at.__index__() % count * self.dtype.itemsize)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._at(at).item()

    def __setitem__(self, at: int | slice, value: Any) -> None:
        self._fill(self._at(at), value)

    def _fill(self, elements: Tensor, value: Any) -> None:
        layout = elements._layout
        layout.device_state.plans[FILL, layout](elements, element(value, self.dtype))
        self._untyped_storage.version += 1

    def tolist(self) -> list[Any]:
        """All elements as Python numbers; waits for a device.

        The list has :meth:`size` of them: bools, ints, floats or complex numbers, as the dtype is.
        """
        result: list[Any] = self._elements().tolist()
        return result

    def fill_(self, value: Any) -> TypedStorage:
        """Write ``value`` to every element. Returns itself.

        Raises
        ------
        TypeError
            If ``value`` is no number.
        """
        self._fill(self._elements(), value)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> TypedStorage:
        """Copy the bytes of ``source``, a storage of the same size in bytes; for ``non_blocking`` see :meth:`Tensor.copy_`.

        The dtypes may differ: bytes are copied, not numbers. Returns itself.

        Raises
        ------
        RuntimeError
            If the sizes in bytes differ.
        """
        self._untyped_storage.copy_(source.untyped(), non_blocking)
        return self

    def untyped(self) -> Storage:
        """The storage, whose elements are bytes.

        It is the same memory; its size is in bytes.
        """
        return self._untyped_storage

    @property
    def device(self) -> Device:
        """Device of the elements."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a CUDA device."""
        return self._untyped_storage.is_cuda

    def size(self) -> int:
        """Number of elements."""
        return len(self)

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes of an element."""
        size: int = self.dtype.itemsize
        return size

    def data_ptr(self) -> int:
        """Address of the first element, 0 for an empty storage."""
        return self._untyped_storage.data_ptr()

    def get_device(self) -> int:
        """Index of the CUDA device, -1 for the host."""
        return self._untyped_storage.get_device()

    def resizable(self) -> bool:
        """See :meth:`UntypedStorage.resizable`."""
        return self._untyped_storage.resizable()

    def resize_(self, size: int) -> None:
        """Have ``size`` elements; see :meth:`UntypedStorage.resize_` for what is possible.

        Raises
        ------
        RuntimeError
            For other sizes than 0 and the original one.
        """
        self._untyped_storage.resize_(operator.index(size) * self.dtype.itemsize)

    def is_pinned(self) -> bool:
        """Whether this is page-locked host memory."""
        return self._untyped_storage.is_pinned()

    def is_shared(self) -> bool:
        """Whether other processes can have the same memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move the elements to memory that processes share; see :meth:`Tensor.share_memory_`. Returns itself.

        The elements of a CUDA device are shared as they are.
        """
        self._untyped_storage.share_memory_()
        return self

    def clone(self) -> TypedStorage:
        """A copy on the same device.

        It has the same dtype, and memory of its own.
        """
        return self._of(self._untyped_storage.clone())

    def pin_memory(self) -> TypedStorage:
        """A copy in pinned memory; see :meth:`UntypedStorage.pin_memory`.

        It has the same dtype. Copies from and to it are asynchronous with ``non_blocking``.
        """
        return self._of(self._untyped_storage.pin_memory())

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """The elements on ``device``; the same memory where they are there. For ``non_blocking`` see :meth:`Tensor.to`.

        Raises
        ------
        RuntimeError
            If ``device`` does not name one.
        """
        return self._of(self._untyped_storage.to(device, non_blocking))

    def cpu(self) -> TypedStorage:
        """The elements on the host; the same memory where they are there.

        The dtype stays. A copy from a device waits for it.
        """
        return self._of(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The elements on a CUDA device, by default the current one. For ``non_blocking`` see :meth:`Tensor.cuda`.

        Raises
        ------
        RuntimeError
            If there is no such device.
        """
        return self._of(self._untyped_storage.cuda(device, non_blocking))

    def _of(self, storage: Storage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def type(self) -> str:
        """Name of the class of this dtype and device, such as ``"tensor.FloatStorage"``."""
        return f"{printed_names.library}.{'cuda.' if self.is_cuda else ''}{self.pickle_storage_type()}"

    def pickle_storage_type(self) -> str:
        """Name of the class of this dtype, such as ``"FloatStorage"``."""
        return f"{self.dtype.scalar_type}Storage"

    def _as(self, dtype: dtype) -> TypedStorage:
        """The elements converted to ``dtype``, in new memory."""
        elements = self._elements()
        return TypedStorage(
            wrap_storage=copied(elements, elements._layout.with_dtype(dtype))._storage, dtype=dtype
        )

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return self._of(self._untyped_storage.__deepcopy__(memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return _typed, (self._untyped_storage, self.dtype)


def _typed(storage: Storage, dtype: dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype)


def _converter(name: str, dtype: dtype) -> Callable[[TypedStorage], TypedStorage]:
    def convert(self: TypedStorage) -> TypedStorage:
        return self._as(dtype)

    convert.__name__ = name
    convert.__qualname__ = f"TypedStorage.{name}"
    convert.__doc__ = (
        f"The elements as {dtype.name}, in new memory.\n\n"
        "Numbers are converted as :meth:`Tensor.to` converts them; the device stays. Returns a TypedStorage."
    )
    return convert


for _name, _dtype in {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64, "complex_float": dtypes.complex64, "complex_double": dtypes.complex128,
}.items():  # fmt: skip
    setattr(TypedStorage, _name, _converter(_name, _dtype))


class _OfOneDtype(type):
    """Class of ``FloatStorage`` and its like: their objects are typed storages of one dtype on one type of device."""

    dtype: dtype
    is_cuda: bool

    def __call__(cls, *arguments: Any, wrap_storage: Any = None) -> TypedStorage:
        return TypedStorage(
            *arguments,
            wrap_storage=wrap_storage,
            dtype=cls.dtype,
            device="cuda" if cls.is_cuda and wrap_storage is None else None,
        )

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, TypedStorage)
            and instance.dtype is cls.dtype
            and instance.is_cuda is cls.is_cuda
        )

    def __repr__(cls) -> str:
        return printed(f"<class '{cls.__module__}.{cls.__name__}'>")

    def from_buffer(cls, buffer: Any, *, byte_order: str = "native") -> TypedStorage:
        """See :meth:`TypedStorage.from_buffer`."""
        return TypedStorage.from_buffer(buffer, dtype=cls.dtype, byte_order=byte_order)


@cache
def storage_class(dtype: dtype, *, is_cuda: bool = False) -> Any:
    """The class of typed storages of ``dtype``, on the CPU or on CUDA devices."""
    members = {
        "__doc__": (
            f"Typed storages of {dtype.name} on {'the current CUDA device' if is_cuda else 'the CPU'}, for old programs.\n\n"
            "Called with a size or a sequence it makes one; see :class:`tensor.TypedStorage`. ``isinstance(x, ...)`` is\n"
            "true of typed storages of that dtype and type of device."
        ),
        "__module__": "tensor.cuda" if is_cuda else "tensor",
        "dtype": dtype,
        "is_cuda": is_cuda,
    }
    return _OfOneDtype(f"{dtype.scalar_type}Storage", (), members)


BFloat16Storage = storage_class(dtypes.bfloat16)
BoolStorage = storage_class(dtypes.bool_)
ByteStorage = storage_class(dtypes.uint8)
CharStorage = storage_class(dtypes.int8)
ComplexDoubleStorage = storage_class(dtypes.complex128)
ComplexFloatStorage = storage_class(dtypes.complex64)
DoubleStorage = storage_class(dtypes.float64)
FloatStorage = storage_class(dtypes.float32)
HalfStorage = storage_class(dtypes.float16)
IntStorage = storage_class(dtypes.int32)
LongStorage = storage_class(dtypes.int64)
ShortStorage = storage_class(dtypes.int16)


def untyped_of(source: Any, dtype: dtype, function: str) -> Any:
    """``source``, or the storage of a typed one, which must have ``dtype``.

    Raises
    ------
    RuntimeError
        If it has another dtype.
    """
    if not isinstance(source, TypedStorage):
        return source
    if source.dtype is not dtype:
        raise RuntimeError(
            f"{function}(): Expected a Storage of type {dtype.scalar_type} or an UntypedStorage, but got type "
            f"{source.dtype.scalar_type} for argument 1 'storage'"
        )
    return source.untyped()


def tensor_of(storage: Storage, dtype: dtype) -> Tensor:
    """All of a storage as a vector of ``dtype``, which shares its memory."""
    layout = contiguous[(storage.nbytes() // dtype.itemsize,), dtype, storage.device_state]
    if not storage.nbytes():
        return wrap(np.empty(0, dtype.numpy)) if not storage.is_cuda else view_of(storage, layout, 0)
    return view_of(storage, layout, 0)
