"""Inverses and systems of linear equations of square matrices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import layouts
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.linalg.checks import check_alike, check_matrices, check_square
from tensor.linalg.errors import check_info
from tensor.linalg.factorizations.lu_on_host import zero_pivot
from tensor.linalg.host import on_host, one_by_one
from tensor.linalg.results import INV_EX, SOLVE_EX, InverseWithInfo, SolutionWithInfo
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import all_into_out, into_out
from tensor.operations.shapes import views

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _inverses(array: Array) -> tuple[Array, Array]:
    """Inverses, and which pivot of a matrix is zero."""
    batch, n = array.shape[:-2], array.shape[-1]
    info = np.zeros(batch, np.int32)
    try:
        return np.linalg.inv(array), info
    except np.linalg.LinAlgError:
        result, singular = one_by_one(np.linalg.inv, (n, n), array)
    _note_pivots(info, array, singular)
    return result, info


def _note_pivots(info: Array, array: Array, singular: Sequence[int]) -> None:
    matrices = array.reshape(-1, *array.shape[-2:])
    for number in singular:
        info.reshape(-1)[number] = zero_pivot(matrices[number])


def _inverse_gradient(expected: Any, grads: Any, inverse: Tensor) -> Any:
    turned = inverse.mH
    return (-matmul(turned, matmul(grads, turned)),)


_INVERSE_BACKWARD = BackwardFormula(
    "LinalgInvExBackward0", "a", joint=Derivative(_inverse_gradient, needs="out")
)


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803 - PyTorch's name
    """Inverses of square matrices ``(*, n, n)``. CUDA tensors go through the host, which waits for them.

    Raises
    ------
    LinAlgError
        If a matrix is singular; it says which.
    RuntimeError
        If the matrices are not square, or of another type than single or double precision.

    Examples
    --------
    >>> tensor.linalg.inv(tensor.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inverted("linalg.inv", A, out)


def inverted(name: str, a: Tensor, out: Tensor | None) -> Tensor:
    """Inverses; ``name`` is what the user called."""
    check_square(name, a)

    def work(array: Array) -> tuple[Array]:
        result, info = _inverses(array)
        check_info(name, "inverse", info)
        return (result,)

    (result,) = on_host(work, a)
    _INVERSE_BACKWARD.record((result,), (a,))
    return into_out(result, out, name)


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> InverseWithInfo:  # noqa: N803
    """:func:`inv` that tells of singular matrices, whose inverses are NaN, instead of raising an error.

    Parameters
    ----------
    check_errors
        Whether to raise LinAlgError all the same.

    Examples
    --------
    >>> tensor.linalg.inv_ex(tensor.zeros(2, 2)).info
    tensor(1, dtype=tensor.int32)
    """
    check_square("linalg.inv_ex", A)

    def work(array: Array) -> tuple[Array, Array]:
        result, info = _inverses(array)
        if check_errors:
            check_info("linalg.inv_ex", "inverse", info)
        return result, info

    result, info = on_host(work, A)
    _INVERSE_BACKWARD.record((result,), (A,))
    value: InverseWithInfo = all_into_out(INV_EX(result, info), out, "linalg.inv_ex")
    return value


def is_vector_of(a: Tensor, b: Tensor) -> bool:
    """Whether the right sides ``b`` of systems with matrices ``a`` are vectors, one for each matrix."""
    rows, right = a._layout.shape, b._layout.shape
    return len(right) == 1 or (len(rows) - 1 == len(right) and rows[:-1] == right)


def _solutions(a: Array, b: Array) -> tuple[Array, Array]:
    info = np.zeros(a.shape[:-2], np.int32)
    try:
        return np.linalg.solve(a, b), info
    except np.linalg.LinAlgError:
        pass
    # Singular matrices become NaN, so that their solutions do.
    _, singular = one_by_one(np.linalg.inv, a.shape[-2:], a)
    _note_pivots(info, a, singular)
    regular = np.where((info == 0)[..., None, None], a, np.eye(a.shape[-1], dtype=a.dtype))
    return np.where((info == 0)[..., None, None], np.linalg.solve(regular, b), np.nan).astype(a.dtype), info


def _solve_gradient(expected: Any, grads: Any, a: Tensor, x: Tensor, left: bool, vector: bool) -> Any:
    right = _solve("linalg.solve", a.mH, grads, left, vector)[0]
    if not expected[0]:
        return None, right
    if vector:
        return -(views.unsqueeze(right, -1) * views.unsqueeze(x.conj(), -2)), right
    return -(matmul(right, x.mH) if left else matmul(x.mH, right)), right


_SOLVE_BACKWARD = BackwardFormula(
    "LinalgSolveExBackward0", "a b", joint=Derivative(_solve_gradient, needs=("a out", "a"))
)


def _solve(
    name: str, a: Tensor, b: Tensor, left: bool, vector: bool, check: bool = True
) -> tuple[Tensor, Tensor]:
    """Solutions and numbers of zero pivots; recorded."""

    def work(a: Array, b: Array) -> tuple[Array, Array]:
        if vector:
            b = b[..., None]
        elif not left:
            a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
        result, info = _solutions(a, b)
        if check:
            check_info(name, "solution", info)
        return result[..., 0] if vector else result if left else np.swapaxes(result, -1, -2), info

    result, info = on_host(work, a, b)
    _SOLVE_BACKWARD.record((result,), (a, b), context=(left, vector))
    return result, info


def _check_system(name: str, a: Tensor, b: Tensor, left: bool) -> bool:
    """Raise unless matrices and right sides fit; returns whether those are vectors."""
    check_square(name, a)
    check_alike(name, a, b)
    if not b._layout.shape:
        raise RuntimeError(f"{name}: The input tensor B must have at least 1 dimension.")
    vector = is_vector_of(a, b)
    if vector and not left:
        raise RuntimeError(
            f"{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case "
            "linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    check_right_sides(name, a, b, left=left, vector=vector)
    return vector


def check_right_sides(name: str, a: Tensor, b: Tensor, *, left: bool, vector: bool) -> None:
    """Raise RuntimeError unless right sides have as many rows (on the left: columns) as the matrices."""
    n, right = a._layout.shape[-1], b._layout.shape
    if vector:
        if right[-1] != n:
            raise RuntimeError(
                f"{name}: Incompatible shapes of A and B for the equation AX = B ({n}x{n} and {right[-1]}x1)"
            )
        layouts.broadcast_shapes(a._layout.shape[:-2], right[:-1])
        return
    if right[-2 if left else -1] != n:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} ({n}x{n} and "
            f"{right[-2]}x{right[-1]})"
        )
    layouts.broadcast_shapes(a._layout.shape[:-2], right[:-2])


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """The ``X`` of ``A @ X = B``, or of ``X @ A = B`` with ``left=False``.

    Parameters
    ----------
    A
        Square matrices ``(*, n, n)``.
    B
        Matrices ``(*, n, k)`` (``(*, k, n)``), whose batch dimensions broadcast with those of ``A``; or vectors:
        one ``(n,)``, or one for each matrix.

    Raises
    ------
    LinAlgError
        If a matrix is singular; it says which.
    RuntimeError
        If ``A`` is not square, ``B`` has not its size in rows (columns with ``left=False``), the dimensions before
        the last two cannot be broadcast together, or dtypes or devices differ.

    Examples
    --------
    >>> tensor.linalg.solve(tensor.tensor([[2.0, 0.0], [0.0, 4.0]]), tensor.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    vector = _check_system("linalg.solve", A, B, left)
    return into_out(_solve("linalg.solve", A, B, bool(left), vector)[0], out, "linalg.solve")


@operation(namespace="linalg", method=False)
def solve_ex(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    *,
    left: bool = True,
    check_errors: bool = False,
    out: Any = None,
) -> SolutionWithInfo:
    """:func:`solve` that reports singular matrices, whose solutions are NaN, in ``info`` instead of raising an error.

    Parameters
    ----------
    check_errors : bool
        Whether to raise an error all the same.

    Returns
    -------
    SolutionWithInfo
        Named tuple of ``result`` and int32 ``info``: 0, or the number, from 1, of the first zero pivot.

    Raises
    ------
    RuntimeError
        As :func:`solve`: if ``A`` is not square, sizes of ``A`` and ``B`` differ, or dtypes or devices do; with
        ``check_errors``, if a matrix is singular.

    Examples
    --------
    >>> tensor.linalg.solve_ex(tensor.eye(2), tensor.ones(2))
    tensor.return_types.linalg_solve_ex(
    result=tensor([1., 1.]),
    info=tensor(0, dtype=tensor.int32))
    """
    vector = _check_system("linalg.solve_ex", A, B, left)
    value = SOLVE_EX(*_solve("linalg.solve_ex", A, B, bool(left), vector, check_errors))
    result: SolutionWithInfo = all_into_out(value, out, "linalg.solve_ex")
    return result


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """The inverse of the linear map from the dimensions from ``ind`` on to those before, as a tensor.

    Raises
    ------
    RuntimeError
        If their sizes have different products, or ``ind`` is not positive.

    Examples
    --------
    >>> tensor.linalg.tensorinv(tensor.eye(6).view(2, 3, 6)).shape
    tensor.Size([6, 2, 3])
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = A._layout.shape
    rows, columns = prod(shape[:ind]), prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{columns} != {rows}"
        )
    result = inverted("linalg.tensorinv", A.reshape(rows, columns), None).reshape(*shape[ind:], *shape[:ind])
    return into_out(result, out, "linalg.tensorinv")


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def tensorsolve(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    dims: Sequence[int] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The ``X`` of ``tensordot(A, X, X.ndim) = B``.

    Parameters
    ----------
    dims
        Dimensions of ``A`` that are moved to its end first.

    Raises
    ------
    RuntimeError
        If the dimensions of ``A`` beside those of ``B`` have another product than those of ``B``.

    Examples
    --------
    >>> tensor.linalg.tensorsolve(tensor.eye(6).view(2, 3, 2, 3), tensor.ones(2, 3)).shape
    tensor.Size([2, 3])
    """
    check_alike("linalg.tensorsolve", A, B)
    moved = A
    if dims is not None:
        rank = len(A._layout.shape)
        moved = views.movedim(A, tuple(dims), tuple(range(rank - len(tuple(dims)), rank)))
    shape, count = moved._layout.shape, len(B._layout.shape)
    rows, columns = prod(shape[:count]), prod(shape[count:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {columns} != {rows}"
        )
    square = moved.reshape(rows, columns)
    check_matrices("linalg.tensorsolve", square)
    result = _solve("linalg.tensorsolve", square, B.reshape(-1), True, True)[0]
    return into_out(result.reshape(shape[count:]), out, "linalg.tensorsolve")
