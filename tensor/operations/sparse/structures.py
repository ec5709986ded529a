"""Where the elements of sparse tensors are: numbering, sorting, joining and converting that. Nothing here has a gradient."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import bool_, int64
from nvrtc_kernels.layouts import contiguous_strides
from tensor.core.sparse import Compressed, Coordinates
from tensor.operations.creation.ranges import arange
from tensor.operations.indexing.gather import nonzero_positions
from tensor.operations.indexing.searching import searchsorted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.sparse import Structure
    from tensor.methods.tensor import Tensor

_MOST = (1 << 63) - 1


def indices_of(structure: Structure) -> Tensor:
    """Coordinates of all elements, of shape (dimensions, elements)."""
    if isinstance(structure, Coordinates):
        return structure.indices
    rows, columns = rows_and_columns(structure)
    return rows.new_empty((2, 0)) if not structure.count else _pair(rows, columns)


def _pair(rows: Tensor, columns: Tensor) -> Tensor:
    result = rows.new_empty((2, rows._layout.numel))
    result[0] = rows
    result[1] = columns
    return result


def rows_and_columns(structure: Structure) -> tuple[Tensor, Tensor]:
    """Row and column of each element of a matrix."""
    if isinstance(structure, Coordinates):
        return structure.indices[0], structure.indices[1]
    plain = structure.plain.to(int64)
    repeated = _numbered(structure.starts, structure.count)
    return (plain, repeated) if structure.by_columns else (repeated, plain)


def _numbered(starts: Tensor, count: int) -> Tensor:
    """For each element the row that it is in, where rows start at ``starts``."""
    device = starts.device
    if not count:
        return starts.new_empty(0, dtype=int64)
    return searchsorted(starts.to(int64), arange(count, device=device), right=True) - 1


def keys_of(indices: Tensor, shape: Sequence[int]) -> Tensor:
    """The number of each element among all that a tensor of this shape has, in row-major order.

    Raises
    ------
    RuntimeError
        If 64 bits do not count them.
    """
    sizes = shape[: indices._layout.shape[0]]
    if prod(sizes) > _MOST:
        raise RuntimeError(
            f"a sparse tensor of shape {list(shape)} has more elements than 64 bits count: they cannot be put in order"
        )
    if len(sizes) == 1:
        return indices[0]
    if not sizes:
        return indices.new_zeros(indices._layout.shape[1])
    steps = contiguous_strides(tuple(sizes))
    result = indices[0] * steps[0]
    for each, step in zip(indices[1:], steps[1:], strict=True):
        result = result + (each if step == 1 else each * step)
    return result


def coordinates_of(keys: Tensor, sizes: Sequence[int]) -> Tensor:
    """The inverse of :func:`keys_of`: coordinates, of shape (dimensions, elements)."""
    result = keys.new_empty((len(sizes), keys._layout.numel))
    for dim in range(len(sizes) - 1, -1, -1):
        result[dim] = keys % max(sizes[dim], 1)
        keys = keys // max(sizes[dim], 1)
    return result


@dataclass(frozen=True, slots=True)
class Groups:
    """Elements of equal keys.

    Attributes
    ----------
    count : int
        How many different keys there are.
    number : Tensor
        For each element which of them it has, in ascending order of keys.
    first : Tensor
        For each key the first element that has it.
    keys : Tensor
        The different keys in ascending order.
    """

    count: int
    number: Tensor
    first: Tensor
    keys: Tensor


def grouped(keys: Tensor) -> Groups:
    """Elements by their keys. The host waits for the number of different ones."""
    total = keys._layout.numel
    if not total:
        return Groups(0, keys, keys, keys)
    ordered, order = keys.sort(stable=True)
    begins = keys.new_empty(total, dtype=bool_)
    begins[:1] = True
    begins[1:] = ordered[1:] != ordered[:-1]
    number = keys.new_empty(total).index_copy_(0, order, begins.to(int64).cumsum(0) - 1)
    positions = nonzero_positions(begins).reshape(-1)
    return Groups(
        positions._layout.numel, number, order.index_select(0, positions), ordered.index_select(0, positions)
    )


def row_starts(rows: Tensor, count: int) -> Tensor:
    """Where each of ``count`` rows starts among elements that lie row by row, and at last how many there are."""
    return searchsorted(rows, arange(count + 1, device=rows.device))


def expanded(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers from 0 to each count, one after the other: for each of them whose it is, and the number itself.

    The host waits for how many there are.
    """
    ends = counts.cumsum(0)
    total = int(ends[-1]) if ends._layout.numel else 0
    numbers = arange(total, device=counts.device)
    if not total:
        return numbers, numbers
    owner = searchsorted(ends, numbers, right=True)
    return owner, numbers - (ends - counts).index_select(0, owner)


def search_keys(keys: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """Where ``keys`` are in the ascending ``among``, which is not empty, and whether they are there."""
    positions = searchsorted(among, keys).clamp_(max=among._layout.numel - 1)
    return positions, among.index_select(0, positions) == keys


def compressed(
    structure: Coordinates, shape: Sequence[int], *, by_columns: bool
) -> tuple[Compressed, Tensor | None]:
    """A coalesced matrix row by row, or column by column; for that, in which order its elements are then."""
    rows, columns = structure.indices[0], structure.indices[1]
    if not by_columns:
        return Compressed(
            row_starts(rows.contiguous(), shape[0]), columns.contiguous(), by_columns=False
        ), None
    ordered, order = columns.sort(stable=True)
    return Compressed(row_starts(ordered, shape[1]), rows.index_select(0, order), by_columns=True), order


def transposed(structure: Compressed) -> Compressed:
    """The transpose, whose elements are the same in the same order."""
    return Compressed(structure.starts, structure.plain, by_columns=not structure.by_columns)


def same(a: Structure, b: Structure) -> bool:
    """Whether two structures are known to be one, without a look at their elements."""
    if a is b:
        return True
    if type(a) is not type(b) or a.layout_name is not b.layout_name:
        return False
    return all(_same_memory(x, y) for x, y in zip(a.tensors(), b.tensors(), strict=True))


def equal_on_host(a: Structure, b: Structure) -> bool:
    """Whether two structures of CPU tensors have equal indices; False on a device, where the host would have to wait."""
    if type(a) is not type(b) or a.layout_name is not b.layout_name or a.count != b.count:
        return False
    pairs = list(zip(a.tensors(), b.tensors(), strict=True))
    if any(x._layout.device_state.is_cuda or y._layout.device_state.is_cuda for x, y in pairs):
        return False
    return all(np.array_equal(x._host, y._host) for x, y in pairs)


def _same_memory(x: Any, y: Any) -> bool:
    return x is y or (x._storage is y._storage and x._offset == y._offset and x._layout is y._layout)
