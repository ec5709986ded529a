"""Differences of neighbours, and integrals by the trapezoidal rule."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from tensor.core.arguments import dimension
from tensor.operations.creation.copies import clone
from tensor.operations.definition import operation
from tensor.operations.reduction import into_out
from tensor.operations.shapes import slices, views
from tensor.operations.shapes.joining import cat

from .scans import cumsum
from .sums import sum

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


@operation()
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along a dimension, ``input[i + 1] - input[i]``, taken ``n`` times.

    Parameters
    ----------
    input : Tensor
        Of any dtype, which the result has too; of bools the difference is exclusive or. Each time the
        dimension shrinks by 1; ``n=0`` gives a copy.
    prepend, append : Tensor, optional
        Joined to the input along the dimension first; of as many dimensions.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (floating, complex).

    Raises
    ------
    RuntimeError
        If ``n`` is negative, the tensor is 0-dim, or one to be joined has another number of dimensions or
        another size elsewhere.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.diff(tensor.tensor([1, 4, 9, 16]))
    tensor([3, 5, 7])
    >>> tensor.diff(tensor.tensor([1, 4, 9, 16]), n=2)
    tensor([2, 2])
    """
    n = index(n)
    rank = len(input._layout.shape)
    if not rank:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    at = dimension(dim, rank)
    for x in (prepend, append):
        if x is not None and len(x._layout.shape) != rank:
            raise RuntimeError(
                "diff expects prepend or append to be the same dimension as input: got "
                f"{len(x._layout.shape)} and {rank} dimensions"
            )
    if n == 0:
        # As in PyTorch, what would be joined is of no interest then.
        result = clone(input)
        return result if out is None else into_out(result, out, "diff", casts=True)
    around = [x for x in (prepend, input, append) if x is not None]
    result = cat(around, at) if len(around) > 1 else input
    for _ in range(min(n, max(result._layout.shape[at], 1))):
        earlier, later = _neighbours(result, at)
        result = later.logical_xor(earlier) if result._layout.dtype is dtypes.bool_ else later - earlier
    return result if out is None else into_out(result, out, "diff", casts=True)


def _neighbours(x: Tensor, at: int) -> tuple[Tensor, Tensor]:
    """All elements along a dimension but the last, and but the first."""
    size = x._layout.shape[at]
    length = max(size - 1, 0)
    return slices.step_through(x, at, 0, length, 1), slices.step_through(x, at, min(size, 1), length, 1)


@operation(method=False, also="trapz")
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Integral of samples ``y`` along a dimension by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
        Values of the function, of a numeric dtype; the result is floating (or complex) and lacks the
        dimension.
    x : Tensor, optional
        Positions of the samples: a vector with one for each, or of a shape that broadcasts with that of
        ``y``.
    dx : number, optional
        Distance of neighbouring samples, by default 1.

    Raises
    ------
    TypeError
        If both ``x`` and ``dx`` are given.
    RuntimeError
        If a tensor is of bools, or there are not as many positions as samples.
    IndexError
        If ``y`` is 0-dim, or there is no such dimension.

    Examples
    --------
    >>> tensor.trapezoid(tensor.tensor([1.0, 2.0, 4.0]))
    tensor(4.5000)
    >>> tensor.trapezoid(tensor.tensor([1.0, 2.0, 4.0]), tensor.tensor([0.0, 1.0, 3.0]))
    tensor(7.5000)
    """
    at = _checked("trapezoid", y, x, dx, dim)
    if not y._layout.shape[at]:
        return y.new_zeros([size for axis, size in enumerate(y._layout.shape) if axis != at])
    _refuse_bools("trapezoid", y, x)
    if x is None:
        ends = slices.select(y, at, 0) + slices.select(y, at, -1)
        result: Tensor = (sum(y, at) - ends * 0.5) * (1 if dx is None else dx)
        return result
    earlier, later = _neighbours(y, at)
    integral: Tensor = sum(_widths("trapezoid", x, y, at, dim) * (later + earlier), dim) / 2.0
    return integral


trapz = trapezoid


@operation(method=False)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Integrals along a dimension from the first sample to each other one, by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
        Values of the function, of a numeric dtype; the result is floating (or complex) and one shorter along
        ``dim``.
    x : Tensor, optional
        Positions of the samples: a vector with one for each, or of a shape that broadcasts with that of
        ``y``.
    dx : number, optional
        Distance of neighbouring samples, by default 1.

    Raises
    ------
    TypeError
        If both ``x`` and ``dx`` are given.
    RuntimeError
        If a tensor is of bools, or there are not as many positions as samples.
    IndexError
        If ``y`` is 0-dim, or there is no such dimension.

    Examples
    --------
    >>> tensor.cumulative_trapezoid(tensor.tensor([1.0, 2.0, 4.0]))
    tensor([1.5000, 4.5000])
    """
    _refuse_bools("cumulative_trapezoid", y, x)
    at = _checked("cumulative_trapezoid", y, x, dx, dim)
    earlier, later = _neighbours(y, at)
    if x is None:
        return cumsum((1 if dx is None else dx) / 2.0 * (later + earlier), dim)
    integrals: Tensor = cumsum(_widths("cumulative_trapezoid", x, y, at, dim) * (later + earlier), dim) / 2.0
    return integrals


def _checked(name: str, y: Tensor, x: Any, dx: Any, dim: int) -> int:
    """The dimension, counted from 0."""
    if x is not None and dx is not None:
        raise TypeError(
            f"{name}(): x and dx cannot both be given: x has the positions, dx is how far they are apart"
        )
    if not y._layout.shape:
        raise IndexError(f"{name}(): Dimension specified as {dim} but tensor has no dimensions")
    return dimension(dim, len(y._layout.shape))


def _refuse_bools(name: str, y: Tensor, x: Tensor | None) -> None:
    for what, each in (("y", y), ("x", x)):
        if each is not None and each._layout.dtype is dtypes.bool_:
            raise RuntimeError(f"{name}: received a bool input for `{what}`, but bool is not supported")


def _widths(name: str, x: Tensor, y: Tensor, at: int, dim: int) -> Tensor:
    """Differences of the positions ``x`` along the dimension, in a shape that broadcasts with ``y``."""
    rank, argument = len(y._layout.shape), x._layout.shape
    if len(argument) == 1:
        if argument[0] != y._layout.shape[at]:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point: got {argument[0]} and "
                f"{y._layout.shape[at]}"
            )
        shape = [1] * rank
        shape[at] = argument[0]
        x = views.view(x, shape)
    elif len(argument) < rank:
        x = views.view(x, (1,) * (rank - len(argument)) + tuple(argument))
    earlier, later = _neighbours(x, dimension(dim, len(x._layout.shape)))
    result: Tensor = later - earlier
    return result
