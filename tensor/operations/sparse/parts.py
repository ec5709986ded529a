"""What carries gradients between a sparse tensor and its values; all rules are made of it, and of dense operations.

A gradient with respect to a sparse tensor is a sparse tensor of the same structure, coalesced: the elements that are not
specified have none, and those that are named several times have one gradient, as their sum has.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import view_of
from tensor.core.size import Size
from tensor.core.sparse import (
    Coordinates,
    SparseLayout,
    SparseStorage,
    is_sparse,
    sparse,
    sparse_tensor,
    storage_of,
)
from tensor.operations.indexing.advanced_indexing import READ, REDUCE, Indexing
from tensor.operations.indexing.recorded_indexing import change_

from .structures import coordinates_of, grouped, indices_of, keys_of, same, search_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.sparse import Structure
    from tensor.methods.tensor import Tensor


def structure_of(x: Tensor) -> Structure:
    """Where the elements of a sparse tensor are."""
    return storage_of(x).structure


def plain(x: Tensor) -> Tensor:
    """The elements of a dense tensor without its history."""
    return view_of(x._storage, x._layout, x._offset)


def raw_values(x: Tensor) -> Tensor:
    """The values as they are kept, without a history."""
    return plain(storage_of(x).values)


def values_of(x: Tensor, name: str = "ValuesBackward0") -> Tensor:
    """The values of a sparse tensor, which they share memory with."""
    storage = storage_of(x)
    result = plain(storage.values)
    _values_formula(name).record((result,), (x,), (), (storage.structure, x._layout))
    return result


def _values_gradient(grad: Tensor, structure: Structure, layout: SparseLayout) -> Tensor:
    if structure.coalesced:
        return sparse_of(structure, grad, layout.shape)
    assert isinstance(structure, Coordinates)
    groups = grouped(keys_of(structure.indices, layout.shape))
    joined = Coordinates(structure.indices.index_select(1, groups.first), coalesced=True)
    return sparse_of(joined, gathered(grad, groups.first), layout.shape)


@cache
def _values_formula(name: str) -> BackwardFormula:
    return BackwardFormula(name, "input", [Derivative(_values_gradient, needs="")])


def sparse_of(
    structure: Structure,
    values: Tensor,
    shape: Sequence[int],
    name: str = "SparseCooTensorWithDimsAndTensorsBackward0",
) -> Tensor:
    """The sparse tensor of a structure and dense ``values``, whose memory it shares."""
    layout = values._layout
    own = sparse[Size.trusted(shape), layout.dtype, layout.device_state, structure.layout_name]
    result = sparse_tensor(SparseStorage(structure, plain(values)), own)
    _sparse_formula(name).record((result,), (values,), (), (structure,))
    return result


def _sparse_gradient(grad: Tensor, structure: Structure) -> Tensor:
    return values_at(grad, structure)


@cache
def _sparse_formula(name: str) -> BackwardFormula:
    return BackwardFormula(name, "values", [Derivative(_sparse_gradient, needs="")])


def values_at(x: Tensor, structure: Structure) -> Tensor:
    """The elements of ``x``, sparse or dense, at the indices of a structure; 0 where a sparse one has none."""
    if not is_sparse(x):
        return dense_values_at(x, structure)
    own = structure_of(x)
    if same(own, structure):
        return values_of(x)
    x = coalesced(as_coordinates(x))
    own = structure_of(x)
    shape = x._layout.shape
    values = values_of(x)
    indices = indices_of(structure)
    if not own.count or not structure.count:
        result: Tensor = values.new_zeros((structure.count, *values._layout.shape[1:]))
        return result
    positions, there = search_keys(keys_of(indices, shape), keys_of(indices_of(own), shape))
    mask = there.reshape(-1, *[1] * (len(values._layout.shape) - 1))
    return gathered(values, positions).masked_fill(~mask, 0)


def dense_values_at(x: Tensor, structure: Structure) -> Tensor:
    """The elements of a dense tensor at the indices of a structure."""
    shape = x._layout.shape
    count = structure.dimensions
    flat = x.reshape(prod(shape[:count]), *shape[count:])
    return gathered(flat, keys_of(indices_of(structure), shape))


def as_coordinates(x: Tensor) -> Tensor:
    """The sparse tensor in the layout ``tensor.sparse_coo``."""
    structure = structure_of(x)
    if isinstance(structure, Coordinates):
        return x
    indices, shape = indices_of(structure), x._layout.shape
    values = values_of(x)
    if structure.by_columns:
        order = keys_of(indices, shape).argsort(stable=True)
        indices, values = indices.index_select(1, order), gathered(values, order)
    return sparse_of(Coordinates(indices, coalesced=True), values, shape)


def coalesced(x: Tensor) -> Tensor:
    """The sparse tensor with one value for each index, in row-major order; itself if it is so.

    The gradient of it is the one of ``x``.
    """
    structure = structure_of(x)
    if structure.coalesced:
        return x
    assert isinstance(structure, Coordinates)
    layout: Any = x._layout
    values = storage_of(x).values
    groups = grouped(keys_of(structure.indices, layout.shape))
    sizes = layout.shape[: structure.dimensions]
    if structure.dimensions:
        indices = coordinates_of(groups.keys, sizes)
    else:
        indices = structure.indices[:, : groups.count]
    joined = Coordinates(indices, coalesced=True)
    result = sparse_tensor(SparseStorage(joined, sums(values, groups.number, groups.count)), layout)
    _COALESCE.record((result,), (x,))
    return result


_COALESCE = BackwardFormula("CoalesceBackward0", "input", [Derivative(lambda grad: grad, needs="")])


def gathered(values: Tensor, positions: Tensor) -> Tensor:
    """Rows of ``values`` at ``positions``; the gradient is the same in every run."""
    layout = values._layout
    indexing = Indexing("index_select", "along", (positions,), 0)
    result: Tensor = layout.device_state.plans[READ, layout, *indexing.key()](values, indexing.tensors)
    _GATHERED.record((result,), (values,), (positions,), (layout.shape[0],))
    return result


def sums(values: Tensor, positions: Tensor, count: int) -> Tensor:
    """``count`` rows, each the sum of the rows of ``values`` whose position is its number, in order: the same in every run."""
    layout = values._layout
    result: Tensor = values.new_zeros((count, *layout.shape[1:]))
    if layout.numel:
        indexing = Indexing("index_add", "along", (positions,), 0)
        change_(REDUCE["sum", True], result, indexing, plain(values))
    _SUMS.record((result,), (values,), (positions,))
    return result


_GATHERED = BackwardFormula(
    "IndexSelectBackward0",
    "values positions",
    [Derivative(lambda grad, positions, count: sums(grad, positions, count), needs="positions")],
)
_SUMS = BackwardFormula(
    "IndexAddBackward0",
    "values positions",
    [Derivative(lambda grad, positions: gathered(grad, positions), needs="positions")],
)
