"""Pseudoinverses, ranks, condition numbers and least squares, from singular values."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import layouts
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import TensorBase, check_tensor
from tensor.linalg.checks import check_alike, check_floating, check_matrices, check_square_shape
from tensor.linalg.errors import LinAlgError, check_finite, check_info
from tensor.linalg.factorizations.singular_values import singular_values
from tensor.linalg.factorizations.spectral import converged
from tensor.linalg.host import adjoint_of, on_host, read
from tensor.linalg.norms import matrix_norm
from tensor.linalg.results import LSTSQ, LeastSquares
from tensor.operations.autocast import AS_GIVEN, FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import where
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import into_out
from tensor.operations.shapes import views

from .solving import inv_ex, is_vector_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


class _Tolerance:
    """Below which size a singular value counts as zero.

    Parameters
    ----------
    atol
        A number, or a tensor of the batch's shape; ``None`` is 0.
    rtol
        Relative to the largest singular value. ``None`` is the larger dimension times the precision, or 0 where
        ``atol`` is given and positive.
    """

    def __init__(self, name: str, atol: Any, rtol: Any) -> None:
        self.atol, self.rtol = (self._value(name, what, x) for what, x in (("atol", atol), ("rtol", rtol)))

    @staticmethod
    def _value(name: str, what: str, x: Any) -> Any:
        if not isinstance(x, TensorBase):
            return x
        if x._layout.dtype.is_complex:
            raise RuntimeError(f"{name}: {what} tensor of complex type is not supported.")
        return read(x)[0]

    def of(self, largest: Array, shape: tuple[int, ...]) -> Array:
        """The bounds for matrices of ``shape`` whose largest singular values are known."""
        atol, rtol = self.atol, self.rtol
        usual = max(shape[-2:]) * np.finfo(largest.dtype).eps
        atol = 0.0 if atol is None else atol
        if rtol is None:
            rtol = np.where(np.asarray(atol) > 0, 0.0, usual)
        bounds: Array = np.maximum(atol, rtol * largest).astype(largest.dtype)
        return bounds


def _largest(values: Array) -> Array:
    result: Array = values.max(-1, initial=0)
    return result


def _pseudoinverse(name: str, array: Array, tolerance: _Tolerance, hermitian: bool) -> tuple[Array]:
    check_finite(name, array)
    if hermitian:
        values, vectors = converged(name, np.linalg.eigh, array, "eigen")
        size, left, right = np.abs(values), vectors, adjoint_of(vectors)
    else:
        left, values, right = converged(name, partial(np.linalg.svd, full_matrices=False), array, "singular")
        size = values
    keep = size > tolerance.of(_largest(size), array.shape)[..., None]
    return ((adjoint_of(right) * _inverted(values, keep)[..., None, :]) @ adjoint_of(left),)


def _inverted(values: Array, keep: Array) -> Array:
    """Inverses of the singular values that do not count as zero, and 0 for the others."""
    result: Array = np.where(keep, 1 / np.where(keep, values, 1), 0)
    return result


def _pinv_gradient(expected: Any, grads: Any, a: Tensor, result: Tensor) -> Any:
    return (_toward_matrix(grads, a, result),)


_PINV_BACKWARD = BackwardFormula("LinalgPinvBackward0", "a", joint=Derivative(_pinv_gradient, needs="a out"))


def _toward_matrix(grad: Tensor, a: Tensor, result: Tensor) -> Any:
    """The gradient of ``a`` from that of its pseudoinverse ``found`` (Golub and Pereyra, 1973)."""
    back, towards = result.mH, grad.mH
    total = -matmul(back, matmul(grad, back))
    # Outside of the spaces that the matrix spans.
    outer = matmul(towards, matmul(result, back))
    total = total + outer - matmul(a, matmul(result, outer))
    inner = matmul(back, matmul(result, towards))
    return total + inner - matmul(matmul(inner, result), a)


@operation(namespace="linalg", method=False)
def pinv(
    A: Tensor,  # noqa: N803 - PyTorch's name
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Pseudoinverses (Moore and Penrose) of matrices ``(*, m, n)``. CUDA tensors go through the host, which waits for them.

    Parameters
    ----------
    rcond
        Another name of ``rtol``.
    hermitian
        Whether the matrices are Hermitian; the lower triangle is looked at then.
    atol, rtol
        Singular values below ``max(atol, rtol * largest)`` count as zero: numbers, or tensors of the batch's
        shape. By default ``rtol`` is the larger dimension times the precision, unless ``atol`` is given.

    Raises
    ------
    LinAlgError
        If a matrix has an infinity or NaN; it says which.
    RuntimeError
        For fewer than two dimensions, or another type than single or double precision.

    Examples
    --------
    >>> tensor.linalg.pinv(tensor.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    return into_out(
        pseudoinverse("linalg.pinv", A, rcond if rtol is None else rtol, atol, hermitian), out, "linalg.pinv"
    )


def pseudoinverse(name: str, a: Tensor, rtol: Any, atol: Any, hermitian: bool) -> Tensor:
    """Pseudoinverses, recorded; ``name`` is what the user called."""
    check_matrices(name, a)
    if hermitian:
        check_square_shape(name, a)
    tolerance = _Tolerance(name, atol, rtol)
    (result,) = on_host(lambda array: _pseudoinverse(name, array, tolerance, hermitian), a)
    _PINV_BACKWARD.record((result,), (a,))
    return result


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def matrix_rank(
    A: Tensor,  # noqa: N803
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """How many singular values of each matrix do not count as zero, as int64; see :func:`pinv`.

    Parameters
    ----------
    tol
        Another name of ``atol``.

    Examples
    --------
    >>> tensor.linalg.matrix_rank(tensor.ones(3, 3))
    tensor(1)
    """
    name = "linalg.matrix_rank"
    check_matrices(name, A)
    if hermitian:
        check_square_shape(name, A)
    tolerance = _Tolerance(
        name, tol if atol is None else atol, 0.0 if tol is not None and rtol is None else rtol
    )

    def work(array: Array) -> tuple[Array]:
        check_finite(name, array)
        if hermitian:
            values = np.abs(converged(name, np.linalg.eigvalsh, array, "eigen"))
        else:
            values = converged(name, partial(np.linalg.svd, compute_uv=False), array, "singular")
        bound = tolerance.of(_largest(values), array.shape)
        return ((values > bound[..., None]).sum(-1, dtype=np.int64),)

    return into_out(on_host(work, A.detach())[0], out, name)


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Condition numbers: ``norm(A) * norm(inv(A))``, infinite for singular matrices.

    Parameters
    ----------
    p
        The norm: ``2`` (which ``None`` means too) and ``-2``, for which matrices need not be square; ``1``, ``-1``,
        ``inf``, ``-inf``, ``"fro"``, ``"nuc"``; see :func:`matrix_norm`.

    Raises
    ------
    RuntimeError
        For another norm, or matrices that are not square where they must be.

    Examples
    --------
    >>> tensor.linalg.cond(tensor.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    check_matrices("linalg.cond", A)
    if not isinstance(p, str) and (p is None or abs(p) == 2):
        values = singular_values("linalg.svd", A)
        if not values._layout.shape[-1]:
            return into_out(values.new_zeros(values._layout.shape[:-1]), out, "linalg.cond")
        large, small = values.select(-1, 0), values.select(-1, -1)
        return into_out(small / large if p == -2 else large / small, out, "linalg.cond")
    if p not in ("fro", "nuc", 1, -1, float("inf"), float("-inf")):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    check_square_shape(f"linalg.cond(ord={p})", A)
    if not A._layout.shape[-1]:
        return into_out(A.abs().sum((-2, -1)), out, "linalg.cond")
    inverse, info = inv_ex(A)
    regular = info == 0
    # A singular matrix' inverse must not make NaN of a sum or a derivative.
    inverse = where(views.unsqueeze(views.unsqueeze(regular, -1), -1), inverse, 1)
    result = matrix_norm(A, p) * matrix_norm(inverse, p)
    return into_out(where(regular, result, float("inf")), out, "linalg.cond")


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _lstsq_gradient(expected: Any, grads: Any, a: Tensor, b: Tensor, rtol: Any, vector: bool) -> Any:
    inverse = pseudoinverse("linalg.lstsq", a, rtol, None, False)
    if vector:
        grads, b = views.unsqueeze(grads, -1), views.unsqueeze(b, -1)
    right = matmul(inverse.mH, grads)
    towards = _toward_matrix(matmul(grads, b.mH), a, inverse) if expected[0] else None
    return towards, views.squeeze(right, -1) if vector else right


_LSTSQ_BACKWARD = BackwardFormula(
    "LinalgLstsqBackward0", "A B", joint=Derivative(_lstsq_gradient, needs="A B")
)


@operation(namespace="linalg", method=False, autocast=Autocast(cuda=AS_GIVEN, cpu=FLOAT32))
def lstsq(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    rcond: Any = None,
    *,
    driver: str | None = None,
) -> LeastSquares:
    """The ``X`` for which ``norm(A @ X - B)`` is smallest, and of these the smallest one.

    CUDA tensors go through the host, which waits for them; all drivers are there for them too.

    Parameters
    ----------
    A
        Matrices ``(*, m, n)``.
    B
        Matrices ``(*, m, k)``; or vectors: one ``(m,)``, or one for each matrix.
    rcond
        Singular values below this share of the largest one count as zero; by default the larger dimension times
        the precision.
    driver
        Which results there are. ``"gelsy"``, the default on the CPU: the rank. ``"gelsd"`` and ``"gelss"``: also the
        singular values. ``"gels"``, the default on CUDA devices, for matrices of full rank only: neither. All but
        ``"gelsy"`` give the squared distances ``residuals`` where the matrices have full rank and more rows than columns.

    Raises
    ------
    LinAlgError
        If a matrix has an infinity or NaN, or, with ``"gels"``, not full rank; it says which.
    RuntimeError
        If ``A`` and ``B`` differ in rows, the dimensions before the last two cannot be broadcast together, or dtypes
        or devices differ.

    Examples
    --------
    >>> A, B = tensor.tensor([[1.0], [1.0]]), tensor.tensor([[1.0], [3.0]])
    >>> tensor.linalg.lstsq(A, B).solution.round(decimals=4)
    tensor([[2.]])
    """
    name = "linalg.lstsq"
    check_tensor(A, name, "A")
    check_tensor(B, name, "B")
    rank, right_rank = len(A._layout.shape), len(B._layout.shape)
    if rank < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if right_rank < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if not 0 <= rank - right_rank <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    check_alike(name, A, B, "input", "other")
    check_floating(name, A)
    vector = rank - right_rank == 1
    rows, columns = A._layout.shape[-2:]
    if (vector and not is_vector_of(A, B)) or B._layout.shape[-1 if vector else -2] != rows:
        dim = -1 if vector else -2
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size({dim}), but they are {rows} and {B._layout.shape[dim]}"
        )
    layouts.broadcast_shapes(A._layout.shape[:-2], B._layout.shape[: -1 if vector else -2])
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if driver is None:
        driver = "gels" if A.is_cuda else "gelsy"
    tolerance = _Tolerance(name, None, rcond)

    def work(a: Array, b: Array) -> tuple[Array, ...]:
        check_finite(name, a)
        right = b[..., None] if vector else b
        left, values, back = converged(name, partial(np.linalg.svd, full_matrices=False), a, "singular")
        keep = values > tolerance.of(_largest(values), a.shape)[..., None]
        ranks = keep.sum(-1, dtype=np.int64)
        if driver == "gels":
            missing = ranks < values.shape[-1]
            check_info(name, "rank", np.where(missing, ranks + 1, 0), LinAlgError)
        result = adjoint_of(back) @ (_inverted(values, keep)[..., None] * (adjoint_of(left) @ right))
        return result[..., 0] if vector else result, ranks, values

    solution, ranks, values = on_host(work, A, B)
    _LSTSQ_BACKWARD.record((solution,), (A, B), context=(rcond, vector))
    # Where there are none, they still belong to the graph.
    residuals = solution.reshape(-1)[:0].abs() if solution.requires_grad else values.new_empty(0)
    if driver != "gelsy" and rows > columns and _full_rank(ranks, columns):
        x, right = (views.unsqueeze(each, -1) if vector else each for each in (solution, B))
        difference = matmul(A, x) - right
        residuals = (difference * difference.conj()).real.sum(-2)
    return LSTSQ(
        solution,
        residuals,
        ranks.new_empty(0) if driver == "gels" else ranks,
        values if driver in ("gelsd", "gelss") else values.new_empty(0),
    )


def _full_rank(ranks: Tensor, columns: int) -> bool:
    return bool((read(ranks)[0] == columns).all())
