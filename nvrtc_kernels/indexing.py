"""Advanced indexing: the elements of a tensor that index tensors select, and what the kernels that read or write them share.

A :class:`Selection` is made from layouts alone, by the way in which indices are meant:

===================  ===============================================================================
:func:`advanced`     ``t[i, :, j]``: index tensors that are broadcast together, among whole dimensions
:func:`along`        ``index_select``, ``index_add``, ...: slices along one dimension
:func:`elementwise`  ``gather``, ``scatter``, ...: an index for every element, along one dimension
:func:`flat`         ``take``, ``put``: row-major indices, whatever the strides
===================  ===============================================================================

What is done to them is decided apart from it: :mod:`.gathering` reads, :mod:`.scattering` writes and
:mod:`.accumulation` adds.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from . import plans
from .dtypes import int32, int64
from .layouts import broadcast_shapes, broadcast_strides, collapse, extent, stride_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype
    from .layouts import Ints

THREADS = 256
MAX_GRID = (1 << 31) - 1
#: Elements below which a thread for each hides latency better than fewer threads with several.
FEW = 1 << 15
UNROLL = 4
#: Words that elements are moved as, by their bytes.
WORDS = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned int",
    8: "unsigned long long",
    16: "Pack<unsigned long long, 2>",
}

#: Shape, strides in elements, and type of a tensor.
Array = tuple["Sequence[int]", "Sequence[int]", "dtype"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The elements of a tensor that index tensors select, in the shape of the result of reading them.

    Attributes
    ----------
    array : tuple
        Shape, strides and type of the indexed tensor.
    shape : tuple of int
        Shape of the selection: of the result of a read, and of the values of a write.
    axes : tuple
        The indexed tensor's dimension that each dimension of ``shape`` walks along; ``None`` where indices
        say where to go.
    indexed : tuple of int
        The dimension that each index tensor indexes; all of them, where one counts in row-major order.
    indices : tuple of tuple of int
        Strides of each index tensor over ``shape``.
    index : dtype
        Type of the index tensors, int32 or int64.
    flat : bool
        One index tensor counts elements in row-major order.
    wrap : bool
        Whether negative indices count from the end. Otherwise they are out of bounds.
    positions : tuple of int
        Dimensions of ``shape`` that index tensors have; the others are sliced whole.
    """

    array: Array
    shape: Ints
    axes: tuple[int | None, ...]
    indexed: Ints
    indices: tuple[Ints, ...]
    index: dtype
    positions: Ints
    flat: bool = False
    wrap: bool = True

    @property
    def strides(self) -> Ints:
        """Strides of the indexed tensor over ``shape``, 0 where indices say where to go."""
        return tuple(0 if axis is None else self.array[1][axis] for axis in self.axes)

    @property
    def element_dtype(self) -> dtype:
        """Type of the elements."""
        return self.array[2]

    def over(self, strides: Sequence[int], dtype: dtype) -> Selection:
        """The same selection from a tensor of other strides and another dtype."""
        return replace(self, array=(self.array[0], strides, dtype))


def advanced(array: Array, indices: Sequence[Array | None]) -> Selection:
    """What ``array[indices]`` chooses.

    Parameters
    ----------
    indices
        Shape, strides and type of the index tensor of each dimension, ``None`` for a whole dimension;
        dimensions that are left out at the end are whole.

    Raises
    ------
    IndexError
        For more indices than dimensions, none at all, or shapes that cannot be broadcast together.
    TypeError
        For index tensors that are neither int32 nor int64, or not all the same.
    """
    rank = len(array[0])
    if len(indices) > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    present = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if not present:
        raise IndexError("advanced indexing needs an index tensor; all dimensions were left whole")
    index = _index_type(*(each[2] for _, each in present))
    try:
        common = broadcast_shapes(*(each[0] for _, each in present))
    except RuntimeError as error:
        shapes = ", ".join(str(list(each[0])) for _, each in present)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from error
    indexed = [axis for axis, _ in present]
    # What is indexed stands where the index tensors stand if those are neighbours, and else first.
    lead = indexed[0] if indexed == list(range(indexed[0], indexed[0] + len(indexed))) else 0
    whole = [axis for axis in range(rank) if axis not in indexed]
    before, after = whole[:lead], whole[lead:]
    shape = (*(array[0][a] for a in before), *common, *(array[0][a] for a in after))
    strides = tuple(
        (0,) * len(before) + broadcast_strides(each[0], each[1], common) + (0,) * len(after)
        for _, each in present
    )
    axes = (*before, *(None for _ in common), *after)
    positions = tuple(range(lead, lead + len(common)))
    return Selection(array, shape, axes, tuple(indexed), strides, index, positions)


def along(array: Array, dim: int, index: Array, *, wrap: bool = False) -> Selection:
    """Slices of ``array`` along ``dim`` that a one-dimensional index tensor chooses.

    A tensor and an index without dimensions count as having one.

    Raises
    ------
    IndexError
        For an index tensor of several dimensions.
    TypeError
        For an index tensor that is neither int32 nor int64.
    """
    array, index = _at_least_one(array), _at_least_one(index)
    if len(index[0]) != 1:
        raise IndexError(f"expected an index tensor of 0 or 1 dimensions, got {len(index[0])}")
    rank = len(array[0])
    shape = (*array[0][:dim], index[0][0], *array[0][dim + 1 :])
    strides = tuple(index[1][0] if axis == dim else 0 for axis in range(rank))
    axes = tuple(None if axis == dim else axis for axis in range(rank))
    return Selection(array, shape, axes, (dim,), (strides,), _index_type(index[2]), (dim,), wrap=wrap)


def elementwise(array: Array, dim: int, index: Array) -> Selection:
    """Elements of ``array`` with an index each that replaces their own along ``dim``.

    Raises
    ------
    RuntimeError
        For an index tensor with another number of dimensions, or larger in another dimension than ``dim``.
    TypeError
        For an index tensor that is neither int32 nor int64.
    """
    array, index = _at_least_one(array), _at_least_one(index)
    sizes, limits = index[0], array[0]
    if len(sizes) != len(limits):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as the tensor it indexes: "
            f"{len(sizes)} and {len(limits)} were given"
        )
    large = [axis for axis, size in enumerate(sizes) if axis != dim and size > limits[axis]]
    if large and 0 not in sizes:
        raise RuntimeError(
            f"Size does not match at dimension {large[0]}: expected index {list(sizes)} to be no larger "
            f"than {list(limits)} apart from dimension {dim}"
        )
    everywhere = tuple(range(len(sizes)))
    axes = tuple(None if axis == dim else axis for axis in everywhere)
    return Selection(
        array, tuple(sizes), axes, (dim,), (tuple(index[1]),), _index_type(index[2]), everywhere, wrap=False
    )


def flat(array: Array, index: Array) -> Selection:
    """Elements of ``array`` by their row-major indices; negative ones count from the end.

    Raises
    ------
    TypeError
        For an index tensor that is neither int32 nor int64.
    """
    shape = tuple(index[0])
    everywhere = tuple(range(len(array[0])))
    none = (None,) * len(shape)
    axes = tuple(range(len(shape)))
    return Selection(
        array, shape, none, everywhere, (tuple(index[1]),), _index_type(index[2]), axes, flat=True
    )


def _index_type(*types: dtype) -> dtype:
    if any(each not in (int32, int64) for each in types) or len(set(types)) > 1:
        names = ", ".join(map(repr, types))
        raise TypeError(
            f"index tensors must be all int32 or all int64, got {names}; convert them, and masks with nonzero()"
        )
    return types[0]


def _at_least_one(array: Array) -> Array:
    return array if array[0] else ((1,), (1,), array[2])


@dataclass(frozen=True, slots=True)
class Walk:
    """Geometry of a kernel over a selection, packed into its arguments.

    Attributes
    ----------
    count : int
        Words that are moved.
    word : int
        Bytes of each.
    declarations : str
        The types ``Walk`` and ``Lookup`` in CUDA C++.
    arguments : tuple
        ``walk``, ``lookup`` and ``count`` of the kernel; ``codes`` for :func:`drv.prepare`.
    """

    count: int
    word: int
    declarations: str
    arguments: tuple[bytes, bytes, int]
    codes: tuple[int, int, str]


def walk(selection: Selection, plain: Sequence[int], *, width: int = 16, widen: bool = True) -> Walk:
    """Geometry of a kernel that walks over ``selection`` and a plain operand of given strides.

    Dimensions are ordered by strides, the innermost of the plain operand last, and merged where they can
    be. With ``widen``, neighbours in memory are taken together as words of up to ``width`` bytes; their
    addresses must then be multiples of that.
    """
    base = selection.strides
    order = stride_order(selection.shape, plain, base, *selection.indices)[::-1]
    columns = [[steps[axis] for axis in order] for steps in (plain, base, *selection.indices)]
    sizes, strides = collapse([selection.shape[axis] for axis in order], *columns)
    shape, array_strides, dtype = selection.array
    targets, steps = _lookup(selection)
    word = dtype.itemsize
    if widen and not selection.flat:
        word = _widest(word, sizes, strides, steps, width)
    if word > dtype.itemsize:
        per = word // dtype.itemsize
        sizes = (*sizes[:-1], sizes[-1] // per)
        # Neighbours are one word now; everything else is so many words away.
        moved = tuple(tuple(step // per for step in each[:-1]) + (each[-1],) for each in strides[:2])
        strides = (*moved, *strides[2:])
        steps = tuple(step // per for step in steps)
    count = prod(sizes)
    reaches = [extent(sizes, each)[1] for each in strides]
    span = max(count, extent(shape, array_strides)[1], *reaches, *targets)
    index, code = ("unsigned int", "I") if span < 1 << 31 else ("long long", "q")
    walk_numbers = [*sizes, *(step for each in strides for step in each)]
    lookup_numbers = [*([prod(targets)] if selection.flat else []), *targets, *steps]
    packed = struct.pack(f"={len(walk_numbers)}{code}", *walk_numbers)
    packed_lookup = struct.pack(f"={len(lookup_numbers)}{code}", *lookup_numbers)
    lookup = "Flattened" if selection.flat else "Dimensions"
    declarations = (
        f"typedef Geometry<{len(sizes)}, {len(strides)}, {index}> Walk;\n"
        f"typedef {lookup}<{len(targets)}, {'true' if selection.wrap else 'false'}, {index}> Lookup;\n"
    )
    codes = (len(packed), len(packed_lookup), code)
    return Walk(count, word, declarations, (packed, packed_lookup, count), codes)


def _lookup(selection: Selection) -> tuple[Ints, Ints]:
    """Sizes and strides by which indices are looked up."""
    shape, strides, _ = selection.array
    if not selection.flat:
        axes = selection.indexed
        return tuple(shape[axis] for axis in axes), tuple(strides[axis] for axis in axes)
    if 0 in shape:
        return (0,), (1,)
    sizes, (steps,) = collapse(shape, strides)
    return sizes, steps


def _widest(itemsize: int, sizes: Ints, strides: tuple[Ints, ...], steps: Ints, width: int) -> int:
    """Bytes of the widest word that the innermost dimension of both operands is made of."""
    plain, base, *indices = strides
    if base[-1] != 1 or plain[-1] != 1 or any(each[-1] for each in indices):
        return itemsize
    moves = [sizes[-1], *plain[:-1], *base[:-1], *steps]
    words = (each for each in WORDS if itemsize < each <= width)
    return max((each for each in words if all(n * itemsize % each == 0 for n in moves)), default=itemsize)


def bounds(operation: str, selection: Selection) -> str:
    """The type ``Bounds`` in CUDA C++, which says what is wrong with an index and fails an assertion."""
    extent = "tensor with %lld elements" if selection.flat else "dimension %lld with size %lld"
    axes = ", ".join(map(str, selection.indexed)) or "0"
    numbers = "size" if selection.flat else "dimension[tensor], size"
    return (
        "struct Bounds {\n    static __device__ void check(bool inside, int tensor, long long index, long long size) {\n"
        "        if (inside) return;\n"
        + ("" if selection.flat else f"        const long long dimension[] = {{{axes}}};\n")
        + f'        printf("{operation}(): index %lld is out of bounds for {extent}\\n", index, {numbers});\n'
        f'        assert(inside && "{operation}(): index out of bounds");\n    }}\n}};\n'
    )


def index_parameters(selection: Selection) -> tuple[str, str]:
    """Parameters of a kernel for the index tensors, and the statement that puts them into ``index``."""
    names = [f"index{k}" for k in range(len(selection.indices))]
    index_type = selection.index.cuda
    parameters = "".join(f", const {index_type}* {name}" for name in names)
    return parameters, f"    const {index_type}* const index[] = {{{', '.join(names)}}};\n"


def unroll_and_grid(count: int) -> tuple[int, int]:
    """Elements that a thread takes at once, and blocks in the grid."""
    unroll = UNROLL if count >= FEW else 1
    return unroll, min(-(-count // (THREADS * unroll)), MAX_GRID)


def launcher(device: Device, name: str, source: str, codes: Sequence[str | int]) -> Callable[..., None]:
    """What launches the kernel ``name`` of ``source``."""
    return plans.launcher(device, f"{name}.cu", source, name, codes)


def nothing(*_: Any) -> None:
    """Nothing to compute: no launch."""
