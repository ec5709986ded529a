"""Orthogonal polynomials of Chebyshev, Hermite, Laguerre and Legendre, from their three-term recurrences.

A row says the polynomial of order 1 in ``x``, and the one of order ``k + 1`` in terms of ``p`` (of order ``k``) and
``q`` (of order ``k - 1``): as a CUDA C++ expression and as a function of arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.dtypes import promotion as rules
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

    _OnArrays: TypeAlias = Callable[..., Any]

#: Orders beyond which a device gives NaN, rather than to be held up by the recurrence.
_HIGHEST = 1 << 20
_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)


def _polynomial(
    name: str, first: tuple[str, _OnArrays], step: tuple[str, _OnArrays], *, shifted: bool = False
) -> Pointwise:
    """The operation of (element, order); ``shifted`` polynomials are those of ``2 * x - 1``."""
    cuda_first, host_first = first
    cuda_step, host_step = step

    def on_host(a: Any, n: Any) -> Any:
        dtype = np.result_type(a, n)
        x, order = np.broadcast_arrays(np.asarray(a, np.float64), np.trunc(np.asarray(n, np.float64)))
        x = 2 * x - 1 if shifted else x
        q, p = np.ones_like(x), host_first(x) + 0 * x
        result = np.where(order < 0, 0.0, np.where(order == 0, q, p))
        reached = np.where(np.isfinite(order), order, 0)
        if np.max(reached, initial=0) > _HIGHEST:
            raise RuntimeError(
                f"{name}(): orders are at most {_HIGHEST}, as there is a step for each, but got {np.max(reached):.0f}"
            )
        for k in range(1, int(np.max(reached, initial=0))):
            q, p = p, host_step(float(k), p, q, x)
            result = np.where(order == k + 1, p, result)
            if np.isnan(p).all():
                # Too large for double precision, now and in all further steps.
                result = np.where(order > k, np.nan, result)
                break
        return np.where(np.isnan(order) | (order == np.inf), np.nan, result).astype(dtype)

    x = "(2 * double(a) - 1)" if shifted else "double(a)"
    body = f"const double x = {x}; return {cuda_step};"
    head = f"[](double x) {{ return {cuda_first}; }}({x})"
    return Pointwise(
        name,
        f"three_term(b, {head}, [a](double k, double p, double q) {{ {body} }})",
        on_host,
        rule=rules.floating,
        categories=_REAL,
        include="orthogonal_polynomials.cuh",
    )


# Chebyshev polynomials: four kinds, which differ by the first order

_CHEBYSHEV = ("2 * x * p - q", lambda k, p, q, x: 2 * x * p - q)

_CHEBYSHEV_T = _polynomial("chebyshev_polynomial_t", ("x", lambda x: x), _CHEBYSHEV)


@operation(namespace="special", method=False)
def chebyshev_polynomial_t(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the first kind ``T(n, x)``, of order ``n``; there is no derivative.

    ``T(0) = 1``, ``T(1) = x``, ``T(n + 1) = 2 * x * T(n) - T(n - 1)``.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.chebyshev_polynomial_t(tensor.tensor([0.5, 2.0]), 2)
    tensor([-0.5000,  7.0000])
    """
    return _CHEBYSHEV_T.out(out, input, n)


_CHEBYSHEV_U = _polynomial("chebyshev_polynomial_u", ("2 * x", lambda x: 2 * x), _CHEBYSHEV)


@operation(namespace="special", method=False)
def chebyshev_polynomial_u(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the second kind ``U(n, x)``, of order ``n``; there is no derivative.

    ``U(0) = 1``, ``U(1) = 2 * x``, ``U(n + 1) = 2 * x * U(n) - U(n - 1)``.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.chebyshev_polynomial_u(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([1., 1., 0.])
    """
    return _CHEBYSHEV_U.out(out, input, n)


_CHEBYSHEV_V = _polynomial("chebyshev_polynomial_v", ("2 * x - 1", lambda x: 2 * x - 1), _CHEBYSHEV)


@operation(namespace="special", method=False)
def chebyshev_polynomial_v(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the third kind ``V(n, x)``, of order ``n``; there is no derivative.

    ``V(0) = 1``, ``V(1) = 2 * x - 1``, ``V(n + 1) = 2 * x * V(n) - V(n - 1)``.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.chebyshev_polynomial_v(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([ 1.,  0., -1.])
    """
    return _CHEBYSHEV_V.out(out, input, n)


_CHEBYSHEV_W = _polynomial("chebyshev_polynomial_w", ("2 * x + 1", lambda x: 2 * x + 1), _CHEBYSHEV)


@operation(namespace="special", method=False)
def chebyshev_polynomial_w(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the fourth kind ``W(n, x)``, of order ``n``; there is no derivative.

    ``W(0) = 1``, ``W(1) = 2 * x + 1``, ``W(n + 1) = 2 * x * W(n) - W(n - 1)``.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.chebyshev_polynomial_w(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([1., 2., 1.])
    """
    return _CHEBYSHEV_W.out(out, input, n)


# Shifted Chebyshev polynomials, which are orthogonal from 0 to 1

_SHIFTED_T = _polynomial("shifted_chebyshev_polynomial_t", ("x", lambda x: x), _CHEBYSHEV, shifted=True)


@operation(namespace="special", method=False)
def shifted_chebyshev_polynomial_t(
    input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None
) -> Tensor:
    """Shifted Chebyshev polynomial of the first kind ``T*(n, x)``, of order ``n``; there is no derivative.

    ``T*(n, x) = T(n, 2 * x - 1)``: see :func:`chebyshev_polynomial_t`.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.shifted_chebyshev_polynomial_t(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([ 1.,  0., -1.])
    """
    return _SHIFTED_T.out(out, input, n)


_SHIFTED_U = _polynomial(
    "shifted_chebyshev_polynomial_u", ("2 * x", lambda x: 2 * x), _CHEBYSHEV, shifted=True
)


@operation(namespace="special", method=False)
def shifted_chebyshev_polynomial_u(
    input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None
) -> Tensor:
    """Shifted Chebyshev polynomial of the second kind ``U*(n, x)``, of order ``n``; there is no derivative.

    ``U*(n, x) = U(n, 2 * x - 1)``: see :func:`chebyshev_polynomial_u`.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.shifted_chebyshev_polynomial_u(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([ 1.,  0., -1.])
    """
    return _SHIFTED_U.out(out, input, n)


_SHIFTED_V = _polynomial(
    "shifted_chebyshev_polynomial_v", ("2 * x - 1", lambda x: 2 * x - 1), _CHEBYSHEV, shifted=True
)


@operation(namespace="special", method=False)
def shifted_chebyshev_polynomial_v(
    input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None
) -> Tensor:
    """Shifted Chebyshev polynomial of the third kind ``V*(n, x)``, of order ``n``; there is no derivative.

    ``V*(n, x) = V(n, 2 * x - 1)``: see :func:`chebyshev_polynomial_v`.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.shifted_chebyshev_polynomial_v(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([ 1., -1., -1.])
    """
    return _SHIFTED_V.out(out, input, n)


_SHIFTED_W = _polynomial(
    "shifted_chebyshev_polynomial_w", ("2 * x + 1", lambda x: 2 * x + 1), _CHEBYSHEV, shifted=True
)


@operation(namespace="special", method=False)
def shifted_chebyshev_polynomial_w(
    input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None
) -> Tensor:
    """Shifted Chebyshev polynomial of the fourth kind ``W*(n, x)``, of order ``n``; there is no derivative.

    ``W*(n, x) = W(n, 2 * x - 1)``: see :func:`chebyshev_polynomial_w`.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.shifted_chebyshev_polynomial_w(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([ 1.,  1., -1.])
    """
    return _SHIFTED_W.out(out, input, n)


# Hermite, Laguerre and Legendre polynomials

_HERMITE_H = _polynomial(
    "hermite_polynomial_h",
    ("2 * x", lambda x: 2 * x),
    ("2 * x * p - 2 * k * q", lambda k, p, q, x: 2 * x * p - 2 * k * q),
)


@operation(namespace="special", method=False)
def hermite_polynomial_h(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """Physicists' Hermite polynomial ``H(n, x)``, of order ``n``; there is no derivative.

    ``H(0) = 1``, ``H(1) = 2 * x``, ``H(n + 1) = 2 * x * H(n) - 2 * n * H(n - 1)``.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.hermite_polynomial_h(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([ 1.,  1., -1.])
    """
    return _HERMITE_H.out(out, input, n)


_HERMITE_HE = _polynomial(
    "hermite_polynomial_he", ("x", lambda x: x), ("x * p - k * q", lambda k, p, q, x: x * p - k * q)
)


@operation(namespace="special", method=False)
def hermite_polynomial_he(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """Probabilists' Hermite polynomial ``He(n, x)``, of order ``n``; there is no derivative.

    ``He(0) = 1``, ``He(1) = x``, ``He(n + 1) = x * He(n) - n * He(n - 1)``.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.hermite_polynomial_he(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([ 1.0000,  0.5000, -0.7500])
    """
    return _HERMITE_HE.out(out, input, n)


_LAGUERRE_L = _polynomial(
    "laguerre_polynomial_l",
    ("1 - x", lambda x: 1 - x),
    ("((2 * k + 1 - x) * p - k * q) / (k + 1)", lambda k, p, q, x: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
)


@operation(namespace="special", method=False)
def laguerre_polynomial_l(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """Laguerre polynomial ``L(n, x)``, of order ``n``; there is no derivative.

    ``L(0) = 1``, ``L(1) = 1 - x``, ``L(n + 1) = ((2 * n + 1 - x) * L(n) - n * L(n - 1)) / (n + 1)``.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.laguerre_polynomial_l(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([1.0000, 0.5000, 0.1250])
    """
    return _LAGUERRE_L.out(out, input, n)


_LEGENDRE_P = _polynomial(
    "legendre_polynomial_p",
    ("x", lambda x: x),
    ("((2 * k + 1) * x * p - k * q) / (k + 1)", lambda k, p, q, x: ((2 * k + 1) * x * p - k * q) / (k + 1)),
)


@operation(namespace="special", method=False)
def legendre_polynomial_p(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """Legendre polynomial ``P(n, x)``, of order ``n``; there is no derivative.

    ``P(0) = 1``, ``P(1) = x``, ``P(n + 1) = ((2 * n + 1) * x * P(n) - n * P(n - 1)) / (n + 1)``.

    Parameters
    ----------
    input : Tensor or float
        Of any shape and a real dtype; integers are computed in the default floating dtype.
    n : Tensor or int
        Order, truncated to a whole number, of a shape that broadcasts; negative orders give 0.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.legendre_polynomial_p(tensor.tensor([0.5]), tensor.tensor([0, 1, 2]))
    tensor([ 1.0000,  0.5000, -0.1250])
    """
    return _LEGENDRE_P.out(out, input, n)
