"""Sums of products over chosen dimensions: ``matmul``, ``tensordot`` and their like.

All of them arrange their operands as batches of matrices, with views where the strides allow, and multiply
those; see :mod:`tensor.operations.products.matrix_products`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import dimension, dimensions
from tensor.operations.autocast import FLOAT32, LOWER, WIDEST, Autocast, bare
from tensor.operations.definition import operation
from tensor.operations.shapes import slices, views
from tensor.operations.shapes.diagonals import diagonal_scatter
from tensor.operations.shapes.joining import stack

from .matrix_products import _delivered, bmm, check_layouts, check_tensors, dot, mm, mv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


#: For ``matmul``, which has cast its operands.
_MM = bare(mm)


@operation(namespace="tensor linalg", autocast=Autocast(cuda=LOWER, cpu=LOWER))
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product over the last two dimensions; dimensions before them broadcast.

    A vector counts as a row on the left and as a column on the right, and its dimension goes.

    Raises
    ------
    RuntimeError
        For 0-dim tensors, where the inner sizes differ or the dimensions before the last two cannot be broadcast
        together, and where dtypes or devices differ.

    Examples
    --------
    >>> tensor.matmul(tensor.tensor([[1, 2], [3, 4]]), tensor.tensor([1, 1]))
    tensor([3, 7])
    >>> tensor.matmul(tensor.ones(5, 2, 3), tensor.ones(3, 4)).shape
    tensor.Size([5, 2, 4])
    """
    try:
        left, right = input._layout, other._layout
    except AttributeError:
        check_tensors("matmul", input, other)
        raise
    if len(left.shape) == 2 == len(right.shape):
        return _MM(input, other, out=out)
    check_layouts("matmul", left, right)
    return _delivered(_matmul(input, other), out)


def _matmul(input: Tensor, other: Tensor) -> Tensor:
    left, right = input._layout.shape, other._layout.shape
    if not left or not right:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {len(left)}D and {len(right)}D"
        )
    if len(right) == 1:
        if len(left) == 1:
            return dot(input, other)
        if len(left) == 2:
            return mv(input, other)
    if len(left) == 2 and len(right) == 2:
        return mm(input, other)
    if len(left) == 1:
        return views.squeeze(_matmul(views.unsqueeze(input, 0), other), -2)
    if len(right) == 1:
        return views.squeeze(_matmul(input, views.unsqueeze(other, 1)), -1)
    rows, inner, columns = left[-2], left[-1], right[-1]
    if inner != right[-2]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({prod(left[:-1])}x{inner} and {right[-2]}x{columns}) "
            f"(matmul of {list(left)} and {list(right)})"
        )
    if len(right) == 2:
        # One product of a tall matrix instead of a batch of small ones.
        return mm(input.reshape(prod(left[:-1]), inner), other).reshape(*left[:-1], columns)
    batch = layouts.broadcast_shapes(left[:-2], right[:-2])
    count = prod(batch)
    a = views.expand(input, (*batch, rows, inner)).reshape(count, rows, inner)
    b = views.expand(other, (*batch, inner, columns)).reshape(count, inner, columns)
    return bmm(a, b).reshape(*batch, rows, columns)


@operation()
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inner product: ``sum(input[i, k] * other[j, k] for k)`` over the last dimensions of both tensors.

    For vectors the dot product; a plain product where one tensor is 0-dim.

    Returns
    -------
    Tensor
        Of shape ``(*input.shape[:-1], *other.shape[:-1])``.

    Raises
    ------
    RuntimeError
        If the last dimensions differ in size, or dtypes or devices differ.

    Examples
    --------
    >>> tensor.inner(tensor.tensor([1, 2, 3]), tensor.tensor([0, 2, 1]))
    tensor(7)
    >>> tensor.inner(tensor.ones(2, 3), tensor.ones(4, 3)).shape
    tensor.Size([2, 4])
    """
    left, right = input._layout.shape, other._layout.shape
    if not left or not right:
        return _delivered(input * other, out)
    if left[-1] != right[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(left)} and {list(right)}"
        )
    result = dot(input, other) if len(left) == len(right) == 1 else tensordot(input, other, ([-1], [-1]))
    return _delivered(result, out)


@operation(also="ger")
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of elements of two vectors: ``(n,)`` and ``(m,)`` give ``(n, m)``.

    Raises
    ------
    RuntimeError
        If they are no vectors.

    Examples
    --------
    >>> tensor.outer(tensor.tensor([1, 2]), tensor.tensor([3, 4, 5]))
    tensor([[ 3,  4,  5],
            [ 6,  8, 10]])
    """
    for position, x in enumerate((input, vec2)):
        if len(x._layout.shape) != 1:
            raise RuntimeError(
                f"outer: Expected 1-D argument {('self', 'vec2')[position]}, but got {len(x._layout.shape)}-D"
            )
    return _delivered(views.unsqueeze(input, 1) * vec2, out)


@operation(method=False, autocast=Autocast(cuda=WIDEST))
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums of products over pairs of dimensions.

    Parameters
    ----------
    dims
        A number: so many last dimensions of ``a`` with as many first ones of ``b``. Or two lists of
        dimensions that belong together.

    Raises
    ------
    RuntimeError
        If sizes of a pair differ, or the lists do.

    Examples
    --------
    >>> tensor.tensordot(tensor.ones(2, 3, 4), tensor.ones(3, 4, 5)).shape
    tensor.Size([2, 5])
    >>> tensor.tensordot(tensor.ones(2, 3), tensor.ones(5, 3), ([1], [1])).shape
    tensor.Size([2, 5])
    """
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(len(a._layout.shape), len(b._layout.shape)):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}, tensors with shapes "
                f"{list(a._layout.shape)} and {list(b._layout.shape)}"
            )
        pairs: tuple[Sequence[int], Sequence[int]] = (range(-dims, 0), range(dims))
    else:
        if not isinstance(dims, (tuple, list)) or len(dims) != 2:
            raise RuntimeError(
                "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two "
                f"lists, but got dims={dims}"
            )
        first, second = dims
        pairs = ([first], [second]) if isinstance(first, int) else (first, second)
    left, right = a._layout.shape, b._layout.shape
    if len(pairs[0]) != len(pairs[1]):
        raise RuntimeError(
            f"both dimension lists should have same length, got {list(pairs[0])} and {list(pairs[1])}"
        )
    over_a, over_b = (
        dimensions(pairs[0], len(left), "tensordot"),
        dimensions(pairs[1], len(right), "tensordot"),
    )
    for i, j in zip(over_a, over_b, strict=True):
        if left[i] != right[j] and 1 not in (left[i], right[j]):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {left[i]} in dim {i} and second has size "
                f"{right[j]} in dim {j}"
            )
    # A size of 1 is stretched: the other tensor's dimension is summed.
    alone_a = [i for i, j in zip(over_a, over_b, strict=True) if right[j] == 1 != left[i]]
    alone_b = [j for i, j in zip(over_a, over_b, strict=True) if left[i] == 1 != right[j]]
    a = a.sum(alone_a, keepdim=True) if alone_a else a
    b = b.sum(alone_b, keepdim=True) if alone_b else b
    left, right = a._layout.shape, b._layout.shape
    kept_a = [i for i in range(len(left)) if i not in over_a]
    kept_b = [j for j in range(len(right)) if j not in over_b]
    inner = prod(left[i] for i in over_a)
    rows = prod(left[i] for i in kept_a)
    columns = prod(right[j] for j in kept_b)
    result = mm(
        views.permute(a, (*kept_a, *over_a)).reshape(rows, inner),
        views.permute(b, (*over_b, *kept_b)).reshape(inner, columns),
    )
    shape = (*(left[i] for i in kept_a), *(right[j] for j in kept_b))
    return _delivered(result.reshape(shape), out)


@operation()
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Kronecker product: each element of ``input`` times all of ``other``, as a block in its place.

    Shapes are extended by dimensions of size 1 in front; sizes are multiplied. Dtypes are promoted.

    Examples
    --------
    >>> tensor.kron(tensor.eye(2), tensor.tensor([[1.0, 2.0]]))
    tensor([[1., 2., 0., 0.],
            [0., 0., 1., 2.]])
    """
    rank = max(len(input._layout.shape), len(other._layout.shape))
    left = (1,) * (rank - len(input._layout.shape)) + tuple(input._layout.shape)
    right = (1,) * (rank - len(other._layout.shape)) + tuple(other._layout.shape)
    a = input.reshape([size for pair in left for size in (pair, 1)])
    b = other.reshape([size for pair in right for size in (1, pair)])
    shape = [x * y for x, y in zip(left, right, strict=True)]
    return _delivered((a * b).reshape(shape), out)


@operation(autocast=Autocast(cpu=FLOAT32))
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix.

    Raises
    ------
    RuntimeError
        If it is no matrix.

    Examples
    --------
    >>> tensor.trace(tensor.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if len(input._layout.shape) != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {len(input._layout.shape)}")
    result = slices.diagonal(input.detach()).sum()
    _TRACE_BACKWARD.record((result,), (input,), context=(input._layout.shape,))
    return result


def _trace_gradient(grad: Tensor, shape: Any) -> Tensor:
    return diagonal_scatter(grad.new_zeros(shape), views.expand(grad, (min(shape),)))


_TRACE_BACKWARD = BackwardFormula("TraceBackward0", "input", [Derivative(_trace_gradient, needs="")])


@operation(autocast=Autocast(cuda=WIDEST))
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Cross products of vectors of three elements along a dimension, by default the first of size 3.

    Raises
    ------
    RuntimeError
        If the dimension has another size.

    Examples
    --------
    >>> tensor.cross(tensor.tensor([1, 0, 0]), tensor.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    left, right = input._layout.shape, other._layout.shape
    if len(left) != len(right):
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions, got {len(left)} and {len(right)}"
        )
    shape = layouts.broadcast_shapes(left, right)
    if dim is None:
        if 3 not in shape:
            raise RuntimeError(f"no dimension of size 3 in input of shape {list(shape)}")
        dim = shape.index(3)
    at = dimension(dim, len(shape))
    if input._layout.shape[dim] != 3 or other._layout.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input._layout.shape[dim]} and "
            f"{other._layout.shape[dim]}"
        )
    result = _crossed(views.expand(input.detach(), shape), views.expand(other.detach(), shape), at)
    _CROSS_BACKWARD.record((result,), (input, other), context=(at,))
    return _delivered(result, out)


def _crossed(a: Tensor, b: Tensor, dim: int) -> Tensor:
    a1, a2, a3 = slices.unbind(a, dim)
    b1, b2, b3 = slices.unbind(b, dim)
    return stack((a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1), dim)


# Cross products of the gradient with the other factor.
_CROSS_BACKWARD = BackwardFormula(
    "LinalgCrossBackward0",
    "a b",
    [
        Derivative(lambda grad, b, dim: cross(b.conj(), grad, dim), needs="b"),
        Derivative(lambda grad, a, dim: cross(grad, a.conj(), dim), needs="a"),
    ],
)
