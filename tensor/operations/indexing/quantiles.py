"""Elements of a share of the order, and values between two of them: ``quantile`` and ``nanquantile``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from tensor.core.arguments import dimension
from tensor.core.base import TensorBase
from tensor.core.dtypes.scalars import is_number
from tensor.core.modes.grad_mode import modes
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.comparisons import isnan
from tensor.operations.pointwise.scaled_sums import lerp
from tensor.operations.pointwise.selection import where
from tensor.operations.reduction import into_out
from tensor.operations.shapes import slices, views
from tensor.operations.shapes.joining import stack

from .sorting import sorted_along

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

#: What is done to ranks between two elements, on arrays and, by the same name, on tensors.
_ROUNDED = {"lower": "floor", "higher": "ceil", "nearest": "round"}
_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@operation(autocast=Autocast(cpu=FLOAT32))
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """Quantiles along ``dim``, or of all elements: the values at ranks ``q * (n - 1)`` in ascending order.

    NaN if there is a NaN; see :func:`nanquantile`.

    Parameters
    ----------
    input : Tensor
        float32 or float64.
    q : float or Tensor
        In ``[0, 1]``: a number, or a 0-dim tensor or vector of the dtype of ``input``.
    dim : int, optional
        By default the quantiles of all elements.
    interpolation : {"linear", "lower", "higher", "midpoint", "nearest"}
        The value at a rank between two elements; "nearest" takes the even rank half-way.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the dtype of ``input`` and its shape without ``dim`` (size 1 with ``keepdim``); for a vector ``q`` there is
        one result for each of its elements, stacked along a new first dimension.

    Raises
    ------
    RuntimeError
        If ``input`` is empty or of another dtype, ``q`` is outside ``[0, 1]``, of another dtype or has more than one
        dimension, or there is no such interpolation.
    TypeError
        If ``q`` is neither a number nor a tensor.
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> x = tensor.tensor([1.0, 2.0, 3.0, 5.0])
    >>> x.quantile(0.5)
    tensor(2.5000)
    >>> x.quantile(tensor.tensor([0.0, 0.9]))
    tensor([1.0000, 4.4000])
    >>> x.quantile(0.5, interpolation="lower")
    tensor(2.)
    """
    return into_out(_quantile(input, q, dim, keepdim, interpolation, "quantile"), out, "quantile")


@operation(autocast=Autocast(cpu=FLOAT32))
def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """:func:`quantile` of the elements that are not NaN; NaN if there are no others.

    Arguments, result and errors are those of :func:`quantile`.

    Examples
    --------
    >>> tensor.tensor([1.0, float("nan"), 3.0]).nanquantile(0.5)
    tensor(2.)
    """
    return into_out(_quantile(input, q, dim, keepdim, interpolation, "nanquantile"), out, "nanquantile")


def _quantile(input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, name: str) -> Tensor:
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    dtype = input._layout.dtype
    if dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype, got {dtype!r}")
    if not input._layout.numel:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    shares = _shares(q, input, name)
    rank = len(input._layout.shape)
    at = 0 if dim is None else dimension(dim, rank)
    whole = dim is None or not rank
    flat = input.reshape(-1) if whole else input
    ordered = sorted_along(flat, at, False, arranged=False).values
    nans = isnan(ordered).sum(at, keepdim=True)
    find = _at_rank_without_nan if name == "nanquantile" else _at_rank
    results = [find(ordered, nans, at, share, interpolation) for share in shares]
    if whole:
        results = [x.reshape((1,) * rank if keepdim else ()) for x in results]
    elif not keepdim:
        results = [views.squeeze(x, at) for x in results]
    if not isinstance(q, TensorBase) or not q._layout.shape:
        return results[0]
    return stack(results, 0) if results else input.new_empty((0, *_reduced(input, dim, keepdim)))


def _shares(q: Any, input: Tensor, name: str) -> list[Any]:
    """One for each result: a number of the input's dtype, or a 0-dim tensor whose gradient is asked for."""
    dtype = input._layout.dtype
    if isinstance(q, TensorBase):
        if len(q._layout.shape) > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got shape {list(q._layout.shape)}")
        if q._layout.dtype is not dtype:
            raise RuntimeError(
                f"{name}() q tensor must be same dtype as the input tensor, {dtype!r}, got {q._layout.dtype!r}"
            )
        numbers = np.atleast_1d(q.tolist())
    elif is_number(q) and not isinstance(q, (complex, np.complexfloating)):
        numbers = np.array([q])
    else:
        raise TypeError(f"{name}(): argument 'q' must be float or Tensor, not {type(q).__name__}")
    if not np.all((numbers >= 0) & (numbers <= 1)):
        raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {numbers.tolist()}")
    if isinstance(q, TensorBase) and modes.recording and q.requires_grad:
        return list(slices.unbind(q, 0)) if q._layout.shape else [q]
    return list(numbers.astype(dtype.numpy))


def _reduced(input: Tensor, dim: int | None, keepdim: bool) -> tuple[int, ...]:
    shape = input._layout.shape
    axes = range(len(shape)) if dim is None else [dimension(dim, len(shape))]
    return tuple(
        1 if axis in axes else size for axis, size in enumerate(shape) if keepdim or axis not in axes
    )


def _at_rank(ordered: Tensor, nans: Tensor, dim: int, share: Any, interpolation: str) -> Tensor:
    """The value at ``share`` of the order, NaN where there is one: the last in order, which gets the gradient."""
    last = ordered._layout.shape[dim] - 1
    if isinstance(share, TensorBase):
        return _between(ordered, dim, where(nans > 0, share.new_full((), last), share * last), interpolation)
    rank = share * type(share)(last)
    if interpolation in _ROUNDED:
        rank = getattr(np, _ROUNDED[interpolation])(rank)
    low, high = np.floor(rank), np.ceil(rank)
    value = slices.narrow(ordered, dim, int(low), 1)
    if interpolation not in _ROUNDED:
        weight = 0.5 if interpolation == "midpoint" else float(rank - low)
        value = lerp(value, slices.narrow(ordered, dim, int(high), 1), weight)
    return where(nans > 0, slices.narrow(ordered, dim, last, 1), value)


def _at_rank_without_nan(ordered: Tensor, nans: Tensor, dim: int, share: Any, interpolation: str) -> Tensor:
    """The value at ``share`` of the order of what is not NaN."""
    last = (ordered._layout.shape[dim] - 1 - nans).clamp(min=0).to(ordered._layout.dtype)
    rank = last * (share if isinstance(share, TensorBase) else float(share))
    return _between(ordered, dim, rank, interpolation)


def _between(ordered: Tensor, dim: int, rank: Tensor, interpolation: str) -> Tensor:
    if interpolation in _ROUNDED:
        rank = getattr(rank, _ROUNDED[interpolation])()
    low, high = rank.floor(), rank.ceil()
    below = ordered.gather(dim, low.to(dtypes.int64))
    if interpolation in _ROUNDED:
        return below
    above = ordered.gather(dim, high.to(dtypes.int64))
    return lerp(below, above, rank.new_full((), 0.5) if interpolation == "midpoint" else rank - low)
