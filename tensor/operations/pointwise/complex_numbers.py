"""Parts of complex numbers, and numbers made of parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category, float32, float64
from tensor.core.base import TensorBase, check_tensor
from tensor.core.dtypes import promotion as rules
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.creation.like import ones_like, zeros_like
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import IN_PLACE, Pointwise, by_category

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

CONJ = Pointwise(
    "conj_physical",
    "conj(a)",
    np.conjugate,
    categories=(Category.COMPLEX,),
    derivatives=(lambda grad: conjugate(grad),),
)

#: As PyTorch calls the nodes of its views.
_LAZY_CONJ = CONJ.shown_as("ConjBackward0")
COPY = Pointwise("conj_physical", "a", lambda a: a, derivatives=(lambda grad: grad,))


def conjugate(value: Any) -> Any:
    """Conjugate of a tensor or a number; what is real stays as it is."""
    if isinstance(value, TensorBase):
        return CONJ.unary(value) if value._layout.dtype.is_complex else value
    return value.conjugate() if type(value) is complex else value


@operation()
def conj(input: Tensor) -> Tensor:
    """Complex conjugate; a real tensor itself.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; the result has both. For a complex one it is new memory, not a view.

    Examples
    --------
    >>> tensor.conj(tensor.tensor([1.0 + 2.0j]))
    tensor([1.-2.j])
    """
    return _LAZY_CONJ.unary(input) if input._layout.dtype.is_complex else input


@operation(method=False)
def resolve_conj(input: Tensor) -> Tensor:
    """``input`` itself: conjugation is always carried out at once.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> x = tensor.tensor([1.0 + 2.0j])
    >>> tensor.resolve_conj(x) is x
    True
    """
    check_tensor(input, "resolve_conj", "input")
    return input


@operation(method=False)
def resolve_neg(input: Tensor) -> Tensor:
    """``input`` itself: negation is always carried out at once.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> x = tensor.tensor([1.0 + 2.0j])
    >>> tensor.resolve_neg(x) is x
    True
    """
    check_tensor(input, "resolve_neg", "input")
    return input


@operation(in_place=True, also="tensor.conj_physical_")
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex conjugate in new memory; a real tensor itself.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; the result has both.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.conj_physical(tensor.tensor([1.0 + 2.0j]))
    tensor([1.-2.j])
    """
    if not input._layout.dtype.is_complex:
        if out is None or out is IN_PLACE:
            return input
        return COPY.out(out, input)
    return CONJ.out(out, input)


# Length and angle

ANGLE = Pointwise(
    "angle",
    by_category(f"a != a ? a : a < 0 ? Compute({math.pi!r}) : Compute(0)", complex="arg(a)"),
    lambda a: (
        np.angle(a)
        if a.dtype.kind == "c"
        else np.where(a < 0, a.dtype.type(np.pi), np.where(a == a, a.dtype.type(0), a))
    ),
    rule=rules.floating_to_real,
    derivatives=(lambda grad, a: _angle_gradient(grad, a),),
)


def _angle_gradient(grad: Tensor, a: Tensor) -> Tensor:
    """Across the direction of ``a``, divided by its length."""
    if not a._layout.dtype.is_complex:
        return zeros_like(grad)
    at_zero = a == 0
    return (grad / CONJ.unary(a + at_zero) * 1j).masked_fill(at_zero, 0)


def sgn_gradient(grad: Tensor, a: Tensor, out: Tensor) -> Tensor:
    """Of ``a / abs(a)``: what is across the direction of ``a``, divided by its length."""
    if not a._layout.dtype.is_complex:
        return zeros_like(grad)
    at_zero = a == 0
    across = grad - out * (grad * CONJ.unary(out)).real
    return (across / (a.abs() + at_zero)).masked_fill(at_zero, 0)


@operation()
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Argument of complex numbers in radians; of real numbers pi for negative ones, 0 for others.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape and is floating: complex numbers give the dtype of
        their parts, integers and bools the default. NaN stays NaN.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.angle(tensor.tensor([1j, -1.0 + 0j]))
    tensor([1.5708, 3.1416])
    >>> tensor.angle(tensor.tensor([-2.0, 3.0]))
    tensor([3.1416, 0.0000])
    """
    return ANGLE.out(out, input)


# Numbers made of parts


def _to_complex(dtype: dtype) -> tuple[dtype, dtype]:
    return dtype, dtype.to_complex()


def _check_parts(name: str) -> Any:
    def check(signature: Any, _: dtype) -> None:
        types = [each.dtype for each in signature]
        if types[0] is not types[1] or types[0] not in (float32, float64):
            raise RuntimeError(
                f"{name}(): expected two tensors of float32 or two of float64, got {types[0]!r} and {types[1]!r}"
            )

    return check


def _polar(length: Any, angle: Any) -> Any:
    result = np.empty(np.broadcast(length, angle).shape, np.result_type(length, np.complex64))
    result.real = length * np.cos(angle)
    result.imag = length * np.sin(angle)
    return result


POLAR = Pointwise(
    "polar",
    "Complex<Compute>{a * cos(b), a * sin(b)}",
    _polar,
    rule=_to_complex,
    numbers="",
    check=_check_parts("polar"),
    derivatives=(
        lambda grad, a, b: _polar_gradient(grad, a, b),
        lambda grad, out: (CONJ.unary(grad) * (out * 1j)).real,
    ),
)


def _polar_gradient(grad: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return (CONJ.unary(grad) * POLAR(ones_like(a), b)).real


@operation(method=False, autocast=Autocast(cpu=FLOAT32))
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers ``abs * exp(1j * angle)`` of given length and angle in radians.

    Parameters
    ----------
    abs, angle : Tensor
        Both of float32 or both of float64, and of shapes that broadcast. The result is complex64 or
        complex128.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the dtypes differ or are others, the shapes do not broadcast, or the devices differ.

    Examples
    --------
    >>> tensor.polar(tensor.tensor([1.0, 2.0]), tensor.tensor([0.0, 1.0]))
    tensor([1.0000+0.0000j, 1.0806+1.6829j])
    """
    return POLAR.out(out, abs, angle)
