"""``Layout``: how the elements of a tensor lie in memory.

Layouts are shared: tensors of the same shape, strides, type and device nearly always have the very same
object. So whatever follows from a layout alone (the layout of a view, the kernel of an operation, its grid)
is worked out once and then found by the identity of layouts, with one look-up.
"""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nvrtc_kernels import layouts

from .arguments import checked_sizes
from .size import Size

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from nvrtc_kernels import dtypes

    from .devices import device as devices
    from .devices.state import DeviceState

_V = TypeVar("_V")

#: Entries after which a memory of results starts over: enough for any program's shapes, and bounded.
_LIMIT = 8192
_MOST = (1 << 63) - 1
_FAR = 1 << 56


class Memo(dict[Any, _V], Generic[_V]):
    """Results of a function of several arguments, by the tuple of arguments. Forgets all when full."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., _V]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: tuple[Hashable, ...]) -> _V:
        value = self._function(*key)
        if len(self) >= _LIMIT:
            self.clear()
        # Another thread may have been quicker: all get the same.
        return self.setdefault(key, value)


class Layout:
    """Shape, strides, dtype and device of a tensor's elements.

    Attributes
    ----------
    shape : Size
        Sizes of the dimensions.
    strides : tuple of int
        Steps between neighbours of a dimension, in elements; never negative.
    dtype : dtype
        Type of the elements.
    device_state : DeviceState
        The memory they are in, with what serves it.
    device : device
        The same as the public object.
    numel : int
        Number of elements.
    span : int
        Elements from the first to one past the last that is reached, 0 when there are none.
    nbytes : int
        ``span`` in bytes.
    contiguous, dense : bool
        Whether the elements lie in row-major order without gaps; or so in some order of the dimensions.
    """

    __slots__ = (
        "contiguous",
        "dense",
        "device",
        "device_state",
        "dtype",
        "itemsize",
        "nbytes",
        "numel",
        "numpy_strides",
        "shape",
        "span",
        "strides",
    )

    shape: Size
    strides: tuple[int, ...]
    dtype: dtypes.dtype
    device_state: DeviceState
    device: devices.device
    numel: int
    span: int
    nbytes: int
    itemsize: int
    contiguous: bool
    dense: bool
    #: Strides in bytes.
    numpy_strides: tuple[int, ...]

    def __init__(
        self, shape: Sequence[int], strides: Sequence[int], dtype: dtypes.dtype, device_state: DeviceState
    ) -> None:
        self.shape = Size.trusted(shape)
        self.strides = tuple(strides)
        self.dtype = dtype
        self.device_state = device_state
        self.device = device_state.device
        self.itemsize = dtype.itemsize
        self.numel = self.shape.numel()
        if self.numel > _MOST:
            raise RuntimeError(
                f"numel: integer multiplication overflow: shape {list(shape)} has {self.numel} elements, more than "
                "64 bits count"
            )
        self.span = layouts.extent(shape, strides)[1]
        self.nbytes = self.span * dtype.itemsize
        self.contiguous = layouts.is_contiguous(shape, strides)
        self.dense = self.contiguous or layouts.is_dense(shape, strides)
        # Where there is one element at most, no matter how far away the next one would be.
        self.numpy_strides = tuple(
            [stride * dtype.itemsize if stride < _FAR else 0 for stride in self.strides]
        )

    def __repr__(self) -> str:
        return f"<Layout {list(self.shape)} strides {list(self.strides)} {self.dtype} on {self.device}>"

    def with_strides(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
        """Layout of other elements of the same dtype and device."""
        return strided[shape, strides, self.dtype, self.device_state]

    def with_dtype(self, dtype: dtypes.dtype) -> Layout:
        """Layout of the same shape and strides for elements of another type."""
        return self if dtype is self.dtype else strided[self.shape, self.strides, dtype, self.device_state]

    def on(self, device_state: DeviceState) -> Layout:
        """The same layout elsewhere."""
        return (
            self
            if device_state is self.device_state
            else strided[self.shape, self.strides, self.dtype, device_state]
        )

    def as_contiguous(self) -> Layout:
        """Row-major layout of the same shape."""
        return self if self.contiguous else contiguous[self.shape, self.dtype, self.device_state]

    def as_dense(self) -> Layout:
        """Layout that ``empty_like`` gives: the order of dimensions is kept, without gaps.

        For a tensor that is not dense, dimensions keep their order by stride, as in PyTorch.
        """
        return self if self.dense else _dense[self,]


def _dense_layout(layout: Layout) -> Layout:
    return layout.with_strides(layout.shape, layouts.dense_strides_like(layout.shape, layout.strides))


def _contiguous_layout(shape: tuple[int, ...], dtype: dtypes.dtype, device_state: DeviceState) -> Layout:
    checked_sizes(shape)
    return strided[shape, layouts.contiguous_strides(shape), dtype, device_state]


class _Shared(Memo[Layout]):
    """The layouts there are. When full it forgets those that nobody has: the others stay the only ones of their kind."""

    __slots__ = ("limit",)

    def __init__(self) -> None:
        super().__init__(Layout)
        self.limit = _LIMIT

    def __missing__(self, key: tuple[Hashable, ...]) -> Layout:
        value = Layout(*key)  # type: ignore[arg-type]
        if len(self) >= self.limit:
            self._forget()
        return self.setdefault(key, value)

    def _forget(self) -> None:
        # What is found in another way is found again.
        contiguous.clear()
        _dense.clear()
        for key in list(self):
            # This dictionary refers to it, and getrefcount's argument.
            if getrefcount(self.get(key)) == 2:
                value = self.pop(key, None)
                # The name refers to it, and the argument: and whoever looked it up in the meantime.
                if value is not None and getrefcount(value) > 2:
                    self.setdefault(key, value)
        self.limit = max(_LIMIT, 2 * len(self))


#: ``strided[shape, strides, dtype, device_state]``: the shared layout. Shapes and strides are tuples of int.
strided: Memo[Layout] = _Shared()
#: ``contiguous[shape, dtype, device_state]``: the shared row-major layout. Raises for sizes that make no tensor.
contiguous: Memo[Layout] = Memo(_contiguous_layout)
_dense: Memo[Layout] = Memo(_dense_layout)
