"""Rules of operations that exchange, add, join and select dimensions of sparse tensors."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import promote_types
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import integers, two_devices
from tensor.core.base import check_tensor
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.sparse import Compressed, Coordinates, is_sparse
from tensor.operations.indexing.gather import nonzero_positions
from tensor.operations.indexing.searching import searchsorted
from tensor.operations.shapes.joining import cat as joined
from tensor.operations.sparse_rules import refusal, rule

from .elementwise import node, without_out
from .layouts import to_layout
from .parts import as_coordinates, coalesced, gathered, sparse_of, structure_of, values_of
from .products import transpose_of
from .structures import expanded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


def dimension(dim: int, rank: int) -> int:
    """A dimension counted from 0.

    Raises
    ------
    IndexError
        If there is none.
    """
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(rank, 1)}, {max(rank, 1) - 1}], but got {dim})"
        )
    return dim % max(rank, 1)


def _permuted(x: Tensor, order: Sequence[int], name: str) -> Tensor:
    """``x`` with its dimensions in another order; the gradient has it too, whatever its layout."""
    with unrecorded():
        result = _in_order(x.detach(), order)
    _permute_formula(name).record((result,), (x,), (), (tuple(order),))
    return result


@cache
def _permute_formula(name: str) -> BackwardFormula:
    return BackwardFormula(name, "input", [Derivative(_permute_gradient, needs="")])


def _permute_gradient(grad: Tensor, order: tuple[int, ...]) -> Tensor:
    return grad.permute(*(order.index(dim) for dim in range(len(order))))


def _in_order(x: Tensor, order: Sequence[int]) -> Tensor:
    """``x`` with its dimensions in another order, the sparse ones among themselves."""
    structure = structure_of(x)
    count = structure.dimensions
    shape = [x._layout.shape[dim] for dim in order]
    if tuple(order) == tuple(range(len(order))):
        return sparse_of(structure, values_of(x), shape)
    if isinstance(structure, Compressed):
        if tuple(order) == (1, 0):
            return transpose_of(x)
        raise refusal("permute", (x,))
    if sorted(order[:count]) != list(range(count)):
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse, or all be dense. Got sparse_dim: {count}, order of the "
            f"dimensions: {list(order)}"
        )
    indices = structure.indices
    if tuple(order[:count]) != tuple(range(count)):
        indices = indices[list(order[:count])]
        structure = Coordinates(indices, coalesced=structure.count < 2 and structure.coalesced)
    values = values_of(x)
    if tuple(order[count:]) != tuple(range(count, len(order))):
        values = values.permute(0, *(dim - count + 1 for dim in order[count:]))
    return sparse_of(structure, values, shape)


@rule("permute")
def permute(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """Rule of :func:`tensor.permute`."""
    numbers = integers(order if dims is None else (dims,), "permute", "dims")
    rank = len(input._layout.shape)
    if len(numbers) != rank:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering "
            f"of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(numbers)}"
        )
    permutation = [dimension(each, rank) for each in numbers]
    if len(set(permutation)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return _permuted(input, permutation, "PermuteBackward0")


@rule("transpose", "swapaxes")
def transpose(input: Tensor, dim0: int, dim1: int, *, name: str = "TransposeBackward0") -> Tensor:
    """Rule of :func:`tensor.transpose`."""
    rank = len(input._layout.shape)
    first, second = dimension(dim0, rank), dimension(dim1, rank)
    order = list(range(rank))
    if rank:
        order[first], order[second] = second, first
    return _permuted(input, order, name)


@rule("t")
def t(input: Tensor) -> Tensor:
    """Rule of :func:`tensor.t`."""
    rank = len(input._layout.shape)
    if rank > 2 or structure_of(input).dimensions < rank:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {structure_of(input).dimensions} sparse and "
            f"{rank - structure_of(input).dimensions} dense dimensions"
        )
    return transpose(input, 0, 1, name="TBackward0") if rank == 2 else input


@rule("unsqueeze")
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Rule of :func:`tensor.unsqueeze`."""
    rank = len(input._layout.shape)
    at = dimension(dim, rank + 1)
    structure = structure_of(input)
    if not isinstance(structure, Coordinates):
        raise refusal("unsqueeze", (input,))
    shape = [*input._layout.shape[:at], 1, *input._layout.shape[at:]]
    if at > structure.dimensions:
        values = values_of(input).unsqueeze(at - structure.dimensions + 1)
        return sparse_of(structure, values, shape, "UnsqueezeBackward0")
    own = structure.indices
    indices = own.new_zeros((structure.dimensions + 1, structure.count))
    indices[:at], indices[at + 1 :] = own[:at], own[at:]
    result = Coordinates(indices, coalesced=structure.coalesced)
    return sparse_of(result, values_of(input), shape, "UnsqueezeBackward0")


@rule("select")
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Rule of :func:`tensor.select`: a dense tensor where no sparse dimension is left."""
    rank = len(input._layout.shape)
    at = dimension(dim, rank)
    shape = input._layout.shape
    if not -shape[at] <= index < shape[at]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {at}"
        )
    index %= shape[at]
    x = as_coordinates(input)
    structure = structure_of(x)
    assert isinstance(structure, Coordinates)
    rest = [*shape[:at], *shape[at + 1 :]]
    if at >= structure.dimensions:
        values = values_of(x).select(at - structure.dimensions + 1, index)
        return sparse_of(structure, values, rest, "SelectBackward0")
    positions = nonzero_positions(structure.indices[at] == index).reshape(-1)
    values = gathered(values_of(x), positions)
    if structure.dimensions == 1:
        return values.sum(0)
    own = structure.indices.index_select(1, positions)
    remaining = [each for each in range(structure.dimensions) if each != at]
    return sparse_of(
        Coordinates(own[remaining], coalesced=structure.coalesced), values, rest, "SelectBackward0"
    )


@rule("unbind")
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Rule of :func:`tensor.unbind`."""
    return tuple([select(input, dim, each) for each in range(input.size(dim))])


@rule("index_select")
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.index_select`."""
    without_out(out, "index_select")
    check_tensor(index, "index_select", "index")
    rank = len(input._layout.shape)
    at = dimension(dim, rank)
    x = as_coordinates(input)
    structure = structure_of(x)
    assert isinstance(structure, Coordinates)
    if is_sparse(index) or len(index._layout.shape) != 1 or index.is_floating_point():
        raise IndexError("index_select(): Index is supposed to be a vector of integers")
    shape = list(input._layout.shape)
    if not index._layout.device_state.is_cuda and index._layout.numel:
        low, high = int(index.min()), int(index.max())
        if low < -shape[at] or high >= shape[at]:
            raise IndexError(
                f"index_select(): index contains {low if low < 0 else high} that is out of range for tensor of size {shape} at "
                f"dimension {at}"
            )
    numbers = index.to(structure.indices.dtype)
    numbers = numbers + (numbers < 0) * shape[at]
    numbers, shape[at] = numbers.contiguous(), index._layout.numel
    if at >= structure.dimensions:
        values = values_of(x).index_select(at - structure.dimensions + 1, numbers)
        return sparse_of(structure, values, shape, "IndexSelectBackward0")
    own = structure.indices
    mine, theirs = _matches(own[at].contiguous(), numbers)
    chosen = own.index_select(1, mine)
    chosen[at] = theirs
    result = sparse_of(
        Coordinates(chosen, coalesced=False), gathered(values_of(x), mine), shape, "IndexSelectBackward0"
    )
    return coalesced(result) if structure.coalesced else result


def _matches(positions: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of positions in two vectors of indices that are equal there, in the order of the second."""
    ordered, order = positions.sort(stable=True)
    first = searchsorted(ordered, numbers)
    owner, offset = expanded(searchsorted(ordered, numbers, right=True) - first)
    return order.index_select(0, first.index_select(0, owner) + offset), owner


def _checked(tensors: Any, name: str) -> list[Tensor]:
    entries = list(tensors)
    if not entries:
        raise RuntimeError(f"{name}(): expected a non-empty list of Tensors")
    for position, each in enumerate(entries):
        check_tensor(each, name, f"tensors[{position}]")
        if not is_sparse(each):
            raise RuntimeError(
                f"{name}(): expected sparse tensors alone, but the one at position {position} has the layout {each.layout!r}: "
                "convert it with to_sparse(), or the others with to_dense()"
            )
        if each._layout.device_state is not entries[0]._layout.device_state:
            raise two_devices(name, entries[0]._layout.device, each._layout.device)
    return entries


@rule("cat")
def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.cat`."""
    without_out(out, "cat")
    entries = _checked(tensors, "cat")
    layout_name = structure_of(entries[0]).layout_name
    parts = [as_coordinates(each) for each in entries]
    first = parts[0]
    rank = len(first._layout.shape)
    at = dimension(dim, rank)
    count = structure_of(first).dimensions
    shape = list(first._layout.shape)
    for each in parts[1:]:
        other = list(each._layout.shape)
        if structure_of(each).dimensions != count or [*other[:at], *other[at + 1 :]] != [
            *shape[:at],
            *shape[at + 1 :],
        ]:
            raise RuntimeError(
                f"cat(): all tensors must have the same sparse dimensions, and the same sizes but for dimension {at}: got "
                f"{list(first._layout.shape)} and {other}"
            )
    dtype = first.dtype
    for each in parts[1:]:
        dtype = promote_types(dtype, each.dtype)
    values = [values_of(each).to(dtype) for each in parts]
    sizes = [each._layout.shape[at] for each in parts]
    shape[at] = sum(sizes)
    indices, begin = [], 0
    for position, (each, size) in enumerate(zip(parts, sizes, strict=True)):
        own = structure_of(each).tensors()[0]
        if at < count and begin:
            own = own.clone()
            own[at] += begin
        elif at >= count:
            # Where dense parts are put side by side, each fills its own place of them.
            before, after = begin, shape[at] - begin - size
            values[position] = _between_zeros(values[position], at - count + 1, before, after)
        indices.append(own)
        begin += size
    coalesced_still = at == 0 and count > 0 and all(structure_of(each).coalesced for each in parts)
    structure = Coordinates(joined(indices, 1), coalesced=coalesced_still)
    result = sparse_of(structure, joined(values), shape, node("cat"))
    return to_layout(result, layout_name, "cat")


def _between_zeros(values: Tensor, dim: int, before: int, after: int) -> Tensor:
    shape = list(values._layout.shape)
    pieces = []
    for size in (before, None, after):
        if size is None:
            pieces.append(values)
        else:
            shape[dim] = size
            pieces.append(values.new_zeros(shape))
    return joined(pieces, dim)


@rule("stack")
def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.stack`."""
    without_out(out, "stack")
    entries = _checked(tensors, "stack")
    rank = len(entries[0]._layout.shape)
    return cat([unsqueeze(as_coordinates(each), dimension(dim, rank + 1)) for each in entries], dim)
