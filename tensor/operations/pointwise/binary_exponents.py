"""Floating point numbers taken apart into fraction and exponent, and put together again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels import dtypes
from tensor.core.base import check_outs
from tensor.core.dtypes import promotion as rules
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise, by_category
from tensor.operations.return_types import return_type

from .arithmetic import DIV, MUL, no_change
from .complex_numbers import conjugate
from .powers import EXP2

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor


def _ldexp(a: Any, b: Any) -> Any:
    if a.dtype.kind == "c":
        return a * np.exp2(b)
    whole = b == np.rint(b)
    # Beyond these the result is 0 or infinite for every type.
    steps = np.where(whole, np.clip(np.nan_to_num(b), -5000, 5000), 0).astype(np.int32)
    return np.where(whole, np.ldexp(a, steps), a * np.exp2(b))


LDEXP: Pointwise = Pointwise(
    "ldexp",
    by_category(
        "b == rint(b) ? ldexp(a, int(fmin(fmax(b, Compute(-5000)), Compute(5000)))) : a * exp2(b)",
        complex="a * exp2(b)",
    ),
    _ldexp,
    rule=rules.floating,
    numbers="",
    derivatives=(
        lambda grad, b: LDEXP.binary(grad, conjugate(b)),
        lambda grad, out: MUL.binary(MUL.binary(grad, conjugate(out)), math.log(2)),
    ),
)


def _check_floating(_: Any, common: dtype) -> None:
    if not common.is_floating_point:
        raise RuntimeError(f"torch.frexp() only supports floating-point dtypes, got {common!r}")


FRACTION = Pointwise(
    "frexp",
    "fraction(a)",
    lambda a: np.frexp(a)[0],
    check=_check_floating,
    include="arithmetic.cuh",
    derivatives=(lambda grad, a: DIV.binary(grad, EXP2.unary(EXPONENT.unary(a).to(grad.dtype))),),
)
EXPONENT: Pointwise = Pointwise(
    "frexp_exponent",
    "exponent(a)",
    lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0),
    rule=lambda dtype: (dtype, dtypes.int32),
    check=_check_floating,
    include="arithmetic.cuh",
    derivatives=(no_change,),
)


class Apart(NamedTuple):
    """Fractions in [1/2, 1), with a sign, and powers of two."""

    mantissa: Tensor
    exponent: Tensor


_FREXP = return_type("frexp", Apart)


@operation(in_place=True, also="tensor.ldexp_")
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2**other``, exact for whole exponents.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. The result has the promoted dtype; integers and bools give the default
        floating dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.ldexp(tensor.tensor([1.0, 3.0]), tensor.tensor([4, -1]))
    tensor([16.0000,  1.5000])
    """
    return LDEXP.out(out, input, other)


@operation()
def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Apart:
    """Fractions in [0.5, 1), with the sign, and exponents: ``mantissa * 2**exponent == input``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype. 0, infinities and NaN have exponent 0 and are their own fraction.
    out : tuple of Tensor, optional
        Two tensors that the results are written to.

    Returns
    -------
    Apart
        ``mantissa`` of the input's dtype and ``exponent`` of int32, both of its shape.

    Raises
    ------
    RuntimeError
        If the dtype is not a floating one.

    Examples
    --------
    >>> mantissa, exponent = tensor.frexp(tensor.tensor([10.0, -0.25]))
    >>> mantissa
    tensor([ 0.6250, -0.5000])
    >>> exponent
    tensor([ 4, -1], dtype=tensor.int32)
    """
    if out is not None:
        check_outs(out, 2, "frexp")
    first, second = (None, None) if out is None else out
    return _FREXP(FRACTION.out(first, input), EXPONENT.out(second, input))
