"""Products, sums and softmax of sparse tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.arguments import two_devices
from tensor.core.base import check_tensor
from tensor.core.sparse import Compressed, is_sparse
from tensor.operations.sparse.parts import structure_of
from tensor.operations.sparse.products import addmm as _addmm
from tensor.operations.sparse.products import check_matrices, product, reduced_product, sampled_product
from tensor.operations.sparse.reductions import check_sparse, softmax_of, summed

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor


_REDUCTIONS = ("sum", "mean", "amax", "amin")


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """Product of matrices of which one at least is sparse; of two sparse ones it is sparse.

    The gradient with respect to a sparse matrix is sparse, of its structure.

    Parameters
    ----------
    mat1 : Tensor
        Of shape (N, K).
    mat2 : Tensor
        Of shape (K, M), and the same dtype.
    reduce : {"sum", "mean", "amax", "amin"}, optional
        What becomes of ``mat1[i, k] * mat2[k, j]`` over the elements k that row i of ``mat1``, in the layout
        ``tensor.sparse_csr``, specifies, where ``mat2`` is dense. A row without elements gives 0. Where several terms are
        the extreme, they share its gradient.

    Raises
    ------
    RuntimeError
        If neither is sparse, they do not go together, or ``reduce`` is none of these or is not for their layouts.

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
    if reduce is None:
        return product("addmm", mat1, mat2, masked=True)
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"sparse.mm: expected reduce to be one of {', '.join(_REDUCTIONS)}, got {reduce!r}"
        )
    if not _is_csr(mat1) or is_sparse(mat2):
        raise RuntimeError(
            "sparse.mm: with reduce=, expected mat1 of layout tensor.sparse_csr and mat2 dense, got layouts "
            f"{mat1.layout!r} and {mat2.layout!r}: convert with to_sparse_csr() and to_dense()"
        )
    return reduced_product(mat1, mat2, reduce)


def _is_csr(x: Tensor) -> bool:
    structure = structure_of(x) if is_sparse(x) else None
    return isinstance(structure, Compressed) and not structure.by_columns


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> Tensor:
    """``alpha * (mat1 @ mat2) + beta * input``, computed only where ``input`` specifies elements, and of its structure.

    Parameters
    ----------
    input : Tensor
        Of layout ``tensor.sparse_csr`` and shape (N, M).
    mat1, mat2 : Tensor
        Dense, of shapes (N, K) and (K, M), and the dtype of ``input``.
    beta, alpha : float
        Factors.

    Raises
    ------
    RuntimeError
        If the layouts, shapes, dtypes or devices do not go together.

    Examples
    --------
    >>> x = tensor.eye(2).to_sparse_csr()
    >>> tensor.sparse.sampled_addmm(x, tensor.ones(2, 3), tensor.ones(3, 2)).to_dense()
    tensor([[4., 0.],
            [0., 4.]])
    """
    for each, name in ((input, "input"), (mat1, "mat1"), (mat2, "mat2")):
        check_tensor(each, "sparse.sampled_addmm", name)
    if not _is_csr(input) or is_sparse(mat1) or is_sparse(mat2):
        raise RuntimeError(
            "sparse.sampled_addmm: expected input of layout tensor.sparse_csr and dense matrices, got layouts "
            f"{input.layout!r}, {mat1.layout!r} and {mat2.layout!r}"
        )
    check_matrices("sparse.sampled_addmm", mat1, mat2)
    rows, columns = mat1._layout.shape[0], mat2._layout.shape[1]
    if tuple(input._layout.shape) != (rows, columns):
        raise RuntimeError(
            f"sparse.sampled_addmm: expected input of the shape of the product, {[rows, columns]}, got "
            f"{list(input._layout.shape)}"
        )
    if input._layout.dtype is not mat1._layout.dtype:
        raise RuntimeError(
            f"sparse.sampled_addmm: expected input and matrices of one dtype, got {input._layout.dtype!r} and "
            f"{mat1._layout.dtype!r}"
        )
    if input._layout.device_state is not mat1._layout.device_state:
        raise two_devices("sparse.sampled_addmm", input._layout.device, mat1._layout.device)
    return sampled_product(input, mat1, mat2, beta, alpha)


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
