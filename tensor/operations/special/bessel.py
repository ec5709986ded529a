"""Bessel functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.dtypes import promotion as rules
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import ADD, DIV, MUL, SGN, SUB
from tensor.operations.pointwise.comparisons import EQ
from tensor.operations.pointwise.selection import where
from tensor.operations.pointwise_operation import Pointwise

from . import bessel_numpy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)


def _row(
    name: str,
    cuda: str,
    numpy: Callable[[Any], Any],
    derivative: Callable[..., Tensor] | None = None,
    node: str = "",
) -> Pointwise:
    """A function of one number, computed in double precision."""
    return Pointwise(
        name,
        cuda,
        numpy,
        rule=rules.floating,
        categories=_REAL,
        include="bessel.cuh" if "bessel" in cuda else "",
        node=node,
        derivatives=() if derivative is None else (derivative,),
    )


# Modified functions of the first kind

I0 = _row("i0", "bessel_i0(a)", bessel_numpy.i0, lambda grad, a: MUL.binary(grad, I1.unary(a)))
I0E = _row(
    "i0e",
    "bessel_i0e(a)",
    bessel_numpy.i0e,
    lambda grad, a, out: MUL.binary(grad, SUB.binary(I1E.unary(a), MUL.binary(SGN.unary(a), out))),
    "SpecialI0EBackward0",
)
I1 = _row(
    "i1",
    "bessel_i1(a)",
    bessel_numpy.i1,
    lambda grad, a, out: MUL.binary(grad, _less_ratio(I0.unary(a), a, out)),
    "SpecialI1Backward0",
)
I1E = _row(
    "i1e",
    "bessel_i1e(a)",
    bessel_numpy.i1e,
    lambda grad, a, out: MUL.binary(
        grad, SUB.binary(_less_ratio(I0E.unary(a), a, out), MUL.binary(SGN.unary(a), out))
    ),
    "SpecialI1EBackward0",
)


def _less_ratio(head: Tensor, a: Tensor, out: Tensor) -> Tensor:
    """``head - out / a``, which is 1/2 at 0."""
    at_zero = EQ.binary(a, 0)
    return where(at_zero, 0.5, SUB.binary(head, DIV.binary(out, ADD.binary(a, at_zero))))


# Modified functions of the second kind

K0 = _row("modified_bessel_k0", "bessel_k(a, false, false)", bessel_numpy.k0)
K0E = _row("scaled_modified_bessel_k0", "bessel_k(a, false, true)", bessel_numpy.k0e)
K1 = _row("modified_bessel_k1", "bessel_k(a, true, false)", bessel_numpy.k1)
K1E = _row("scaled_modified_bessel_k1", "bessel_k(a, true, true)", bessel_numpy.k1e)

# Waves. CUDA's functions for float lose digits from 8 on, so those for double are taken.

J0 = _row("bessel_j0", "j0(double(a))", bessel_numpy.j0)
J1 = _row("bessel_j1", "j1(double(a))", bessel_numpy.j1)
Y0 = _row("bessel_y0", "y0(double(a))", bessel_numpy.y0)
Y1 = _row("bessel_y1", "y1(double(a))", bessel_numpy.y1)


def _spherical(a: Any) -> Any:
    one = a.dtype.type(1)
    return np.where(a == 0, one, np.where(np.isinf(a), 0 * one, np.sin(a) / np.where(a == 0, one, a)))


SPHERICAL_J0 = _row(
    "spherical_bessel_j0", "a == 0 ? Compute(1) : isinf(a) ? Compute(0) : sin(a) / a", _spherical
)


@operation(namespace="tensor special", in_place=True, also="tensor.i0_")
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the first kind of order 0."""
    return I0.out(out, input)


@operation(namespace="special", method=False)
def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(-abs(input)) * i0(input)``, which does not overflow."""
    return I0E.out(out, input)


@operation(namespace="special", method=False)
def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the first kind of order 1."""
    return I1.out(out, input)


@operation(namespace="special", method=False)
def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(-abs(input)) * i1(input)``, which does not overflow."""
    return I1E.out(out, input)


@operation(namespace="special", method=False)
def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`i0`, without a derivative."""
    return I0.out(out, input.detach())


@operation(namespace="special", method=False)
def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`i1`, without a derivative."""
    return I1.out(out, input.detach())


@operation(namespace="special", method=False)
def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the second kind of order 0; NaN for negative numbers."""
    return K0.out(out, input)


@operation(namespace="special", method=False)
def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the second kind of order 1; NaN for negative numbers."""
    return K1.out(out, input)


@operation(namespace="special", method=False)
def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(input) * modified_bessel_k0(input)``, which does not underflow."""
    return K0E.out(out, input)


@operation(namespace="special", method=False)
def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(input) * modified_bessel_k1(input)``, which does not underflow."""
    return K1E.out(out, input)


@operation(namespace="special", method=False)
def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the first kind of order 0."""
    return J0.out(out, input)


@operation(namespace="special", method=False)
def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the first kind of order 1."""
    return J1.out(out, input)


@operation(namespace="special", method=False)
def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the second kind of order 0; NaN for negative numbers."""
    return Y0.out(out, input)


@operation(namespace="special", method=False)
def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the second kind of order 1; NaN for negative numbers."""
    return Y1.out(out, input)


@operation(namespace="special", method=False)
def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Spherical Bessel function of the first kind of order 0: ``sin(input) / input``."""
    return SPHERICAL_J0.out(out, input)
