"""What a tensor is: a view of a storage. What can be done with it, :mod:`tensor.methods.tensor` adds.

The families of functions (``views``, ``copies``, ...) stand on this module and make tensors with
:func:`view_of`, :func:`empty` and :func:`wrap`; the class they make is the one that was given to
:func:`register`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drv.host.interrupts import whole
from nvrtc_kernels.dtypes import from_numpy, uint8

from . import layout as layouts
from .devices.state import cpu
from .host import memory as host_memory
from .modes.grad_mode import first_version, inference_blocks
from .plans.placing import is_placing
from .sparse import SparseLayout, SparseOperandError
from .storage import DeviceStorage, ForeignStorage, HostStorage, PinnedStorage, device_storage, show_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    from .devices.state import DeviceState
    from .devices.stream import Stream
    from .layout import Layout
    from .storage import Storage


class TensorFields:
    """A storage, and a layout of elements in it.

    Attributes
    ----------
    _storage : Storage
        The bytes, shared with the views.
    _layout : Layout
        Shape, strides, dtype and device.
    _offset : int
        Bytes from the storage's start to the first element.
    _autograd
        What differentiation knows of the tensor; ``None`` as long as that is nothing.
    _base : Tensor or None
        The tensor that this is a view of.

    The names without underscore belong to PyTorch's users.
    """

    __slots__ = ("__dict__", "__weakref__", "_array", "_autograd", "_base", "_layout", "_offset", "_storage")

    _storage: Storage
    _layout: Layout
    _offset: int
    _autograd: Any
    _base: Any
    #: A CPU tensor's elements as NumPy shows them, once they were asked for.
    _array: NDArray[Any] | None

    @property
    def _address(self) -> int:
        """Address of the first element."""
        return self._storage.address + self._offset

    @property
    def _host(self) -> NDArray[Any]:
        """A CPU tensor's elements as a NumPy array without a copy, to read them."""
        result = self._array
        if result is not None and self._storage.plain:
            return result
        return _host_array(self, writes=False)

    @property
    def _writable(self) -> NDArray[Any]:
        """A CPU tensor's elements as a NumPy array without a copy, to change them."""
        result = self._array
        if result is not None and self._storage.plain:
            return result
        return _host_array(self, writes=True)


# Every tensor is of the class that is registered, so isinstance(x, TensorBase) says as much to a type checker.
if TYPE_CHECKING:
    TensorBase: TypeAlias = Tensor
else:
    TensorBase = TensorFields


def _host_array(input: TensorFields, *, writes: bool) -> NDArray[Any]:
    layout, storage = input._layout, input._storage
    if not isinstance(storage, HostStorage):
        if isinstance(layout, SparseLayout):
            raise SparseOperandError(layout.layout_name)
        raise TypeError(
            f"can't convert {layout.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
            "host memory first."
        )
    data = storage.buffer(writes=writes)
    if not layout.numel:
        # NumPy wants strides and offsets inside the memory even where there are no elements.
        input._array = result = np.empty(layout.shape, layout.dtype.numpy)
        return result
    try:
        result = np.ndarray(layout.shape, layout.dtype.numpy, data, input._offset, layout.numpy_strides)
    except ValueError as error:
        raise RuntimeError(
            f"a tensor of shape {list(layout.shape)} and strides {list(layout.strides)} cannot be computed with on the "
            f"CPU: {error}"
        ) from None
    input._array = result
    return result


_new: Any = object.__new__
_class: type[Any] = TensorFields


def register(cls: type[Any]) -> None:
    """Make tensors of class ``cls`` from now on."""
    global _class
    _class = cls


def tensor_class() -> type[Any]:
    """The class that was given to :func:`register`."""
    return _class


def view_of(storage: Storage, layout: Layout, offset: int) -> Tensor:
    """A tensor that shows elements of ``storage`` from byte ``offset`` on. Nothing is checked."""
    self: Tensor = _new(_class)
    self._storage = storage
    self._layout = layout
    self._offset = offset
    self._autograd = self._base = None
    self._array = None
    return self


def _as_bytes(storage: Storage) -> Tensor:
    return view_of(storage, layouts.contiguous[(storage.nbytes(),), uint8, storage.device_state], 0)


def _new_storage(device_state: DeviceState, nbytes: int) -> Storage:
    return empty(layouts.contiguous[(nbytes,), uint8, device_state])._storage


show_with(_as_bytes, _new_storage)


def wrap(array: NDArray[Any], layout: Layout | None = None) -> Tensor:
    """A CPU tensor over a C-contiguous array, whose memory it shares."""
    self: Tensor = _new(_class)
    self._storage = HostStorage(array)
    self._layout = layout or layouts.contiguous[array.shape, from_numpy(array.dtype), cpu]
    self._offset = 0
    self._autograd = self._base = None
    self._array = array
    return self


def maker(layout: Layout) -> Callable[..., Tensor]:
    """``empty(layout)`` with what it looks up looked up once; a caller that has the current stream at hand may pass it."""
    device_state = layout.device_state
    if not device_state.is_cuda:
        return lambda stream=None: empty(layout)
    size, allocate, local = layout.nbytes, device_state.allocate, device_state.local

    @whole
    def make(stream: Stream | None = None) -> Tensor:
        self: Tensor = _new(_class)
        self._layout = layout
        self._offset = 0
        self._autograd = self._base = self._array = None
        block = allocate(size, (stream or local.stream).cuda_stream)
        # As device_storage() would, without the call.
        self._storage = storage = DeviceStorage()
        storage.device_state = device_state
        storage.capacity = size
        storage.block = block
        storage.address = block.address
        storage.version = first_version() if inference_blocks.count else 0
        storage.plain = False
        return self

    if not is_placing(layout):
        return make

    def make_placed(stream: Stream | None = None) -> Tensor:
        waiting = local.placed
        return waiting.pop() if waiting and waiting[-1]._layout is layout else make(stream)

    return make_placed


def part_of(owner: Storage, capacity: int, address: int, layout: Layout, offset: int) -> Tensor:
    """A tensor in memory of its own at an address within that of another storage, which it holds. Nothing is checked."""
    self: Tensor = _new(_class)
    self._layout = layout
    self._offset = offset
    self._autograd = self._base = self._array = None
    # As ForeignStorage() would, without the call.
    self._storage = storage = _new(ForeignStorage)
    storage.device_state = layout.device_state
    storage.capacity = capacity
    storage.address = address
    storage.version = first_version() if inference_blocks.count else 0
    storage.plain = False
    storage.owner = owner
    return self


@whole
def empty(layout: Layout, *, pin_memory: bool = False) -> Tensor:
    """A tensor of new memory with undefined contents.

    On a device it is allocated for this thread's current stream there.
    """
    device_state = layout.device_state
    self: Tensor = _new(_class)
    self._layout = layout
    self._offset = 0
    self._autograd = self._base = None
    if device_state.is_cuda:
        self._array = None
        size, allocate = layout.nbytes, device_state.allocate
        block = allocate(size, device_state.local.stream.cuda_stream)
        self._storage = device_storage(device_state, size, block)
    elif pin_memory:
        self._array = None
        self._storage = PinnedStorage(layout.nbytes)
    elif layout.contiguous:
        try:
            self._array = array = host_memory.empty(layout.shape, layout.dtype.numpy, layout.nbytes)
        except (MemoryError, ValueError) as error:
            raise RuntimeError(
                f"not enough host memory: you tried to allocate {layout.nbytes} bytes for a tensor of shape "
                f"{list(layout.shape)}"
            ) from error
        self._storage = HostStorage(array)
    else:
        self._array = None
        self._storage = HostStorage(np.empty(layout.nbytes, np.uint8))
    return self


def check_tensor(argument: Any, function: str, what: str) -> None:
    """Check that an argument is a tensor.

    Raises
    ------
    TypeError
        If it is something else.
    """
    if not isinstance(argument, TensorBase):
        raise TypeError(f"{function}(): argument '{what}' must be Tensor, not {type(argument).__name__}")


def check_outs(out: Any, count: int, name: str) -> None:
    """Check that an argument ``out`` is so many tensors.

    Raises
    ------
    TypeError
        If it is something else.
    """
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"{name}(): argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) != count:
        raise TypeError(f"{name}(): argument 'out' must be tuple of {count} elements, but got {len(out)}")
    for position, each in enumerate(out):
        if not isinstance(each, TensorBase):
            raise TypeError(
                f"{name}(): expected Tensor as element {position} in argument 'out', but got {type(each).__name__}"
            )
