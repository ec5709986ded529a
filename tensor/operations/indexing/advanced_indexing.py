"""Elements that index tensors select: how they are read, written and added to, on the host and on devices.

An :class:`Indexing` says which elements. The operations below carry something out on them; what is recorded for
derivatives is in :mod:`.recorded_indexing`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import accumulation, gathering, indexing, scattering
from nvrtc_kernels.dtypes import STORAGE_ONLY
from tensor.core.base import empty, maker
from tensor.core.layout import contiguous
from tensor.core.plans import planned
from tensor.operations import scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


class Indexing:
    """Which elements of a tensor index tensors select.

    Attributes
    ----------
    name : str
        The operation that users called: errors and kernels have it.
    mode : str
        ``"advanced"`` (``x[i, :, j]``), ``"along"`` (slices of ``dim``), ``"elementwise"`` (an index for every
        element along ``dim``) or ``"flat"`` (row-major positions).
    dim : int
        The dimension, for two of the kinds.
    indices : tuple
        Index tensors; ``None`` for a whole dimension.
    """

    __slots__ = ("dim", "indices", "mode", "name")

    def __init__(self, name: str, mode: str, indices: Sequence[Tensor | None], dim: int = 0) -> None:
        self.name = name
        self.mode = mode
        self.dim = dim
        self.indices = tuple(indices)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The index tensors."""
        return tuple([index for index in self.indices if index is not None])

    def key(self) -> tuple[Any, ...]:
        """What decides, with the indexed tensor's layout, how the work is done."""
        return (self.name, self.mode, self.dim, *[None if x is None else x._layout for x in self.indices])

    def named(self, name: str) -> Indexing:
        """The same indexing, for the operation ``name``."""
        return Indexing(name, self.mode, self.indices, self.dim)

    def without_tensors(self) -> Indexing:
        """The same with the layouts of the index tensors in place of them."""
        layouts: list[Any] = [None if x is None else x._layout for x in self.indices]
        return Indexing(self.name, self.mode, layouts, self.dim)

    def by(self, tensors: Sequence[Tensor]) -> Indexing:
        """The same indexing by other index tensors of the same layouts."""
        rest = iter(tensors)
        result = [None if x is None else next(rest) for x in self.indices]
        return Indexing(self.name, self.mode, result, self.dim)


def selection_of(
    layout: Layout, name: str, mode: str, dim: int, indices: Sequence[Layout | None]
) -> indexing.Selection:
    """What an indexing of tensors of ``layout`` by tensors of the layouts ``indices`` selects: see :class:`Indexing`."""
    array = (layout.shape, layout.strides, layout.dtype)
    argument = [None if x is None else (x.shape, x.strides, x.dtype) for x in indices]
    if mode == "advanced":
        return indexing.advanced(array, argument)
    (index,) = argument
    assert index is not None
    if mode == "along":
        return indexing.along(array, dim, index, wrap=name == "index_fill")
    return indexing.elementwise(array, dim, index) if mode == "elementwise" else indexing.flat(array, index)


def _shape_plan(layout: Layout, name: str, mode: str, dim: int, *indices: Layout | None) -> tuple[int, ...]:
    """Shape of what is selected from tensors of ``layout``."""
    result = selection_of(layout, name, mode, dim, indices)
    # A number, and indices that are one, count as vectors of one element.
    one = (mode == "elementwise" and indices[0] is not None and not indices[0].shape) or (
        mode == "along" and not layout.shape
    )
    return () if one else result.shape


_SHAPE = planned(_shape_plan, takes=STORAGE_ONLY)


def shape_of(layout: Layout, indexing: Indexing) -> tuple[int, ...]:
    """Shape of what is selected from a tensor of ``layout``."""
    result: tuple[int, ...] = layout.device_state.plans[_SHAPE, layout, *indexing.key()]
    return result


def _read_plan(
    layout: Layout, name: str, mode: str, dim: int, *indices: Layout | None
) -> Callable[..., Tensor]:
    """What reads from tensors of ``layout``.

    ``device_state.plans[READ, layout, *indexing.key()](input, index tensors)`` is a new tensor.
    """
    selection = selection_of(layout, name, mode, dim, indices)
    shape = _SHAPE.plan(layout, name, mode, dim, *indices)
    out = contiguous[shape, layout.dtype, layout.device_state]
    if not layout.device_state.is_cuda:
        return _host_read(out, _HostPositions(name, mode, dim, layout, indices))
    device_state = layout.device_state
    strides = out.strides if shape == selection.shape else (1,) * len(selection.shape)
    run = gathering.plan(device_state.native, name, selection, strides)
    local, make = device_state.local, maker(out)

    def read(input: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        result = make()
        run(local.stream.handle, result._address, input._address, *[x._address for x in tensors])
        return result

    return read


def _change_plan(
    device: Callable[..., Callable[..., None]],
    host: Callable[[Array, Array, Array], None],
    layout: Layout,
    name: str,
    mode: str,
    dim: int,
    *rest: Layout | None,
) -> Callable[..., None]:
    """What changes tensors of ``layout``.

    ``device_state.plans[operation, layout, *indexing.key(), values](target, index tensors, values)`` writes.

    Parameters
    ----------
    device
        ``device(device_state, name, selection, values)`` plans it on a device.
    host
        ``host(flat, positions, values)`` does it to a vector on the host.
    """
    *indices, values = rest
    assert values is not None
    if not layout.device_state.is_cuda:
        return _host_change(host, _HostPositions(name, mode, dim, layout, indices))
    selection = selection_of(layout, name, mode, dim, indices)
    operand = (values.strides if values.shape else (1,) * len(selection.shape), values.dtype)
    return device(layout.device_state, name, selection, operand)


# On devices


def _device_write(device_state: Any, name: str, selection: Any, values: Any) -> Callable[..., None]:
    run = scattering.plan(device_state.native, name, selection, values[0])
    local = device_state.local

    def write(target: Tensor, tensors: Sequence[Tensor], source: Tensor) -> None:
        run(local.stream.handle, target._address, source._address, *[x._address for x in tensors])

    return write


def _device_reduce(reducer: str, *, deterministic: bool) -> Callable[..., Callable[..., None]]:
    def plan(device_state: Any, name: str, selection: Any, values: Any) -> Callable[..., None]:
        kernels = accumulation.plan(
            device_state.native, name, reducer, selection, values, deterministic=deterministic
        )

        def reduce(target: Tensor, tensors: Sequence[Tensor], source: Tensor) -> None:
            addresses = [x._address for x in tensors]
            scratch.launch(device_state, kernels, target._address, source._address, *addresses)

        return reduce

    return plan


# On the host


class _HostPositions:
    """From index arrays to the selected elements' positions in row-major order, checked."""

    def __init__(
        self, name: str, mode: str, dim: int, layout: Layout, indices: Sequence[Layout | None]
    ) -> None:
        self.name = name
        self.mode = mode
        self.dim = dim
        self.shape = tuple(layout.shape) or (1,)
        # PyTorch's classes of error, which programs may catch.
        self.error = RuntimeError if mode == "elementwise" or name == "index_add" else IndexError
        self.selection = selection_of(layout, name, mode, dim, indices)
        steps = [prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        self.sizes = [prod(self.shape)] if mode == "flat" else [self.shape[a] for a in self.selection.indexed]
        self.steps = [1] if mode == "flat" else [steps[axis] for axis in self.selection.indexed]
        chosen = self.selection.shape
        #: Where indices do not matter: the positions of the elements of the other dimensions.
        self.whole: Any = 0
        for position, axis in enumerate(self.selection.axes):
            if axis is not None:
                self.whole = self.whole + self._ramp(position, chosen, steps[axis])

    @staticmethod
    def _ramp(position: int, shape: Sequence[int], step: int) -> Array:
        sizes = [shape[position] if axis == position else 1 for axis in range(len(shape))]
        return (np.arange(shape[position], dtype=np.int64) * step).reshape(sizes)

    def __call__(self, tensors: Sequence[Tensor]) -> Array:
        """Positions, in the shape of what is selected."""
        shape = self.selection.shape
        positions: Any = self.whole
        for x, size, step, axis in zip(tensors, self.sizes, self.steps, self.selection.indexed, strict=False):
            index = self._checked(x._host, size, axis)
            positions = positions + index.reshape(self._per_channel(index.shape)) * step
        return np.broadcast_to(positions, shape)

    def _per_channel(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """``shape`` of an index array among the dimensions of what is selected."""
        count, positions = len(self.selection.shape), self.selection.positions
        sizes = [1] * count
        for size, position in zip(reversed(shape), reversed(positions), strict=False):
            sizes[position] = size
        return tuple(sizes)

    def _checked(self, index: Array, size: int, axis: int) -> Array:
        if not index.size or not prod(self.selection.shape):
            return index
        low, high = int(index.min()), int(index.max())
        if high >= size or low < (-size if self.selection.wrap else 0):
            wrong = high if high >= size else low
            where = "a tensor" if self.mode == "flat" else f"dimension {axis}"
            raise self.error(f"{self.name}(): index {wrong} is out of bounds for {where} with size {size}")
        return np.where(index < 0, index + size, index) if low < 0 else index


def _host_read(out: Layout, positions: _HostPositions) -> Callable[..., Tensor]:
    shape = positions.shape
    one = positions.mode == "along" or (
        positions.mode == "advanced" and len(positions.selection.indexed) == 1
    )
    rows = one and len(shape) > 1
    axis = positions.selection.indexed[0] if rows else 0

    def read(input: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        result = empty(out)
        if not out.numel:
            positions(tensors)
            return result
        array = input._host
        if rows:
            # Whole slices: one move of memory for each.
            index = positions._checked(tensors[0]._host, shape[axis], axis)
            target = result._writable.reshape(*shape[:axis], -1, *shape[axis + 1 :])
            np.take(array, index.reshape(-1), axis=axis, out=target, mode="clip")
        else:
            target = result._writable.reshape(positions.selection.shape)
            np.take(array.reshape(-1), positions(tensors), out=target, mode="clip")
        return result

    return read


def _host_change(
    apply: Callable[[Array, Array, Array], None], positions: _HostPositions
) -> Callable[..., None]:
    def change(target: Tensor, tensors: Sequence[Tensor], source: Tensor) -> None:
        chosen = positions(tensors)
        if not chosen.size:
            return
        array = target._writable
        values = np.broadcast_to(source._host, chosen.shape).reshape(-1)
        # A vector, in which NumPy is fastest; a copy where the elements are not in row-major order.
        flat = array.reshape(-1)
        apply(flat, chosen.reshape(-1), values)
        if not np.may_share_memory(flat, array):
            array[...] = flat.reshape(array.shape)

    return change


def _assign(flat: Array, positions: Array, values: Array) -> None:
    flat[positions] = values


def _host_reduce(ufunc: np.ufunc) -> Callable[[Array, Array, Array], None]:
    def reduce(flat: Array, positions: Array, values: Array) -> None:
        if flat.dtype.itemsize == 2 and flat.dtype.kind not in "iub":
            # Half precision is added up in single.
            single = flat.astype(np.float32)
            ufunc.at(single, positions, values.astype(np.float32))
            flat[...] = single.astype(flat.dtype)
        else:
            with np.errstate(all="ignore"):
                ufunc.at(flat, positions, values)

    return reduce


READ = planned(_read_plan, takes=STORAGE_ONLY)
WRITE = planned(_change_plan, _device_write, _assign, takes=STORAGE_ONLY)
_UFUNCS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
#: As WRITE, and of several values for an element it is the last one that stays.
WRITE_LAST = planned(_change_plan, _device_reduce("last", deterministic=True), _assign, takes=STORAGE_ONLY)
#: By (reducer, whether the result must be the same in every run).
REDUCE = {
    (name, deterministic): planned(
        _change_plan, _device_reduce(name, deterministic=deterministic), _host_reduce(ufunc)
    )
    for name, ufunc in _UFUNCS.items()
    for deterministic in (False, True)
}
