"""Norms of matrices and vectors. All but those of singular values stay on the tensors' device."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from tensor.core.arguments import dimension
from tensor.core.base import check_tensor
from tensor.core.creation_arguments import dtype_of_argument
from tensor.linalg.factorizations.singular_values import singular_values
from tensor.operations.autocast import FLOAT32_RESULT, Autocast
from tensor.operations.definition import operation
from tensor.operations.reduction import into_out
from tensor.operations.reductions.variance import vector_norm
from tensor.operations.shapes import views

from .checks import check_floating

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

_ORDERS = (1, -1, 2, -2, inf, -inf)


@operation(namespace="linalg", method=False, autocast=Autocast(cuda=FLOAT32_RESULT))
def matrix_norm(
    A: Tensor,  # noqa: N803 - PyTorch's name
    ord: Any = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Norms of matrices.

    Parameters
    ----------
    ord
        ``"fro"``: root of the sum of squares; ``1``, ``-1``: largest and smallest sum of magnitudes of a column,
        ``inf``, ``-inf``: of a row; ``2``, ``-2``: largest and smallest singular value, ``"nuc"``: their sum (these
        three through the host, which waits).
    dim
        Which dimensions are rows and columns.
    dtype
        To convert to first.

    Raises
    ------
    RuntimeError
        For another ``ord``, integers, fewer than two dimensions.

    Examples
    --------
    >>> x = tensor.tensor([[1.0, -2.0], [2.0, 4.0]])
    >>> tensor.linalg.matrix_norm(x), tensor.linalg.matrix_norm(x, 1)
    (tensor(5.), tensor(6.))
    """
    name = "linalg.matrix_norm"
    check_tensor(A, name, "A")
    if len(A._layout.shape) < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    return into_out(_matrix_norm(name, A, ord, dim, keepdim, dtype), out, name)


def _matrix_norm(name: str, a: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: dtype | None) -> Tensor:
    if ord not in ("fro", "nuc", *_ORDERS):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        shown = ", ".join(str(each) for each in dims)
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {shown}")
    a = a if dtype is None else a.to(dtype_of_argument(dtype, name))
    by_singular_values = ord == "nuc" or ord in (2, -2)
    check_floating(name, a, half=not by_singular_values)
    rank = len(a._layout.shape)
    rows, columns = (dimension(each, rank) for each in dims)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    if ord == "fro":
        return vector_norm(a, 2, (rows, columns), keepdim)
    if by_singular_values:
        values = singular_values(name, views.movedim(a, (rows, columns), (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else _extreme(values, -1, largest=ord > 0)
        for axis in sorted((rows, columns)) if keepdim else ():
            result = views.unsqueeze(result, axis)
        return result
    summed, chosen = (rows, columns) if abs(ord) == 1 else (columns, rows)
    result = _extreme(vector_norm(a, 1, summed, True), chosen, largest=ord > 0)
    if keepdim:
        return views.unsqueeze(result, chosen)
    return views.squeeze(result, summed - (chosen < summed))


def _extreme(x: Tensor, dim: int, *, largest: bool) -> Tensor:
    """Largest or smallest of non-negative numbers: the largest of none is 0."""
    if largest and not x._layout.shape[dim]:
        return x.sum(dim)
    return x.amax(dim) if largest else x.amin(dim)


@operation(namespace="linalg", method=False, autocast=Autocast(cuda=FLOAT32_RESULT))
def norm(
    A: Tensor,  # noqa: N803
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
) -> Tensor:
    """Norms of vectors or matrices: :func:`vector_norm` or :func:`matrix_norm`.

    Parameters
    ----------
    ord
        ``None``: the root of the sum of all squares, whatever the shape.
    dim
        One dimension: norms of vectors; two: of matrices. ``None``: of the whole tensor, which is a vector or a
        matrix if ``ord`` is given.

    Raises
    ------
    RuntimeError
        If ``dim`` is missing where the tensor is neither, or has more than two dimensions.

    Examples
    --------
    >>> tensor.linalg.norm(tensor.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    >>> tensor.linalg.norm(tensor.tensor([[3.0, 0.0], [0.0, 4.0]]), dim=1)
    tensor([3., 4.])
    """
    check_tensor(A, "linalg.norm", "A")
    rank = len(A._layout.shape)
    dims = (dim,) if isinstance(dim, int) else dim
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype, out=out)
    # What a str names is a norm of matrices.
    of_matrices = isinstance(ord, str)
    if dims is None:
        if rank > 2 or (not rank and not of_matrices):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {rank}D."
            )
        dims = (-2, -1) if of_matrices else tuple(range(rank))
    if of_matrices or len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype, out=out)
    return vector_norm(A, ord, dims, keepdim, dtype=dtype, out=out)
