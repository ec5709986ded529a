"""Products of several matrices, and of vectors."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase, check_tensor
from tensor.linalg.systems.solving import inv
from tensor.operations.autocast import LOWER, Autocast
from tensor.operations.creation.grids import eye
from tensor.operations.definition import operation
from tensor.operations.products import contractions
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import into_out
from tensor.operations.reductions import scans
from tensor.operations.shapes import slices, views
from tensor.operations.shapes.joining import cat

from .checks import check_alike, check_floating, check_square_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


@operation(namespace="linalg", method=False)
def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:  # noqa: N803 - PyTorch's name
    """Square matrices ``(*, n, n)`` to an integer power, on the tensors' device; inverses for a negative one.

    Raises
    ------
    LinAlgError
        For a negative power of a singular matrix.
    RuntimeError
        If the matrices are not square.

    Examples
    --------
    >>> tensor.linalg.matrix_power(tensor.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    name = "linalg.matrix_power"
    check_tensor(A, name, "A")
    if len(A._layout.shape) < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    check_square_shape(name, A)
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(
            f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    return into_out(_power(A, n), out, name)


def _power(a: Tensor, n: int) -> Tensor:
    if n == 0:
        identity = eye(a._layout.shape[-1], dtype=a._layout.dtype, device=a.device)
        # In the graph, as a constant.
        return a.clone().copy_(identity)
    if n < 0:
        return _power(inv(a), -n)
    if n == 1:
        return a.clone()
    result = None
    while n:
        if n & 1:
            result = a if result is None else matmul(result, a)
        n >>= 1
        if n:
            a = matmul(a, a)
    assert result is not None
    return result


@operation(namespace="linalg", method=False, autocast=Autocast(cuda=LOWER))
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of matrices in the order that takes the fewest multiplications, on the tensors' device.

    The first and the last one may be vectors: a row and a column.

    Raises
    ------
    RuntimeError
        If there are fewer than two, inner sizes differ, one other than the first and last has not two dimensions, or
        dtypes or devices differ.

    Examples
    --------
    >>> tensor.linalg.multi_dot([tensor.ones(2, 3), tensor.ones(3, 4), tensor.ones(4)])
    tensor([12., 12.])
    """
    return into_out(chained("multi_dot", tensors), out, "linalg.multi_dot")


def chained(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices; ``name`` is what the user called."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    chain = list(tensors)
    for position, x in enumerate(chain):
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"{name}(): expected Tensor as element {position} in argument 'tensors', but got {type(x).__name__}"
            )
    if len(chain) < 2:
        raise RuntimeError(f"{name}(): expected at least 2 tensors but got {len(chain)}")
    last = len(chain) - 1
    for position, x in enumerate(chain):
        rank = len(x._layout.shape)
        if rank != 2 and not (rank == 1 and position in (0, last)):
            allowed = "1D or 2D" if position in (0, last) else "2D"
            raise RuntimeError(f"{name}(): tensor {position} must be {allowed} but got {rank}D")
        if x._layout.dtype is not chain[0]._layout.dtype:
            raise RuntimeError(
                f"{name}(): all tensors must have be the same dtype but tensor 0 is {chain[0]._layout.dtype!r} and tensor "
                f"{position} {x._layout.dtype!r}"
            )
        if x._layout.device_state is not chain[0]._layout.device_state:
            raise RuntimeError(
                f"{name}(): all tensors must be on the same device but tensor 0 is on {chain[0]._layout.device} and "
                f"tensor {position} on {x._layout.device}"
            )
    row, column = len(chain[0]._layout.shape) == 1, len(chain[-1]._layout.shape) == 1
    if row:
        chain[0] = views.unsqueeze(chain[0], 0)
    if column:
        chain[-1] = views.unsqueeze(chain[-1], 1)
    for position, (a, b) in enumerate(pairwise(chain)):
        if a._layout.shape[1] != b._layout.shape[0]:
            raise RuntimeError(
                f"{name}(): tensors {position} and {position + 1} with shapes {list(a._layout.shape)} and "
                f"{list(b._layout.shape)} cannot be multiplied"
            )
    result = _multiplied(
        chain, _cuts([x._layout.shape[0] for x in chain] + [chain[-1]._layout.shape[1]]), 0, last
    )
    if row:
        result = views.squeeze(result, 0)
    return views.squeeze(result, -1) if column else result


def _cuts(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """After which matrix to cut each part of a chain (Cormen et al., Introduction to Algorithms, 15.2)."""
    count = len(sizes) - 1
    costs = {(i, i): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs[i, j], cuts[i, j] = min(
                (costs[i, k] + costs[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return cuts


def _multiplied(chain: Sequence[Tensor], cuts: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return chain[i]
    k = cuts[i, j]
    return matmul(_multiplied(chain, cuts, i, k), _multiplied(chain, cuts, k + 1, j))


@operation(namespace="linalg", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Sums of ``conj(x) * y`` along a dimension, which broadcast.

    Raises
    ------
    RuntimeError
        For integers, where the shapes cannot be broadcast together, and where dtypes or devices differ.

    Examples
    --------
    >>> tensor.linalg.vecdot(tensor.tensor([[1.0, 2.0], [3.0, 4.0]]), tensor.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """
    check_tensor(x, "linalg.vecdot", "x")
    check_floating("linalg.vecdot", x, half=True)
    check_alike("linalg.vecdot", x, y, "x", "y")
    return into_out((x.conj() * y).sum(dim), out, "linalg.vecdot")


@operation(namespace="linalg", method=False)
def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Cross products of vectors of three elements along a dimension; the others broadcast.

    Raises
    ------
    RuntimeError
        If the dimension has another size, or one tensor has more dimensions.

    Examples
    --------
    >>> tensor.linalg.cross(tensor.tensor([1.0, 0.0, 0.0]), tensor.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return contractions.cross(input, other, dim, out=out)


@operation(namespace="linalg", method=False)
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:  # noqa: N803
    """View of the diagonals of matrices ``(*, m, n)``, along a new last dimension.

    :func:`tensor.diagonal` looks at the first two dimensions by default.

    Parameters
    ----------
    offset : int
        Which diagonal: above the main one if positive, below if negative.

    Raises
    ------
    IndexError
        If ``dim1`` or ``dim2`` is out of range.

    Examples
    --------
    >>> tensor.linalg.diagonal(tensor.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    >>> tensor.linalg.diagonal(tensor.tensor([[1, 2], [3, 4]]), offset=1)
    tensor([2])
    """
    return slices.diagonal(A, offset, dim1, dim2)


@operation(namespace="linalg", method=False)
def vander(x: Tensor, N: int | None = None) -> Tensor:  # noqa: N803
    """Powers from 0 on of each element: ``(*, n)`` gives ``(*, n, N)``, by default as many as elements.

    A 0-dimensional ``x`` counts as a vector.

    Raises
    ------
    RuntimeError
        If ``N`` is not greater than 1.

    Examples
    --------
    >>> tensor.linalg.vander(tensor.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    check_tensor(x, "linalg.vander", "x")
    shape: tuple[Any, ...] = x._layout.shape
    count = N if N is not None else shape[-1] if shape else 1
    if not count > 1:
        raise RuntimeError("N must be greater than 1.")
    if not shape:
        x, shape = views.view(x, 1), (1,)
    column = views.unsqueeze(x, -1)
    powers = scans.cumprod(views.expand(column, (*shape, count - 1)), -1)
    ones = powers.new_ones((*shape, 1))
    return cat((ones, powers), -1)
