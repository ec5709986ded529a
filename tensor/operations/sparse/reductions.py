"""Rules of sums and norms of sparse tensors, and softmax over the elements that are specified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.sparse import Coordinates, is_sparse
from tensor.operations.sparse_rules import refusal, rule

from .elementwise import without_out
from .layouts import to_layout
from .parts import as_coordinates, coalesced, gathered, plain, sparse_of, structure_of, sums, values_of
from .shapes import dimension
from .structures import coordinates_of, grouped, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor.methods.tensor import Tensor


def check_sparse(x: Any, name: str) -> None:
    """Check that an argument is a sparse tensor.

    Raises
    ------
    NotImplementedError
        If it is not.
    """
    if not is_sparse(x):
        raise NotImplementedError(
            f"{name}(): expected a sparse tensor, got {getattr(x, 'layout', type(x).__name__)}"
        )


def summed(
    input: Tensor, dims: Iterable[int] | int | None, dtype: Any, name: str, *, keepdim: bool = False
) -> Tensor:
    """The sum over ``dims``, by default all: sparse, unless no sparse dimension is left."""
    x = input if dtype is None else input.to(dtype_of_argument(dtype, name))
    rank = len(x._layout.shape)
    if dims is None or (not isinstance(dims, int) and not tuple(dims)):
        result = values_of(x).sum()
        return result.reshape([1] * rank) if keepdim and rank else result
    numbers = (dims,) if isinstance(dims, int) else tuple(dims)
    dimensions = sorted({dimension(each, rank) for each in numbers})
    if len(dimensions) != len(numbers):
        raise RuntimeError("dim appears multiple times in the list of dims")
    x = as_coordinates(x)
    own = structure_of(x)
    assert isinstance(own, Coordinates)
    count, shape = own.dimensions, x._layout.shape
    values = values_of(x)
    dense = [dim - count + 1 for dim in dimensions if dim >= count]
    if dense:
        values = values.sum(dense, keepdim=keepdim)
    sizes = [
        1 if dim in dimensions else size for dim, size in enumerate(shape) if keepdim or dim not in dimensions
    ]
    gone = [dim for dim in dimensions if dim < count]
    remaining = [dim for dim in range(count) if dim not in gone]
    if not remaining:
        return values.sum(0).reshape(sizes)
    if not gone:
        return sparse_of(own, values, sizes, "SparseSumBackward0")
    kept_sizes = [shape[dim] for dim in remaining]
    groups = grouped(keys_of(own.indices[remaining], kept_sizes))
    indices = coordinates_of(groups.keys, kept_sizes)
    if keepdim:
        full = indices.new_zeros((count, groups.count))
        full[remaining] = indices
        indices = full
    result = sums(values, groups.number, groups.count)
    return sparse_of(Coordinates(indices, coalesced=True), result, sizes, "SparseSumBackward0")


@rule("sum")
def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor:
    """Rule of :func:`tensor.sum`."""
    without_out(out, "sum")
    if dim is not None and not isinstance(structure_of(input), Coordinates):
        raise RuntimeError(
            "sum(): reductions of compressed matrices over dimensions are not supported: convert with to_sparse() first"
        )
    if dtype is None and not (input.is_floating_point() or input.is_complex()):
        dtype = values_of(input)[:0].sum().dtype
    if dim is None:
        # Unlike that of sparse.sum, the gradient is that of all elements.
        with unrecorded():
            result = summed(input.detach(), None, dtype, "sum", keepdim=keepdim)
        _SUM.record((result,), (input,), (), (input._layout.shape,))
        return result
    return summed(input, dim, dtype, "sum", keepdim=keepdim)


_SUM = BackwardFormula(
    "SumBackward0", "input", [Derivative(lambda grad, shape: grad.expand(shape), needs="")]
)


@rule("norm")
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
) -> Tensor:
    """Rule of :func:`tensor.norm`: of all elements."""
    without_out(out, "norm")
    if dim is not None and sorted(
        dimension(each, input.dim()) for each in ((dim,) if isinstance(dim, int) else dim)
    ) != list(range(input.dim())):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of "
            "the input"
        )
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    order = 2 if p in (None, "fro") else p
    if isinstance(order, str):
        raise refusal("norm", (input,))
    x = coalesced(input)
    return values_of(x).reshape(-1).norm(order, dtype=dtype)


@rule("any")
def any(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.any`: of all elements."""
    without_out(out, "any")
    if dim is not None:
        raise refusal("any", (input,))
    return values_of(coalesced(input)).any()


def softmax_of(input: Tensor, dim: int, dtype: Any, name: str, *, logarithm: bool) -> Tensor:
    """Softmax along ``dim``, of the specified elements alone: those that are not count as minus infinity.

    Raises
    ------
    NotImplementedError
        For a dense tensor.
    IndexError
        If there is no such dimension.
    """
    check_sparse(input, name)
    x = coalesced(as_coordinates(input))
    if dtype is not None:
        x = x.to(dtype_of_argument(dtype, name))
    structure = structure_of(x)
    assert isinstance(structure, Coordinates)
    shape = x._layout.shape
    at = dimension(dim, len(shape))
    values = values_of(x)
    if not (x.is_floating_point() or x.is_complex()):
        raise NotImplementedError(f'"{name}" not implemented for {x.dtype!r}: convert it, as by float()')
    count = structure.dimensions
    if at >= count:
        inner = at - count + 1
        result = values.log_softmax(inner) if logarithm else values.softmax(inner)
    elif not structure.count:
        result = values
    else:
        remaining = [each for each in range(count) if each != at]
        sizes = [shape[each] for each in remaining]
        keys = (
            keys_of(structure.indices[remaining], sizes)
            if remaining
            else structure.indices.new_zeros(structure.count)
        )
        groups = grouped(keys)
        flat = values.reshape(structure.count, -1)
        largest = (
            plain(flat)
            .new_zeros((groups.count, flat._layout.shape[1]))
            .index_reduce(0, groups.number, plain(flat), "amax", include_self=False)
        )
        shifted = flat - gathered(largest, groups.number)
        powers = shifted.exp()
        totals = gathered(sums(powers, groups.number, groups.count), groups.number)
        result = (shifted - totals.log() if logarithm else powers / totals).reshape(values._layout.shape)
    node = "SparseLogSoftmaxBackward0" if logarithm else "SparseSoftmaxBackward0"
    return to_layout(sparse_of(structure, result, shape, node), structure_of(input).layout_name, name)
