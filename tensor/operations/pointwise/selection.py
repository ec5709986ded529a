"""Selection of values: by a condition, by size, by category (NaN, infinity)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import STORAGE_ONLY, UNSIGNED, Category
from tensor.core.base import TensorBase, check_tensor
from tensor.core.dtypes.limits import finfo
from tensor.core.dtypes.scalars import element
from tensor.core.host.scratch import scratch
from tensor.operations.creation.factories import delivered
from tensor.operations.definition import operation
from tensor.operations.pointwise_node import numbered
from tensor.operations.pointwise_operation import IN_PLACE, Pointwise, by_category, one_pass, written
from tensor.operations.shapes.views import view_as_complex, view_as_real

from .arithmetic import REAL, undefined
from .comparisons import GE, GT, ISFINITE, ISNAN, LE, LT

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

ORDERED = (Category.BOOL, Category.INTEGER, Category.FLOATING)

# By a condition

#: Of (where true, where false, condition).
WHERE = Pointwise(
    "where",
    "c_ ? a : b",
    lambda a, b, c: np.where(c, a, b),
    typed=2,
    masks=1,
    derivatives=(
        lambda grad, c: KEEP.binary(grad, c),
        lambda grad, c: DROP.binary(grad, c),
    ),
    stored=STORAGE_ONLY,
)
#: The first operand where the mask is true, and zero elsewhere.
KEEP: Pointwise = Pointwise(
    "where",
    by_category("b_ ? a : Compute(0)", complex="b_ ? a : Compute{0, 0}"),
    lambda a, b: np.where(b, a, a.dtype.type(0)),
    typed=1,
    masks=1,
    derivatives=(lambda grad, b: KEEP.binary(grad, b),),
)
#: The first operand where the mask is false, and zero elsewhere.
DROP: Pointwise = Pointwise(
    "where",
    by_category("b_ ? Compute(0) : a", complex="b_ ? Compute{0, 0} : a"),
    lambda a, b: np.where(b, a.dtype.type(0), a),
    typed=1,
    masks=1,
    derivatives=(lambda grad, b: DROP.binary(grad, b),),
)


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(
    condition: Tensor, input: Tensor | complex, other: Tensor | complex, *, out: Tensor | None = None
) -> Tensor: ...
@operation(method=False)
def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None) -> Any:
    """``input`` where ``condition`` is true, else ``other``; without both, the indices of true elements.

    Parameters
    ----------
    condition : Tensor
        Of bools (uint8 is taken too).
    input, other : Tensor or number, optional
        Of shapes that broadcast with the condition's. The result has the promoted dtype. Without them a tuple
        of int64 vectors is returned, one for each dimension, as by ``condition.nonzero(as_tuple=True)``.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the condition is of another dtype, a number is out of the range of the other's integer dtype, the
        shapes do not broadcast, or the devices differ.

    Examples
    --------
    >>> x = tensor.tensor([-1.0, 2.0, -3.0])
    >>> tensor.where(x > 0, x, 0.0)
    tensor([0., 2., 0.])
    >>> tensor.where(x < 0)
    (tensor([0, 2]),)
    """
    check_tensor(condition, "where", "condition")
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    dtype = condition._layout.dtype
    if dtype is not dtypes.bool_:
        if dtype is not dtypes.uint8:
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, but got a tensor with dtype {dtype!r}"
            )
        condition = condition.to(dtypes.bool_)
    _check_numbers(input, other)
    _check_numbers(other, input)
    if out is None:
        return WHERE(input, other, condition)
    return WHERE.out(out, input, other, condition)


def _check_numbers(argument: Any, *others: Any) -> None:
    """Raise RuntimeError if ``given`` is a tensor of integers, and another operand an integer that they cannot be."""
    if isinstance(argument, TensorBase) and argument._layout.dtype.category is Category.INTEGER:
        for x in others:
            if type(x) is int:
                element(x, argument._layout.dtype)


# By size


def _share(name: str, sign: str) -> Pointwise:
    """What the gradient of an extremum gives an operand: of (gradient, operand, other operand)."""
    loses = np.less if sign == "<" else np.greater
    result = Pointwise(
        name,
        f"b {sign} c ? Compute(0) : b == c ? Compute(a / 2) : a",
        lambda a, b, c: np.where(loses(b, c), a.dtype.type(0), np.where(b == c, a / 2, a)),
        derivatives=(lambda grad, b, c: result(grad, b, c),),
    )
    return result


MAXIMUM_BACKWARD = _share("maximum_backward", "<")
MINIMUM_BACKWARD = _share("minimum_backward", ">")

MAXIMUM = Pointwise(
    "maximum",
    "larger(a, b)",
    np.maximum,
    numbers="",
    categories=ORDERED,
    include="arithmetic.cuh",
    derivatives=(
        lambda grad, a, b: MAXIMUM_BACKWARD(grad, a, b),
        lambda grad, a, b: MAXIMUM_BACKWARD(grad, b, a),
    ),
)
MINIMUM = Pointwise(
    "minimum",
    "smaller(a, b)",
    np.minimum,
    numbers="",
    categories=ORDERED,
    include="arithmetic.cuh",
    derivatives=(
        lambda grad, a, b: MINIMUM_BACKWARD(grad, a, b),
        lambda grad, a, b: MINIMUM_BACKWARD(grad, b, a),
    ),
)
FMAX = Pointwise(
    "fmax",
    by_category("fmax(a, b)", integer="a > b ? a : b"),
    np.fmax,
    numbers="",
    categories=ORDERED,
    derivatives=(
        lambda grad, a, b: KEEP.binary(grad, _first_is_larger(a, b)),
        lambda grad, a, b: DROP.binary(grad, _first_is_larger(a, b)),
    ),
)
FMIN = Pointwise(
    "fmin",
    by_category("fmin(a, b)", integer="a < b ? a : b"),
    np.fmin,
    numbers="",
    categories=ORDERED,
    derivatives=(
        lambda grad, a, b: KEEP.binary(grad, _first_is_smaller(a, b)),
        lambda grad, a, b: DROP.binary(grad, _first_is_smaller(a, b)),
    ),
)


def _first_is_larger(a: Tensor, b: Tensor) -> Tensor:
    return GE.binary(a, b) | ISNAN.unary(b)


def _first_is_smaller(a: Tensor, b: Tensor) -> Tensor:
    return LE.binary(a, b) | ISNAN.unary(b)


@operation()
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of two elements; NaN where one of them is.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of real dtypes; the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.maximum(tensor.tensor([1.0, 5.0, float('nan')]), tensor.tensor([2.0, 3.0, 4.0]))
    tensor([2., 5., nan])
    """
    return MAXIMUM.out(out, input, other)


@operation()
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller of two elements; NaN where one of them is.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of real dtypes; the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.minimum(tensor.tensor([1.0, 5.0, float('nan')]), tensor.tensor([2.0, 3.0, 4.0]))
    tensor([1., 3., nan])
    """
    return MINIMUM.out(out, input, other)


@operation()
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of two elements; where one is NaN, the other.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of real dtypes; the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.fmax(tensor.tensor([1.0, 5.0, float('nan')]), tensor.tensor([2.0, 3.0, 4.0]))
    tensor([2., 5., 4.])
    """
    return FMAX.out(out, input, other)


@operation()
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller of two elements; where one is NaN, the other.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of real dtypes; the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.fmin(tensor.tensor([1.0, 5.0, float('nan')]), tensor.tensor([2.0, 3.0, 4.0]))
    tensor([1., 3., 4.])
    """
    return FMIN.out(out, input, other)


# Limits


@one_pass
def _clamped(a: Any, b: Any, c: Any, out: Any = None) -> Any:
    # Of numbers NumPy has a loop without a second pass.
    if np.ndim(b) == np.ndim(c) == 0:
        return np.clip(a, b, c, out=out)
    return np.minimum(np.maximum(a, b), c, out=out)


# Of a number by two limits, as that loop is several times as quick as the maximum with one.


@one_pass
def _not_below(a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype.kind == "f" and np.ndim(b) == 0:
        return a.clip(b, np.inf, out=out)
    return np.maximum(a, b, out=out)


@one_pass
def _not_above(a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype.kind == "f" and np.ndim(b) == 0:
        return a.clip(-np.inf, b, out=out)
    return np.minimum(a, b, out=out)


def zero_where(condition: Any, values: Any, out: Any = None) -> Any:
    """``values``, and 0 where ``condition``, a new array, holds: by their bits, as ``np.where`` takes many times that."""
    mask = condition.view(np.int8)
    mask -= 1
    bits = f"i{values.dtype.itemsize}"
    if out is None:
        return (values.view(bits) & mask).view(values.dtype)
    # A conversion of its own takes less than one in the loop, which goes through NumPy's buffers.
    converted = scratch(mask, bits)
    np.copyto(converted, mask)
    np.bitwise_and(values.view(bits), converted, out=out.view(bits))
    return out


#: Elements up to which one call costs less than several quick ones.
FEW = 1 << 10


def choose(condition: Any, a: Any, b: Any, out: Any = None) -> Any:
    """``np.where(condition, a, b)``, where ``condition`` is a new array: by bits, as that takes many times as long.

    ``a`` and ``b`` are of one dtype, or Python's numbers, at most one of them; ``out``, which is neither, is optional.
    """
    dtype = a.dtype if isinstance(a, np.ndarray | np.generic) else b.dtype
    if dtype.kind != "f" or np.size(condition) <= FEW:
        return written(np.where(condition, a, b), out)
    bits = f"i{dtype.itemsize}"
    a, b = (np.asarray(each, dtype).view(bits) for each in (a, b))
    bytes_ = condition.view(np.int8)
    mask = scratch(condition, bits)
    np.copyto(mask, np.negative(bytes_, out=bytes_))
    if out is None:
        out = np.empty(np.broadcast_shapes(condition.shape, a.shape, b.shape), dtype)
    blended(mask, a, b, out.view(bits))
    return out


def blended(mask: Any, a: Any, b: Any, out: Any = None) -> Any:
    """The bits of ``a`` where those of ``mask`` are set, else those of ``b``: of integers, into ``out``, which is not ``b``."""
    result = np.bitwise_and(np.bitwise_xor(a, b, out=out), mask, out=out)
    return np.bitwise_xor(result, b, out=out)


CLAMP = Pointwise(
    "clamp",
    "smaller(larger(a, b), c)",
    _clamped,
    node=numbered("Clamp", 0, 1),
    categories=REAL,
    include="arithmetic.cuh",
    derivatives=(
        lambda grad, a, b, c: CLAMP_BACKWARD(grad, a, b, c),
        lambda grad, a, b, c: KEEP.binary(grad, LT(a, b) & LT(b, c)),
        lambda grad, a, b, c: KEEP.binary(grad, GT(a, c) | LT(c, b)),
    ),
)
CLAMP_MIN = Pointwise(
    "clamp",
    "larger(a, b)",
    _not_below,
    node=numbered("Clamp", 0, 1),
    categories=REAL,
    include="arithmetic.cuh",
    derivatives=(
        lambda grad, a, b: KEEP.binary(grad, GE(a, b)),
        lambda grad, a, b: KEEP.binary(grad, LT(a, b)),
    ),
)
CLAMP_MAX = Pointwise(
    "clamp",
    "smaller(a, b)",
    _not_above,
    node=numbered("Clamp", 0, 1),
    categories=REAL,
    include="arithmetic.cuh",
    derivatives=(
        lambda grad, a, b: KEEP.binary(grad, LE(a, b)),
        lambda grad, a, b: KEEP.binary(grad, GT(a, b)),
    ),
)
#: The gradient where the value is between the limits: of (gradient, value, smallest, largest).
CLAMP_BACKWARD: Pointwise = Pointwise(
    "clamp_backward",
    "b >= c && b <= d ? a : Compute(0)",
    lambda a, b, c, d, out=None: zero_where(~((b >= c) & (b <= d)), a, out),
    derivatives=(lambda grad, b, c, d: CLAMP_BACKWARD(grad, b, c, d),),
)
_CLAMP_MIN = CLAMP_MIN.shown_as(numbered("ClampMin"))
_CLAMP_MAX = CLAMP_MAX.shown_as(numbered("ClampMax"))


def _are_bools(input: Tensor, limit: Any) -> bool:
    """Whether one limit, a tensor, is one that bools have: numbers, and two limits, they have not in PyTorch either."""
    return (
        input._layout.dtype is dtypes.bool_
        and isinstance(limit, TensorBase)
        and limit._layout.dtype is dtypes.bool_
    )


@operation(in_place=True, also="clip tensor.clamp_ tensor.clip_")
def clamp(
    input: Tensor,
    min: Tensor | float | None = None,
    max: Tensor | float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Elements clipped to the interval from ``min`` to ``max``: ``minimum(maximum(input, min), max)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype. NaN stays.
    min, max : Tensor or number, optional
        Limits, at least one; of shapes that broadcast. The result has the promoted dtype, and is ``max``
        where ``min`` is larger.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If neither limit is given, a number is out of the range of the input's integer dtype, the shapes do
        not broadcast, or the devices differ.
    NotImplementedError
        If the dtype is complex, or bool, except with one limit that is a tensor of bools.

    Examples
    --------
    >>> tensor.clamp(tensor.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    >>> tensor.clamp(tensor.tensor([1, 5]), max=tensor.tensor([3, 3]))
    tensor([1, 3])
    """
    if min is None:
        if max is None:
            raise RuntimeError("clamp: at least one of 'min' or 'max' must not be None")
        _check_numbers(input, max)
        return (MINIMUM if _are_bools(input, max) else CLAMP_MAX).out(out, input, max)
    _check_numbers(input, min, max)
    if max is None:
        return (MAXIMUM if _are_bools(input, min) else CLAMP_MIN).out(out, input, min)
    return CLAMP.out(out, input, min, max)


@operation(in_place=True, also="tensor.clamp_min_")
def clamp_min(input: Tensor, min: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``maximum(input, min)``: elements not below ``min``.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype. NaN stays.
    min : Tensor or number
        Of a shape that broadcasts. The result has the promoted dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If a number is out of the range of the input's integer dtype, the shapes do not broadcast, or the
        devices differ.
    NotImplementedError
        If the dtype is complex, or bool, except with one limit that is a tensor of bools.

    Examples
    --------
    >>> tensor.clamp_min(tensor.tensor([-2, 3]), 0)
    tensor([0, 3])
    """
    _check_numbers(input, min)
    return (MAXIMUM if _are_bools(input, min) else _CLAMP_MIN).out(out, input, min)


@operation(in_place=True, also="tensor.clamp_max_")
def clamp_max(input: Tensor, max: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``minimum(input, max)``: elements not above ``max``.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype. NaN stays.
    max : Tensor or number
        Of a shape that broadcasts. The result has the promoted dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If a number is out of the range of the input's integer dtype, the shapes do not broadcast, or the
        devices differ.
    NotImplementedError
        If the dtype is complex, or bool, except with one limit that is a tensor of bools.

    Examples
    --------
    >>> tensor.clamp_max(tensor.tensor([-2, 3]), 0)
    tensor([-2,  0])
    """
    _check_numbers(input, max)
    return (MINIMUM if _are_bools(input, max) else _CLAMP_MAX).out(out, input, max)


# By category


def _numbers(a: Any, nan: Any, highest: Any, lowest: Any, out: Any = None) -> Any:
    # Most blocks have nothing to replace.
    if a.dtype.kind != "f" or np.isfinite(a).all():
        return written(a, out)
    ends = np.where(a == np.inf, highest, np.where(a == -np.inf, lowest, a))
    return written(np.where(np.isnan(a), nan, ends), out)


NAN_TO_NUM = Pointwise(
    "nan_to_num",
    by_category("a != a ? b : isinf(a) ? (a > 0 ? c : d) : a", integer="a"),
    _numbers,
    typed=1,
    categories=ORDERED,
    derivatives=(lambda grad, a: KEEP.binary(grad, ISFINITE.unary(a)),),
    stored=UNSIGNED,
)


@operation(in_place=True, also="tensor.nan_to_num_")
def nan_to_num(
    input: Tensor,
    nan: float | None = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` with numbers in place of NaN and the infinities.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; the result has both. Integers and bools stay as they are; of complex numbers
        each part is treated.
    nan : float, optional
        In place of NaN.
    posinf, neginf : float, optional
        In place of the infinities; by default the largest and the smallest finite number of the dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.nan_to_num(tensor.tensor([1.0, float('nan'), float('inf')]), posinf=9.0)
    tensor([1., 0., 9.])
    """
    dtype = input._layout.dtype
    if dtype.is_complex:
        result = view_as_complex(nan_to_num(view_as_real(input), nan, posinf, neginf))
        return input.copy_(result) if out is IN_PLACE else delivered(out, result, "nan_to_num")
    numbers: tuple[float, ...] = (0, 0, 0)
    if dtype.is_floating_point:
        limits = finfo(dtype)
        numbers = (
            0.0 if nan is None else float(nan),
            limits.max if posinf is None else float(posinf),
            limits.min if neginf is None else float(neginf),
        )
    return NAN_TO_NUM.out(out, input, *numbers)


HEAVISIDE = Pointwise(
    "heaviside",
    "a == 0 ? b : Compute(a > 0)",
    lambda a, b: np.where(a == 0, b, (a > 0).astype(a.dtype)),
    numbers="",
    categories=ORDERED,
    derivatives=(undefined("heaviside"),) * 2,
)


@operation(in_place=True)
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Heaviside step function: 0 for negative elements, 1 for positive ones, ``values`` for 0.

    Parameters
    ----------
    input, values : Tensor
        Of one real dtype, which the result has too, and of shapes that broadcast.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the dtypes or the devices differ, or the shapes do not broadcast.
    NotImplementedError
        If the dtype is complex.
    TypeError
        If an argument is not a tensor.

    Examples
    --------
    >>> tensor.heaviside(tensor.tensor([-2.0, 0.0, 3.0]), tensor.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    check_tensor(input, "heaviside", "input")
    check_tensor(values, "heaviside", "values")
    if input._layout.dtype is not values._layout.dtype:
        raise RuntimeError(
            f"heaviside() wants tensors of one dtype, got {input.dtype!r} and {values.dtype!r}; convert one with .to()"
        )
    return HEAVISIDE.out(out, input, values)


# Weighted
