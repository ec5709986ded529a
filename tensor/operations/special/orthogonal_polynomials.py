"""Orthogonal polynomials of Chebyshev, Hermite, Laguerre and Legendre, from their recurrences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.dtypes import promotion as rules
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)


def _row(name: str, first: str, step: str, shifted: bool = False) -> Callable[..., Tensor]:
    """Function of numbers and orders.

    ``first`` is the polynomial of order 1 in ``x``; ``step`` follows ``p``, of order ``k``, and ``q``, of the order
    before. Both are expressions of Python and C++ alike.
    """
    first_of, step_of = eval(f"lambda x: {first}"), eval(f"lambda k, p, q, x: {step}")

    def on_host(a: Any, n: Any) -> Any:
        kind = np.result_type(a, n)
        x, order = np.broadcast_arrays(np.asarray(a, np.float64), np.trunc(np.asarray(n, np.float64)))
        x = 2 * x - 1 if shifted else x
        q, p = np.ones_like(x), first_of(x) + 0 * x
        found = np.where(order < 0, 0.0, np.where(order == 0, q, p))
        for k in range(1, int(np.max(order, initial=0))):
            q, p = p, step_of(float(k), p, q, x)
            found = np.where(order == k + 1, p, found)
        return np.where(np.isnan(order), np.nan, found).astype(kind)

    x = "(2 * double(a) - 1)" if shifted else "double(a)"
    body = f"const double x = {x}; return {step};"
    head = f"[](double x) {{ return {first}; }}({x})"
    row = Pointwise(
        name,
        f"three_term(b, {head}, [a](double k, double p, double q) {{ {body} }})",
        on_host,
        rule=rules.floating,
        categories=_REAL,
        include="orthogonal_polynomials.cuh",
    )

    def function(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
        return row.out(out, input, n)

    function.__name__ = function.__qualname__ = name
    what = name.replace("_polynomial_", " polynomial ").replace("_", " ")
    function.__doc__ = f"The {what} of order ``n`` at ``input``; there is no derivative."
    return operation(namespace="special", method=False)(function)


chebyshev_polynomial_t = _row("chebyshev_polynomial_t", "x", "2 * x * p - q")
chebyshev_polynomial_u = _row("chebyshev_polynomial_u", "2 * x", "2 * x * p - q")
chebyshev_polynomial_v = _row("chebyshev_polynomial_v", "2 * x - 1", "2 * x * p - q")
chebyshev_polynomial_w = _row("chebyshev_polynomial_w", "2 * x + 1", "2 * x * p - q")
shifted_chebyshev_polynomial_t = _row("shifted_chebyshev_polynomial_t", "x", "2 * x * p - q", True)
shifted_chebyshev_polynomial_u = _row("shifted_chebyshev_polynomial_u", "2 * x", "2 * x * p - q", True)
shifted_chebyshev_polynomial_v = _row("shifted_chebyshev_polynomial_v", "2 * x - 1", "2 * x * p - q", True)
shifted_chebyshev_polynomial_w = _row("shifted_chebyshev_polynomial_w", "2 * x + 1", "2 * x * p - q", True)
hermite_polynomial_h = _row("hermite_polynomial_h", "2 * x", "2 * x * p - 2 * k * q")
hermite_polynomial_he = _row("hermite_polynomial_he", "x", "x * p - k * q")
laguerre_polynomial_l = _row("laguerre_polynomial_l", "1 - x", "((2 * k + 1 - x) * p - k * q) / (k + 1)")
legendre_polynomial_p = _row("legendre_polynomial_p", "x", "((2 * k + 1) * x * p - k * q) / (k + 1)")
