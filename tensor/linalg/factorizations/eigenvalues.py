"""Eigenvalues and eigenvectors; see :mod:`.spectral` for what has derivatives."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.modes.grad_mode import modes
from tensor.linalg.checks import check_square
from tensor.linalg.errors import check_finite, which
from tensor.linalg.host import on_host
from tensor.linalg.results import EIG, EIGH, Eigenpairs
from tensor.linalg.systems.solving import solve
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import all_into_out, into_out
from tensor.operations.shapes import views

from .spectral import check_phase, converged, diagonal, differences

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


# Hermitian matrices


def _check_triangle(name: str, a: Tensor, triangle: Any) -> str:
    check_square(name, a)
    result = triangle.upper() if isinstance(triangle, str) else triangle
    if result not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {triangle}")
    return str(result)


def _eigh_gradient(expected: Any, grads: Any, values: Tensor, vectors: Tensor) -> Any:
    towards_values, towards_vectors = grads
    if towards_vectors is None:
        return (matmul(vectors * views.unsqueeze(towards_values, -2), vectors.mH),)
    inner = matmul(vectors.mH, towards_vectors)
    if vectors._layout.dtype.is_complex:
        check_phase("eigh", inner, None)
    # Vectors turn in the space of skew-Hermitian matrices only.
    inner = 0.5 * (inner - inner.mH) / differences(values)
    if towards_values is not None:
        inner = inner + towards_values.to(vectors._layout.dtype).diag_embed()
    return (matmul(vectors, matmul(inner, vectors.mH)),)


_EIGH_BACKWARD = BackwardFormula(
    "LinalgEighBackward0",
    "a",
    joint=Derivative(_eigh_gradient, needs="values vectors"),
    outputs="values vectors",
)


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Eigenpairs:  # noqa: N803
    """Real eigenvalues in ascending order, and orthonormal eigenvectors, of Hermitian matrices ``(*, n, n)``.

    CUDA tensors go through the host, which waits for them.

    Parameters
    ----------
    UPLO
        Which triangle is looked at: ``"L"`` (lower) or ``"U"``. The gradient is that of a Hermitian matrix.

    Raises
    ------
    LinAlgError
        If a matrix has an infinity or NaN; it says which.
    RuntimeError
        If the matrices are not square, or of another type than single or double precision.

    Examples
    --------
    >>> values, vectors = tensor.linalg.eigh(tensor.tensor([[2.0, 0.0], [0.0, 1.0]]))
    >>> values
    tensor([1., 2.])
    """
    which_triangle = _check_triangle("linalg.eigh", A, UPLO)
    result: Eigenpairs = all_into_out(EIGH(*_eigh("linalg.eigh", A, which_triangle)), out, "linalg.eigh")
    return result


def _eigh(name: str, a: Tensor, triangle: Any) -> tuple[Tensor, ...]:
    def work(array: Array) -> Any:
        check_finite(name, array)
        return converged(name, partial(np.linalg.eigh, UPLO=triangle), array, "eigen")

    results = on_host(work, a)
    _EIGH_BACKWARD.record(results, (a,))
    return results


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Eigenvalues of Hermitian matrices ``(*, n, n)`` in ascending order: real, of shape ``(*, n)``; see :func:`eigh`.

    Unlike that of eigenvectors, their derivative always exists.

    Parameters
    ----------
    UPLO : {"L", "U"}
        The triangle that is read.

    Raises
    ------
    LinAlgError
        If a matrix has an infinity or NaN, or the iteration does not converge.
    RuntimeError
        If the matrices are not square, or not of single or double precision.

    Examples
    --------
    >>> tensor.linalg.eigvalsh(tensor.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    which_triangle = _check_triangle("linalg.eigvalsh", A, UPLO)
    return into_out(hermitian_eigenvalues("linalg.eigh", A, which_triangle), out, "linalg.eigvalsh")


def hermitian_eigenvalues(name: str, a: Tensor, triangle: Any = "L") -> Tensor:
    """Eigenvalues of checked matrices; vectors are computed only where a derivative needs them."""
    if modes.recording and a.requires_grad:
        return _eigh(name, a, triangle)[0]

    def work(array: Array) -> tuple[Array]:
        check_finite(name, array)
        return (converged(name, partial(np.linalg.eigvalsh, UPLO=triangle), array, "eigen"),)

    return on_host(work, a)[0]


# Any square matrices


def _eig_gradient(expected: Any, grads: Any, values: Tensor, vectors: Tensor, real: bool) -> Any:
    towards_values, towards_vectors = grads
    adjoint = vectors.mH
    if towards_vectors is None:
        result = solve(adjoint, views.unsqueeze(towards_values, -1) * adjoint)
        return (result.real if real else result,)
    inner = matmul(adjoint, towards_vectors)
    check_phase("eig", inner, None)
    # LAPACK's vectors have length one: they do not change along themselves.
    along = diagonal(inner).real.to(values._layout.dtype)
    inner = inner - matmul(adjoint, vectors * views.unsqueeze(along, -2))
    inner = inner / differences(values).conj()
    if towards_values is not None:
        inner = inner + (towards_values - diagonal(inner)).diag_embed()
    else:
        inner = inner - diagonal(inner).diag_embed()
    result = solve(adjoint, matmul(inner, adjoint))
    return (result.real if real else result,)


_EIG_BACKWARD = BackwardFormula(
    "LinalgEigBackward0",
    "a",
    joint=Derivative(_eig_gradient, needs="values vectors"),
    outputs="values vectors",
)


def _check_eig(name: str, array: Array) -> None:
    finite = np.isfinite(array).all((-2, -1))
    if not finite.all():
        number = int(np.flatnonzero(~finite)[0])
        raise RuntimeError(f"{name}: {which(finite, number)}input tensor should not contain infs or NaNs.")


def _complex_of(array: Array) -> Any:
    """The complex type of an array's precision."""
    return np.result_type(array.dtype, np.complex64)


def _eig(name: str, a: Tensor) -> tuple[Tensor, ...]:
    def work(array: Array) -> tuple[Array, Array]:
        _check_eig(name, array)
        result = converged(name, np.linalg.eig, array, "eigen")
        # NumPy gives real numbers where all happen to be.
        return result.eigenvalues.astype(_complex_of(array)), result.eigenvectors.astype(_complex_of(array))

    results = on_host(work, a)
    real = not a._layout.dtype.is_complex
    _EIG_BACKWARD.record(results, (a,), context=(real,))
    return results


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def eig(A: Tensor, *, out: Any = None) -> Eigenpairs:  # noqa: N803
    """Complex eigenvalues and eigenvectors of length one of square matrices ``(*, n, n)``, in no order.

    CUDA tensors go through the host, which waits for them.

    Raises
    ------
    RuntimeError
        If a matrix has an infinity or NaN; the matrices are not square, or of another type than single or double
        precision.

    Examples
    --------
    >>> values, vectors = tensor.linalg.eig(tensor.tensor([[2.0, 0.0], [0.0, 1.0]]))
    >>> values
    tensor([2.+0.j, 1.+0.j])
    """
    check_square("linalg.eig", A)
    result: Eigenpairs = all_into_out(EIG(*_eig("linalg.eig", A)), out, "linalg.eig")
    return result


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Eigenvalues of square matrices ``(*, n, n)``, in no order: complex, of shape ``(*, n)``; see :func:`eig`.

    Raises
    ------
    LinAlgError
        If a matrix has an infinity or NaN, or the iteration does not converge.
    RuntimeError
        If the matrices are not square, or not of single or double precision.

    Examples
    --------
    >>> tensor.linalg.eigvals(tensor.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([2.+0.j, 1.+0.j])
    """
    check_square("linalg.eigvals", A)
    if modes.recording and A.requires_grad:
        return into_out(_eig("linalg.eig", A)[0], out, "linalg.eigvals")

    def work(array: Array) -> tuple[Array]:
        _check_eig("linalg.eig", array)
        return (converged("linalg.eig", np.linalg.eigvals, array, "eigen").astype(_complex_of(array)),)

    return into_out(on_host(work, A)[0], out, "linalg.eigvals")
