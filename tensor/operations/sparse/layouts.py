"""Conversions between layouts, and the parts of a sparse tensor."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import check_tensor
from tensor.core.memory_format import layout as LayoutName
from tensor.core.memory_format import strided
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.sparse import (
    Compressed,
    Coordinates,
    is_sparse,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    sparse_tensor,
    storage_of,
)

from .parts import (
    as_coordinates,
    coalesced,
    dense_values_at,
    gathered,
    sparse_of,
    structure_of,
    values_at,
    values_of,
)
from .structures import compressed, indices_of, keys_of

if TYPE_CHECKING:
    from tensor.core.sparse import Structure
    from tensor.methods.tensor import Tensor

_NAMES = {sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", strided: "Strided"}


def _layout_name(x: Tensor) -> str:
    return _NAMES[x.layout]


def coordinates(x: Tensor, name: str) -> Coordinates:
    """The structure of a tensor that must be of the layout ``tensor.sparse_coo``.

    Raises
    ------
    RuntimeError
        If it is not.
    """
    structure = structure_of(x) if is_sparse(x) else None
    if not isinstance(structure, Coordinates):
        raise RuntimeError(
            f"{name} expected sparse coordinate tensor layout but got {_layout_name(x)}: convert it with to_sparse()"
        )
    return structure


def compressed_structure(x: Tensor, name: str, *, by_columns: bool | None) -> Compressed:
    """The structure of a matrix that must be compressed by rows, by columns, or either.

    Raises
    ------
    RuntimeError
        If it is not.
    """
    structure = structure_of(x) if is_sparse(x) else None
    if not isinstance(structure, Compressed) or by_columns not in (None, structure.by_columns):
        what = {True: "column ", False: "row ", None: ""}[by_columns]
        raise RuntimeError(
            f"{name} expected sparse {what}compressed tensor layout but got {_layout_name(x)}: convert it with "
            f"to_sparse_{'csc' if by_columns else 'csr'}()"
        )
    return structure


def to_dense(input: Tensor) -> Tensor:
    """The dense tensor of the same elements; a dense one itself."""
    if not is_sparse(input):
        return input
    x = coalesced(as_coordinates(input)) if isinstance(structure_of(input), Coordinates) else input
    structure, values, shape = structure_of(x), values_of(x), x._layout.shape
    count = structure.dimensions
    flat: Tensor = values.new_zeros((prod(shape[:count]), *shape[count:]))
    if structure.count:
        flat = flat.index_copy(0, keys_of(indices_of(structure), shape), values)
    elif modes.recording and values.requires_grad:
        # Even of no element the result has a history.
        flat = flat + values.sum()
    return flat.reshape(shape)


def to_coordinates(input: Tensor, sparse_dim: int | None = None) -> Tensor:
    """The tensor in the layout ``tensor.sparse_coo``, with so many sparse dimensions, by default all.

    Raises
    ------
    RuntimeError
        If it has not so many dimensions, or is sparse in another number of them.
    """
    if is_sparse(input):
        if sparse_dim is not None and sparse_dim != structure_of(input).dimensions:
            raise RuntimeError(
                f"to_sparse: conversion from {_layout_name(input)} to Sparse with sparse_dim argument different from "
                f"{structure_of(input).dimensions} is not supported: convert it with to_dense() first"
            )
        return as_coordinates(input)
    shape = input._layout.shape
    count = len(shape) if sparse_dim is None else sparse_dim
    if not 0 < count <= len(shape) and (count or shape):
        raise RuntimeError(
            f"sparse_dim argument must be in >0 (since dense tensor has {len(shape)} dimensions), and <= {len(shape)}, got "
            f"{count}"
        )
    mask = input.detach() != 0
    if count < len(shape):
        mask = mask.reshape(*shape[:count], prod(shape[count:])).any(-1)
    indices = mask.nonzero().t().contiguous()
    structure = Coordinates(indices, coalesced=True)
    return sparse_of(structure, dense_values_at(input, structure), shape, "ToSparseBackward0")


def to_compressed(input: Tensor, name: str, *, by_columns: bool, dense_dim: int | None = None) -> Tensor:
    """The matrix with its elements row by row, or column by column; itself if they are.

    Raises
    ------
    RuntimeError
        If it is no matrix.
    """
    layout_name = sparse_csc if by_columns else sparse_csr
    if is_sparse(input) and structure_of(input).layout_name is layout_name:
        return input
    shape = input._layout.shape
    count = len(shape) - (dense_dim or 0)
    if is_sparse(input):
        count = structure_of(input).dimensions
        if dense_dim is not None and dense_dim != len(shape) - count:
            raise RuntimeError(
                f"{name}: conversion from {_layout_name(input)} with dense_dim argument is not supported: its values have "
                f"{len(shape) - count} dense dimensions"
            )
    if count != 2:
        raise RuntimeError(
            f"{name}: only 2 sparse dimensions can be compressed, got {count} (a tensor of {len(shape)} dimensions): batches of "
            "matrices are not implemented; convert each, or give dense_dim"
        )
    x = coalesced(to_coordinates(input, 2))
    own = structure_of(x)
    assert isinstance(own, Coordinates)
    structure, order = compressed(own, shape, by_columns=by_columns)
    values = values_of(x)
    return sparse_of(
        structure, values if order is None else gathered(values, order), shape, "ToSparseBackward0"
    )


def to_layout(input: Tensor, layout_name: LayoutName, name: str, dense_dim: int | None = None) -> Tensor:
    """The tensor in a layout.

    Raises
    ------
    RuntimeError
        If it cannot be.
    """
    if layout_name is sparse_coo:
        shape = input._layout.shape
        return to_coordinates(input, None if dense_dim is None else len(shape) - dense_dim)
    if layout_name is strided:
        return to_dense(input)
    if layout_name not in (sparse_csr, sparse_csc):
        raise RuntimeError(f"{name}: conversion from {_layout_name(input)} to {layout_name!r} not supported")
    return to_compressed(input, name, by_columns=layout_name is sparse_csc, dense_dim=dense_dim)


def sparse_mask(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of ``input``, sparse or dense, at the indices of the sparse ``mask``."""
    check_tensor(mask, "sparse_mask", "mask")
    if not is_sparse(mask):
        raise RuntimeError(
            f"sparse_mask(): expected mask to be a sparse tensor, got one of layout {mask.layout!r}"
        )
    if mask._layout.shape != input._layout.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(input._layout.shape)} but mask has size "
            f"{list(mask._layout.shape)}"
        )
    if mask._layout.device_state is not input._layout.device_state:
        raise RuntimeError(
            f"sparse_mask(): Expected all tensors to be on the same device, but found at least two devices, {input.device} "
            f"and {mask.device}!"
        )
    structure = structure_of(mask)
    if not structure.coalesced:
        structure = structure_of(coalesced(mask.detach()))
    if not is_sparse(input):
        return sparse_of(
            structure, dense_values_at(input, structure), input._layout.shape, "SparseMaskBackward0"
        )
    if structure_of(input).dimensions != structure.dimensions:
        raise RuntimeError(
            f"sparse_mask(): expected mask to have the sparse dimensions of self, {structure_of(input).dimensions}, got "
            f"{structure.dimensions}"
        )
    with unrecorded():
        result = sparse_of(structure, values_at(input.detach(), structure), input._layout.shape)
    _MASK.record((result,), (input,), (), (structure,))
    return result


def _mask_gradient(grad: Tensor, structure: Structure) -> Tensor:
    return sparse_of(structure, values_at(grad, structure), grad._layout.shape)


_MASK = BackwardFormula("SparseMaskBackward0", "input", [Derivative(_mask_gradient, needs="")])


def copied(input: Tensor) -> Tensor:
    """A sparse tensor with memory of its own."""
    structure = structure_of(input)
    values = values_of(input).clone()
    return sparse_of(_copied_structure(structure), values, input._layout.shape, "CloneBackward0")


def _copied_structure(structure: Structure) -> Structure:
    if isinstance(structure, Coordinates):
        return Coordinates(structure.indices.clone(), coalesced=structure.coalesced)
    return Compressed(structure.starts.clone(), structure.plain.clone(), by_columns=structure.by_columns)


def moved(input: Tensor, *args: Any, **options: Any) -> Tensor:
    """The sparse tensor with another dtype or device; itself if it has both."""
    storage = storage_of(input)
    values = values_of(input).to(*args, **options)
    if values._storage is storage.values._storage:
        return input
    device = values._layout.device_state
    structure = storage.structure
    if device is not input._layout.device_state:
        moves = [
            each.to(values.device, non_blocking=options.get("non_blocking", False))
            for each in structure.tensors()
        ]
        if isinstance(structure, Coordinates):
            structure = Coordinates(moves[0], coalesced=structure.coalesced)
        else:
            structure = Compressed(moves[0], moves[1], by_columns=structure.by_columns)
    return sparse_of(structure, values, input._layout.shape, "ToCopyBackward0")


def detached(input: Tensor) -> Tensor:
    """The same tensor without its history."""
    layout: Any = input._layout
    return sparse_tensor(storage_of(input), layout)
