"""The normal distribution's functions, the scaled error function, and entropy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.base import TensorBase
from tensor.core.dtypes import promotion as rules
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import ADD, DIV, MUL, NEG, SUB
from tensor.operations.pointwise.comparisons import EQ, LE
from tensor.operations.pointwise.powers import EXP, LOG, SQUARE
from tensor.operations.pointwise.selection import DROP
from tensor.operations.pointwise_operation import Pointwise

from . import error_functions_numpy as special_numpy

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)
_ROOT_HALF = math.sqrt(0.5)

ERFCX = Pointwise(
    "erfcx",
    "erfcx(a)",
    special_numpy.erfcx,
    rule=rules.floating,
    categories=_REAL,
    node="SpecialErfcxBackward0",
    derivatives=(
        lambda grad, a, out: MUL.binary(
            grad, SUB.binary(MUL.binary(MUL.binary(a, 2), out), 2 / math.sqrt(math.pi))
        ),
    ),
)
NDTR = Pointwise(
    "ndtr",
    "normcdf(a)",
    special_numpy.ndtr,
    rule=rules.floating,
    categories=_REAL,
    node="SpecialNdtrBackward0",
    derivatives=(
        lambda grad, a: MUL.binary(
            grad, MUL.binary(EXP.unary(MUL.binary(SQUARE.unary(a), -0.5)), 1 / math.sqrt(2 * math.pi))
        ),
    ),
)
LOG_NDTR = Pointwise(
    "log_ndtr",
    f"a < -1 ? log(erfcx(a * Compute({-_ROOT_HALF!r})) / 2) - a * a / 2 : log1p(-normcdf(-a))",
    special_numpy.log_ndtr,
    rule=rules.floating,
    categories=_REAL,
    node="SpecialLogNdtrBackward0",
    derivatives=(
        lambda grad, a: DIV.binary(
            MUL.binary(grad, math.sqrt(2 / math.pi)), ERFCX.unary(MUL.binary(a, -_ROOT_HALF))
        ),
    ),
)
NDTRI = Pointwise(
    "ndtri",
    "normcdfinv(a)",
    special_numpy.ndtri,
    rule=rules.floating,
    categories=_REAL,
    node="SpecialNdtriBackward0",
    derivatives=(
        lambda grad, out: MUL.binary(
            grad, MUL.binary(EXP.unary(MUL.binary(SQUARE.unary(out), 0.5)), math.sqrt(2 * math.pi))
        ),
    ),
)
ENTR = Pointwise(
    "entr",
    "a != a ? a : a > 0 ? -a * log(a) : a == 0 ? Compute(0) : -1 / Compute(0)",
    lambda a: np.where(a >= 0, np.where(a > 0, -a * np.log(a), 0), np.where(a < 0, -np.inf, a)).astype(
        a.dtype
    ),
    rule=rules.floating,
    categories=_REAL,
    node="SpecialEntrBackward0",
    derivatives=(lambda grad, a: MUL.binary(grad, SUB.binary(NEG.unary(LOG.unary(a)), 1)),),
)
XLOG1PY = Pointwise(
    "xlog1py",
    "b != b ? b : a == 0 ? Compute(0) : a * log1p(b)",
    lambda a, b: np.where(np.isnan(b), b, np.where(a == 0, a.dtype.type(0), a * np.log1p(b))),
    rule=rules.floating,
    categories=_REAL,
    node=lambda a, b: (
        f"SpecialXlog1PyBackward{1 if not isinstance(a, TensorBase) else 0 if isinstance(b, TensorBase) else 2}"
    ),
    derivatives=(
        lambda grad, a, b: _xlog1py_gradient(grad, a, b),
        lambda grad, a, b: DIV.binary(MUL.binary(grad, a), ADD.binary(b, 1)),
    ),
)


def _xlog1py_gradient(grad: Tensor, a: Tensor, b: Any) -> Tensor:
    """``grad * log1p(b)``; nothing where ``a`` is 0 and the logarithm is none."""
    if not isinstance(b, TensorBase):
        if b > -1:
            return MUL.binary(grad, math.log1p(b))
        return DROP.binary(XLOG1PY.binary(grad, b), EQ.binary(a, 0))
    nothing = LE.binary(b, -1) & EQ.binary(a, 0)
    return DROP.binary(XLOG1PY.binary(grad, b), nothing)


@operation(namespace="special", method=False)
def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(input**2) * erfc(input)``."""
    return ERFCX.out(out, input)


@operation(namespace="special", method=False)
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Distribution function of the standard normal distribution."""
    return NDTR.out(out, input)


@operation(namespace="special", method=False)
def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of :func:`ndtr`, exact also where that is tiny."""
    return LOG_NDTR.out(out, input)


@operation(namespace="special", method=False)
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse of :func:`ndtr`; NaN outside of [0, 1]."""
    return NDTRI.out(out, input)


@operation(namespace="special", method=False)
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Entropy: ``-input * log(input)``, 0 at 0 and minus infinity below."""
    return ENTR.out(out, input)


@operation(namespace="special", method=False)
def xlog1py(input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input * log1p(other)``, and 0 where ``input`` is 0, unless ``other`` is NaN."""
    return XLOG1PY.out(out, input, other)
