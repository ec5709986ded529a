"""Covariances, correlations, and histograms of points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels.dtypes import Category, int64
from tensor.core.base import TensorBase, check_outs
from tensor.core.warning import warn_caller
from tensor.operations.creation.factories import complex
from tensor.operations.creation.ranges import linspace
from tensor.operations.definition import operation
from tensor.operations.indexing.searching import bucketize
from tensor.operations.pointwise.comparisons import ge, le
from tensor.operations.pointwise.powers import sqrt
from tensor.operations.pointwise.selection import clamp, where
from tensor.operations.products.matrix_products import mm
from tensor.operations.reduction import into_out
from tensor.operations.return_types import return_type
from tensor.operations.shapes.diagonals import diag
from tensor.operations.shapes.joining import stack

from .sums import sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


@operation()
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Covariances of variables, which are the rows of a matrix; its columns are observations.

    Parameters
    ----------
    input
        Matrix ``(variables, observations)``, or one variable.
    correction
        What is taken from the number of observations before it divides.
    fweights
        How often each observation was made: integers ``(observations,)``.
    aweights
        How important each observation is: floating point ``(observations,)``.

    Raises
    ------
    RuntimeError
        For more dimensions, bools, or weights of another size or category, or negative ones.

    Examples
    --------
    >>> tensor.cov(tensor.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    shape = input._layout.shape
    if len(shape) > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {len(shape)} dimensions"
        )
    if input._layout.dtype.category is Category.BOOL:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows: Any = input.reshape(1, -1) if len(shape) < 2 else input
    observations = rows._layout.shape[1]
    weights: Any = None
    for name, each, category in (
        ("fweights", fweights, Category.INTEGER),
        ("aweights", aweights, Category.FLOATING),
    ):
        if each is not None:
            _check_weights(name, each, category, observations)
            weights = each if weights is None else weights * each
    total: Any = observations if weights is None else sum(weights)
    if weights is not None and total.item() == 0:
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = sum(rows if weights is None else rows * weights, 1) / total
    lost = correction * sum(weights * aweights) / total if aweights is not None and correction else correction
    divisor = total - lost
    if divisor <= 0:
        warn_caller("cov(): degrees of freedom is <= 0")
        divisor = divisor * 0
    centred = rows - mean.unsqueeze(1)
    weighted = centred if weights is None else centred * weights
    result: Tensor = (mm(centred, weighted.t().conj()) / divisor).squeeze()
    return result


def _check_weights(name: str, weights: Tensor, category: Category, observations: int) -> None:
    layout = weights._layout
    if len(layout.shape) > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {len(layout.shape)}"
        )
    if layout.dtype.category is not category:
        raise RuntimeError(
            f"cov(): expected {name} to have {category.name.lower()} dtype but got {name} with {layout.dtype!r}"
        )
    if layout.numel != observations:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{layout.numel} != {observations}"
        )
    if observations and (weights < 0).any():
        raise RuntimeError(f"cov(): {name} cannot be negative")


@operation()
def corrcoef(input: Tensor) -> Tensor:
    """Pearson's correlation coefficients of variables, which are the rows of a matrix; see :func:`cov`.

    Raises
    ------
    RuntimeError
        For more than two dimensions.

    Examples
    --------
    >>> tensor.corrcoef(tensor.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    shape = input._layout.shape
    if len(shape) > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {len(shape)} dimensions"
        )
    result: Any = cov(input)
    if not result._layout.shape:
        return result / result  # type: ignore[no-any-return]
    deviation = sqrt(diag(result).real if result._layout.dtype.is_complex else diag(result))
    result = result / deviation.view(-1, 1) / deviation.view(1, -1)
    if result._layout.dtype.is_complex:
        return complex(clamp(result.real, -1, 1), clamp(result.imag, -1, 1))
    return clamp(result, -1, 1)


class Histogram(NamedTuple):
    """Counts, and the bounds of the bins."""

    hist: Tensor
    bin_edges: Any


_HISTOGRAM, _HISTOGRAMDD = return_type("histogram", Histogram), return_type("histogramdd", Histogram)


@operation()
def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> Histogram:
    """How many elements lie in each bin, or the sums of their weights.

    Parameters
    ----------
    bins
        How many of equal width, or their increasing bounds, of which there is one more.
    range
        The outer bounds of a number of bins; by default the smallest and the largest element. The last bin
        includes its upper bound.
    weight
        Weights in the shape of ``input``.
    density
        Divide by the bins' widths and the sum of all, so that the integral is 1.

    Raises
    ------
    RuntimeError
        For dtypes that are not floating point or differ, or bounds that are none.

    Examples
    --------
    >>> hist, edges = tensor.histogram(tensor.tensor([1.0, 2.0, 1.0]), bins=3, range=(0.0, 3.0))
    >>> hist
    tensor([0., 2., 1.])
    >>> edges
    tensor([0., 1., 2., 3.])
    """
    bounds = bins if isinstance(bins, TensorBase) else (bins,)
    sides = [bounds] if isinstance(bounds, TensorBase) else bounds
    hist, edges = _histogram("histogram", input.reshape(-1, 1), sides, range, weight, density)
    if out is None:
        return _HISTOGRAM(hist, edges[0])
    check_outs(out, 2, "histogram")
    return _HISTOGRAM(into_out(hist, out[0], "histogram"), into_out(edges[0], out[1], "histogram"))


@operation(method=False)
def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """How many points lie in each box of a grid, or the sums of their weights; see :func:`histogram`.

    Parameters
    ----------
    input : Tensor
        Points, of shape (..., D) and a floating dtype.
    bins : int, sequence of int, or sequence of Tensor
        How many in each of D dimensions, one number for all, or the increasing bounds of each dimension.
    range : sequence of float, optional
        The outer bounds of each dimension, one after the other.
    weight : Tensor, optional
        Weights of the input's dtype, one for each point.
    density : bool
        Divide by the sum of all and the sizes of the boxes, so that the integral is 1.

    Returns
    -------
    Histogram
        ``hist`` with D dimensions, and ``bin_edges``, a tuple of D vectors.

    Raises
    ------
    RuntimeError
        If the dtypes differ or are not floating, the input has fewer than two dimensions, there are not D numbers of
        bins or 2 D bounds, or a number of bins is not positive.

    Examples
    --------
    >>> hist, edges = tensor.histogramdd(tensor.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), bins=[2, 2])
    >>> hist
    tensor([[0., 1.],
            [1., 1.]])
    >>> edges[0]
    tensor([0.0000, 0.5000, 1.0000])
    """
    shape = input._layout.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {len(shape)}"
        )
    count = shape[-1]
    sides = [bins] * count if isinstance(bins, int) else list(bins)
    if len(sides) != count:
        raise RuntimeError(
            f"torch.histogramdd: expected {count} bin numbers or sequences of bounds for points of {count} dimensions, "
            f"got {len(sides)}"
        )
    hist, edges = _histogram("histogramdd", input.reshape(-1, count), sides, range, weight, density)
    return _HISTOGRAMDD(hist, tuple(edges))


def _histogram(
    name: str, points: Tensor, sides: Sequence[Any], range: Any, weight: Tensor | None, density: bool
) -> tuple[Tensor, list[Tensor]]:
    dtype = points._layout.dtype
    if dtype.category is not Category.FLOATING:
        raise RuntimeError(f"torch.{name}: not implemented for {dtype!r}, it takes floating point numbers")
    if weight is not None and weight._layout.dtype is not dtype:
        raise RuntimeError(
            f"torch.{name}: if weight tensor is provided, input tensor and weight tensor should have the same dtype, "
            f"but got input {dtype!r}, and weight {weight._layout.dtype!r}"
        )
    points = points.detach()
    count = points._layout.shape[0]
    weights = points.new_ones(count) if weight is None else weight.detach().reshape(-1)
    if weights._layout.numel != count:
        raise RuntimeError(
            f"torch.{name}: expected as many weights as points, got {weights._layout.numel} and {count}"
        )
    if range is not None and len(range) != 2 * len(sides):
        raise RuntimeError(
            f"torch.{name}: for a {len(sides)}-dimensional histogram range should have {2 * len(sides)} elements, but got "
            f"{len(range)}"
        )
    edges = [_edges(name, points[:, at], side, range, at) for at, side in enumerate(sides)]
    cell, inside = points.new_zeros(count, dtype=int64), None
    for at, bounds in enumerate(edges):
        cells = bounds._layout.shape[0] - 1
        column = points[:, at].contiguous()
        bin = clamp(bucketize(column, bounds, right=True) - 1, 0, cells - 1)
        here = ge(column, bounds[0]) & le(column, bounds[-1])
        cell, inside = cell * cells + bin, here if inside is None else inside & here
    sizes = [bounds._layout.shape[0] - 1 for bounds in edges]
    total = 1
    for size in sizes:
        total *= size
    counted = where(inside, weights, weights.new_zeros(()))  # type: ignore[arg-type]
    hist: Any = points.new_zeros(total).index_add(0, cell, counted).view(sizes)
    if density:
        hist = hist / sum(hist)
        for at, bounds in enumerate(edges):
            shape = [1] * len(sizes)
            shape[at] = -1
            hist = hist / (bounds[1:] - bounds[:-1]).view(shape)
    return hist, edges


def _edges(name: str, column: Tensor, side: Any, range: Any, at: int) -> Tensor:
    """Bounds of the bins of one dimension."""
    dtype, device = column._layout.dtype, column._layout.device
    if isinstance(side, TensorBase):
        if side._layout.dtype is not dtype or len(side._layout.shape) != 1 or not side._layout.numel:
            raise RuntimeError(
                f"torch.{name}: bounds of bins must be a vector of {dtype!r} with at least one element, got "
                f"{list(side._layout.shape)} of {side._layout.dtype!r}"
            )
        return side.detach()
    if side <= 0:
        raise RuntimeError(f"torch.{name}: bins must be > 0, but got {side}")
    if range is not None:
        low, high = range[2 * at], range[2 * at + 1]
        if not low <= high:
            raise RuntimeError(f"torch.{name}: min should not exceed max, but got min {low} max {high}")
    elif column._layout.numel:
        low, high = (each.item() for each in stack(tuple(column.aminmax())))
    else:
        low, high = 0.0, 1.0
    if low == high:
        low, high = low - 0.5, high + 0.5
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise RuntimeError(f"torch.{name}: range [{low}, {high}] is not finite")
    return linspace(low, high, side + 1, dtype=dtype, device=device)
