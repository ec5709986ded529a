"""Products, sums and softmax of sparse tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import check_tensor
from tensor.core.sparse import is_sparse
from tensor.operations.sparse.products import addmm as _addmm
from tensor.operations.sparse.products import product
from tensor.operations.sparse.reductions import check_sparse, softmax_of, summed

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Product of matrices of which one at least is sparse; of two sparse ones it is sparse.

    The gradient with respect to a sparse matrix is sparse, of its structure.

    Parameters
    ----------
    mat1 : Tensor
        Of shape (N, K).
    mat2 : Tensor
        Of shape (K, M), and the same dtype.

    Raises
    ------
    RuntimeError
        If neither is sparse, or they do not go together.

    Examples
    --------
    >>> x = tensor.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> tensor.sparse.mm(x, tensor.ones(2, 2))
    tensor([[2., 2.],
            [3., 3.]])
    """
    check_tensor(mat1, "mm", "mat1")
    check_tensor(mat2, "mm", "mat2")
    if not is_sparse(mat1) and not is_sparse(mat2):
        raise RuntimeError(
            "sparse.mm(): expected one sparse matrix at least, got two dense ones: use tensor.mm"
        )
    return product("addmm", mat1, mat2, masked=True)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """``beta * mat + alpha * (mat1 @ mat2)``, where ``mat1`` is sparse; its gradient is of its structure.

    Parameters
    ----------
    mat : Tensor
        Dense, of a shape that broadcasts to (N, M).
    mat1 : Tensor
        Sparse, of shape (N, K).
    mat2 : Tensor
        Dense, of shape (K, M).
    beta, alpha : float
        Factors.

    Raises
    ------
    RuntimeError
        If they do not go together.

    Examples
    --------
    >>> x = tensor.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> tensor.sparse.addmm(tensor.ones(2, 2), x, tensor.ones(2, 2), alpha=10)
    tensor([[21., 21.],
            [31., 31.]])
    """
    return _addmm(mat, mat1, mat2, beta=beta, alpha=alpha, masked=True)


def sum(input: Tensor, dim: Any = None, dtype: dtype | None = None) -> Tensor:
    """Sum of the elements of a sparse tensor over ``dim``: sparse, unless no sparse dimension is left.

    Parameters
    ----------
    input : Tensor
        Sparse.
    dim : int or sequence of int, optional
        Dimensions; all by default.
    dtype : dtype, optional
        Of the result.

    Raises
    ------
    NotImplementedError
        If ``input`` is dense.
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice.

    Examples
    --------
    >>> x = tensor.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> tensor.sparse.sum(x, 0).to_dense()
    tensor([3., 2.])
    """
    check_sparse(input, "sparse.sum")
    return summed(input, dim, dtype, "sum")


def softmax(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """Softmax along ``dim`` of the elements that are specified; the others count as minus infinity.

    Parameters
    ----------
    input : Tensor
        Sparse.
    dim : int
        Along which the elements sum to 1.
    dtype : dtype, optional
        To which ``input`` is converted first.

    Raises
    ------
    NotImplementedError
        If ``input`` is dense, or of integers.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> x = tensor.sparse_coo_tensor([[0, 1, 1], [0, 0, 1]], [7.0, 1.0, 1.0], (2, 2))
    >>> tensor.sparse.softmax(x, 1).values()
    tensor([1.0000, 0.5000, 0.5000])
    """
    return softmax_of(input, dim, dtype, "softmax", logarithm=False)


def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """Logarithm of :func:`softmax`.

    Parameters
    ----------
    input : Tensor
        Sparse.
    dim : int
        Along which the exponentials of the elements sum to 1.
    dtype : dtype, optional
        To which ``input`` is converted first.

    Raises
    ------
    NotImplementedError
        If ``input`` is dense, or of integers.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> x = tensor.sparse_coo_tensor([[0, 1], [0, 1]], [7.0, 1.0], (2, 2))
    >>> tensor.sparse.log_softmax(x, 1).values()
    tensor([0., 0.])
    """
    return softmax_of(input, dim, dtype, "log_softmax", logarithm=True)
