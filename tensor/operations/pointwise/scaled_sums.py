"""Sums of scaled differences, products and quotients: lerp, addcmul, addcdiv."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.base import TensorBase, check_tensor
from tensor.core.host.scratch import scratch
from tensor.operations.autocast import WIDEST, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise_node import numbered
from tensor.operations.pointwise_operation import Pointwise, by_category, written

from .arithmetic import DIV, MUL, NEG, NUMERIC, SUB, check_factor
from .complex_numbers import conjugate
from .selection import FEW, blended

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


def _between(a: Any, b: Any, c: Any, out: Any = None) -> Any:
    """``a + c * (b - a)``, from the end that is nearer, so that 1 gives ``b``."""
    if np.ndim(c) and (a.dtype.kind == "c" or np.size(c) <= FEW):
        return written(np.where(np.abs(c) < 0.5, a + c * (b - a), b - (b - a) * (1 - c)), out)
    if np.ndim(c):
        # The end that is nearer, and how far it is from there, in the direction of the difference.
        if out is None:
            out = np.empty(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
        # Numbers without their signs are ordered as their bits are: where the difference is negative, all bits of a mask are set.
        bits = np.dtype(f"i{c.itemsize}")
        one, below_half = (
            np.array(number, c.dtype).view(bits) for number in (1, np.nextafter(c.dtype.type(0.5), 0))
        )
        far = np.abs(c, out=scratch(c)).view(bits)
        np.subtract(below_half, far, out=far)
        np.right_shift(far, 8 * c.itemsize - 1, out=far)
        share = np.bitwise_and(far, one, out=scratch(far)).view(c.dtype)
        np.subtract(c, share, out=share)
        end = blended(far, b.view(bits), a.view(bits), scratch(out, bits)).view(c.dtype)
        difference = np.multiply(np.subtract(b, a, out=out), share, out=out)
        return np.add(end, difference, out=out)
    difference = np.subtract(b, a, out=out)
    if abs(c) < 0.5:
        return np.add(a, np.multiply(difference, c, out=out), out=out)
    return np.subtract(b, np.multiply(difference, 1 - c, out=out), out=out)


LERP = Pointwise(
    "lerp",
    by_category(
        "between(a, b, c)",
        complex="abs(c) < Compute{0.5}.re ? a + c * (b - a) : b - (b - a) * (Compute{1, 0} - c)",
    ),
    _between,
    typed=2,
    numbers="c",
    node=numbered("Lerp"),
    categories=(Category.FLOATING, Category.COMPLEX),
    include="arithmetic.cuh",
    derivatives=(
        lambda grad, c: MUL.binary(grad, conjugate(1 - c)),
        lambda grad, c: MUL.binary(grad, conjugate(c)),
        lambda grad, a, b: MUL.binary(grad, conjugate(SUB.binary(b, a))),
    ),
)


@operation(in_place=True)
def lerp(input: Tensor, end: Tensor, weight: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """Linear interpolation: ``input + weight * (end - input)``.

    Parameters
    ----------
    input, end : Tensor
        Of one floating or complex dtype, which the result has too, and of shapes that broadcast.
    weight : Tensor or number
        As a tensor of the same dtype, of a shape that broadcasts. 0 gives ``input``, 1 ``end``.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the dtypes or the devices differ, or the shapes do not broadcast.
    NotImplementedError
        If the dtype is bool or an integer one.

    Examples
    --------
    >>> tensor.lerp(tensor.tensor([0.0, 10.0]), tensor.tensor([1.0, 20.0]), 0.25)
    tensor([ 0.2500, 12.5000])
    """
    check_tensor(input, "lerp", "input")
    for name, x in (("end", end), ("weight", weight)):
        if isinstance(x, TensorBase) and x._layout.dtype is not input._layout.dtype:
            raise RuntimeError(
                f"lerp(): expected dtype {input.dtype!r} for `{name}` but got dtype {x.dtype!r}"
            )
    return LERP.out(out, input, end, weight)


def _check_value(signature: Any, common: Any) -> None:
    check_factor("value")((None, None, signature[3]), common)


def _check_quotient(signature: Any, common: Any) -> None:
    if common.category < Category.FLOATING:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported; use (input + value * "
            "tensor.div(tensor1, tensor2, rounding_mode='trunc')).to(input.dtype), or convert an operand to floating "
            "point for true division."
        )
    _check_value(signature, common)


def _with_product(a: Any, b: Any, c: Any, d: Any, out: Any = None) -> Any:
    product = np.multiply(np.multiply(b, d, out=out), c, out=out)
    return np.add(a, product, out=out)


def _with_quotient(a: Any, b: Any, c: Any, d: Any, out: Any = None) -> Any:
    quotient = np.multiply(np.divide(b, c, out=out), d, out=out)
    return np.add(a, quotient, out=out)


#: Of (summand, factor, factor, number).
ADDCMUL = Pointwise(
    "addcmul",
    "a + d * b * c",
    _with_product,
    typed=3,
    numbers="d",
    categories=NUMERIC,
    check=_check_value,
    derivatives=(
        lambda grad: grad,
        lambda grad, c, d: MUL.binary(grad, conjugate(MUL.binary(c, d))),
        lambda grad, b, d: MUL.binary(grad, conjugate(MUL.binary(b, d))),
    ),
)


#: Of (summand, dividend, divisor, number).
ADDCDIV = Pointwise(
    "addcdiv",
    "a + d * (b / c)",
    _with_quotient,
    typed=3,
    numbers="d",
    check=_check_quotient,
    derivatives=(
        lambda grad: grad,
        lambda grad, c, d: MUL.binary(grad, conjugate(DIV(d, c))),
        lambda grad, b, c, d: NEG.unary(
            MUL.binary(grad, conjugate(DIV.binary(MUL.binary(b, d), MUL.binary(c, c))))
        ),
    ),
)


@operation(in_place=True, autocast=Autocast(cuda=WIDEST))
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: complex = 1, out: Tensor | None = None
) -> Tensor:
    """``input + value * tensor1 * tensor2``, in one kernel.

    Parameters
    ----------
    input, tensor1, tensor2 : Tensor
        Of shapes that broadcast; the result has the promoted dtype.
    value : number
        Factor, for integers an integer, for real tensors not complex.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If ``value`` is of a higher category than the result, the shapes do not broadcast, or the devices
        differ.
    NotImplementedError
        If the dtype is bool.

    Examples
    --------
    >>> tensor.addcmul(tensor.tensor([1.0]), tensor.tensor([2.0, 3.0]), tensor.tensor([4.0]), value=0.5)
    tensor([5., 7.])
    """
    return ADDCMUL.out(out, input, tensor1, tensor2, value)


@operation(in_place=True, autocast=Autocast(cuda=WIDEST))
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: complex = 1, out: Tensor | None = None
) -> Tensor:
    """``input + value * tensor1 / tensor2``, in one kernel.

    Parameters
    ----------
    input, tensor1, tensor2 : Tensor
        Of shapes that broadcast; the result has the promoted dtype.
    value : number
        Factor, for integers an integer, for real tensors not complex.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the promoted dtype is bool or an integer one (use :func:`div` with a rounding mode), ``value`` is
        of a higher category than the result, the shapes do not broadcast, or the devices differ.

    Examples
    --------
    >>> tensor.addcdiv(tensor.tensor([1.0]), tensor.tensor([2.0, 3.0]), tensor.tensor([4.0]), value=2)
    tensor([2.0000, 2.5000])
    """
    return ADDCDIV.out(out, input, tensor1, tensor2, value)
