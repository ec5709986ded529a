"""Positions in sorted sequences, bins, and values that occur."""

from __future__ import annotations

import math
from math import prod as product_of
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nvrtc_kernels import counting as counting_kernels
from nvrtc_kernels import dtypes
from nvrtc_kernels import search as search_kernels
from nvrtc_kernels import unique as unique_kernels
from nvrtc_kernels.dtypes import Category
from tensor.core import layout as layouts
from tensor.core.arguments import dimension
from tensor.core.base import TensorBase, empty, wrap
from tensor.core.devices.state import CudaState
from tensor.core.dtypes import promotion as rules
from tensor.core.modes.determinism import determinism
from tensor.core.plans import not_implemented
from tensor.core.plans.steps import one_step
from tensor.operations import scratch as planned
from tensor.operations.creation.result_types import result_type
from tensor.operations.definition import operation
from tensor.operations.reduction import into_out
from tensor.operations.reductions.extremes import amax, amin
from tensor.operations.shapes import slices, views

from .sorting import sort

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def _plan(device_state: Any, key: tuple[Any, ...], make: Any) -> Any:
    """A kernel's plan, made once for ``key``."""
    result = device_state.plans.get(key)
    if result is None:
        result = device_state.plans[key] = make()
    return result


@operation(method=False)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices at which values can be inserted into a sorted sequence so that it stays sorted.

    For ``right=False``, ``sorted_sequence[i - 1] < value <= sorted_sequence[i]``; for ``right=True``,
    ``sorted_sequence[i - 1] <= value < sorted_sequence[i]``.

    Parameters
    ----------
    sorted_sequence : Tensor
        Ascending along the last dimension: a vector, or a sequence for each row of ``input``, with the same sizes apart
        from the last dimension.
    input : Tensor or number
        The values; different dtypes are promoted.
    out_int32 : bool
        Whether the result is int32 instead of int64.
    right : bool
        Whether a value goes after the elements that equal it; ``side="right"`` says the same.
    sorter : Tensor, optional
        For a sequence that is not sorted, the int64 indices that sort it (:func:`argsort`), of its shape.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape of ``input``, with numbers from 0 to the length of the sequence.

    Raises
    ------
    RuntimeError
        If devices differ, the sequence and ``input`` differ in another dimension than the last or
        ``sorter`` has another shape, or ``side`` is another string or contradicts ``right``.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> sequence = tensor.tensor([1, 3, 5, 7])
    >>> tensor.searchsorted(sequence, tensor.tensor([0, 3, 8]))
    tensor([0, 1, 4])
    >>> tensor.searchsorted(sequence, tensor.tensor([0, 3, 8]), right=True)
    tensor([0, 2, 4])
    """
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    right = right or side == "right"
    if not isinstance(input, TensorBase):
        common = result_type(sorted_sequence, input)
        input = sorted_sequence.new_tensor(input, dtype=common)
        sorted_sequence = sorted_sequence.to(common)
    elif input._layout.dtype is not sorted_sequence._layout.dtype:
        common = result_type(sorted_sequence, input)
        input, sorted_sequence = input.to(common), sorted_sequence.to(common)
    values = input
    sequence, dtype = sorted_sequence._layout, sorted_sequence._layout.dtype
    if dtype.is_storage_only:
        raise not_implemented("searchsorted", dtype)
    if values._layout.device_state is not sequence.device_state:
        raise RuntimeError(
            f"searchsorted(): boundaries and input value tensors should have same device type, but got {sequence.device} "
            f"and {values._layout.device}"
        )
    if dtype.is_complex:
        raise NotImplementedError(
            f'"searchsorted" not implemented for {dtype!r}: complex numbers have no order'
        )
    shape = values._layout.shape
    shared = len(sequence.shape) == 1
    if not sequence.shape:
        raise RuntimeError(
            "searchsorted(): boundaries tensor should have positive dimension, got 0 dimensions"
        )
    if not shared and tuple(sequence.shape[:-1]) != tuple(shape[:-1]):
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            f"input value tensor must match, but we got boundaries tensor {list(sequence.shape)} and input value tensor "
            f"{list(shape)}"
        )
    if sorter is not None and (
        sorter._layout.shape != sequence.shape or sorter._layout.dtype is not dtypes.int64
    ):
        raise RuntimeError(
            f"searchsorted(): boundary and sorter must have the same size, and sorter be int64: got {list(sequence.shape)} "
            f"and {list(sorter._layout.shape)} of {sorter._layout.dtype!r}"
        )
    result = dtypes.int32 if out_int32 else dtypes.int64
    target = layouts.contiguous[shape, result, sequence.device_state]
    operands = values.detach().contiguous(), sorted_sequence.detach().contiguous()
    order = None if sorter is None else sorter.contiguous()
    return into_out(_positions(target, *operands, order, right), out, "searchsorted")


@one_step
def _positions(
    target: Layout, values: Tensor, boundaries: Tensor, order: Tensor | None, right: bool
) -> Tensor:
    """A tensor of the layout ``target``; the other ones are contiguous."""
    sequence, shape, dtype = boundaries._layout, values._layout.shape, boundaries._layout.dtype
    shared = len(sequence.shape) == 1
    rows, n = (1, values._layout.numel) if shared else (product_of(shape[:-1]), shape[-1])
    m = sequence.shape[-1]
    if isinstance(sequence.device_state, CudaState):
        device_state = sequence.device_state
        output = empty(target)
        if target.numel:
            key = ("searchsorted", rows, n, m, dtype, target.dtype, right, shared)
            plan = _plan(
                device_state,
                key,
                lambda: search_kernels.plan(
                    device_state.native, rows, n, m, dtype, output=target.dtype, right=right, shared=shared
                ),
            )
            addresses = [output._address, values._address, boundaries._address]
            planned.launch(device_state, plan, *addresses, *([] if order is None else [order._address]))
        return output
    which: Literal["left", "right"] = "right" if right else "left"
    compute_dtype = rules.computes_in(dtype).numpy
    lines = boundaries._host.astype(compute_dtype, copy=False).reshape(1 if shared else rows, m)
    orders = None if order is None else order._host.reshape(lines.shape)
    asked = values._host.astype(compute_dtype, copy=False).reshape(rows, n)
    value = np.empty((rows, n), target.dtype.numpy)
    for row in range(rows):
        line = 0 if shared else row
        value[row] = _searched(lines[line], asked[row], which, None if orders is None else orders[line])
    return wrap(value.reshape(shape), target)


def _searched(
    line: NDArray[Any], values: NDArray[Any], side: Literal["left", "right"], order: NDArray[Any] | None
) -> NDArray[Any]:
    """Where ``values`` belong in ``line``; NaN behind everything, as on devices, while NumPy has it equal to other NaNs."""
    if line.dtype.kind != "f" or not len(line):
        return np.searchsorted(line, values, side, order)
    if not np.isnan(line[-1] if order is None else line[order[-1]]):
        positions = np.searchsorted(line, values, side, order)
        positions[np.isnan(values)] = len(line)
        return positions
    # Every comparison with NaN is false, by which the search goes on behind it.
    ascending = line if order is None else line[order]
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, len(line))
    goes_before = np.greater_equal if side == "left" else np.greater
    for _ in range(len(line).bit_length()):
        middle = (low + high) // 2
        before = goes_before(ascending[np.minimum(middle, len(line) - 1)], values) | (low == high)
        high = np.where(before, middle, high)
        low = np.where(before, low, middle + 1)
    return low


@operation(method=False)
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """Index of the bucket between ascending ``boundaries`` that each value falls into.

    ``boundaries[i - 1] < value <= boundaries[i]``, or with ``right``, ``boundaries[i - 1] <= value < boundaries[i]``.

    Parameters
    ----------
    input : Tensor or number
        Of any shape; different dtypes are promoted.
    boundaries : Tensor
        An ascending vector.
    out_int32 : bool
        Whether the result is int32 instead of int64.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape of ``input``, with numbers from 0 to ``len(boundaries)``.

    Raises
    ------
    RuntimeError
        If ``boundaries`` is not a vector, or devices differ.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.bucketize(tensor.tensor([1, 3, 6, 9]), tensor.tensor([3, 6]))
    tensor([0, 0, 1, 2])
    """
    if len(boundaries._layout.shape) != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({len(boundaries._layout.shape)})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


@operation()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 on occurs in an integer vector, or the sum of its weights.

    Waits for a CUDA tensor: the largest number decides the result's size.

    Parameters
    ----------
    input : Tensor
        A vector of non-negative integers.
    weights : Tensor, optional
        Of the length of ``input``: ``result[input[i]] += weights[i]``.
    minlength : int
        Smallest length of the result.

    Returns
    -------
    Tensor
        A vector of length ``max(input.max() + 1, minlength)``: int64, or with weights float32 if they are and else
        float64.

    Raises
    ------
    RuntimeError
        If ``input`` is not a vector of non-negative integers, ``weights`` has another shape, or ``minlength`` is
        negative.

    Examples
    --------
    >>> tensor.bincount(tensor.tensor([0, 2, 2]), minlength=4)
    tensor([1, 0, 2, 0])
    >>> tensor.bincount(tensor.tensor([0, 2, 2]), tensor.tensor([0.5, 1.0, 2.0]))
    tensor([0.5000, 0.0000, 3.0000])
    """
    layout = input._layout
    if len(layout.shape) != 1 or layout.dtype.category is not Category.INTEGER:
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs, got {list(layout.shape)} of {layout.dtype!r}"
        )
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    if weights is not None and weights._layout.shape != layout.shape:
        raise RuntimeError(
            f"weights should be 1-d and have the same length as input: got {list(weights._layout.shape)} and "
            f"{list(layout.shape)}"
        )
    dtype = dtypes.int64
    if weights is not None:
        dtype = dtypes.float32 if weights._layout.dtype is dtypes.float32 else dtypes.float64
        weights = weights.detach().to(dtype)
    if not layout.numel:
        return input.new_zeros(minlength, dtype=dtype)
    device_state = layout.device_state
    if device_state.is_cuda and weights is None and 0 < minlength <= counting_kernels.MOST_SPARE:
        # One pass is enough where no number is too large.
        output = _counts(input, minlength + 1, None, dtype, others=True)
        if not output[minlength].item():
            result = output.narrow(0, 0, minlength)
            result._base = None
            return result
    if amin(input).item() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs, got a negative number")
    bins = max(int(amax(input).item()) + 1, minlength)
    if weights is not None and device_state.is_cuda and determinism.required:
        # Atomic sums would come in another order each time.
        return input.new_zeros(bins, dtype=dtype).index_add_(0, input.long(), weights)
    if device_state.is_cuda:
        return _counts(input, bins, weights, dtype)
    counts = np.bincount(input._host.astype(np.int64), None if weights is None else weights._host, bins)
    return wrap(counts.astype(dtype.numpy), layouts.contiguous[(bins,), dtype, device_state])


def _counts(
    input: Tensor, bins: int, weights: Tensor | None, dtype: dtypes.dtype, *, others: bool = False
) -> Tensor:
    """Counts or sums of weights on a device, as :func:`nvrtc_kernels.counting.bincount` makes them."""
    layout = input._layout
    device_state = layout.device_state
    assert isinstance(device_state, CudaState)
    output: Tensor = empty(layouts.contiguous[(bins,), dtype, device_state])
    weighing = None if weights is None else (weights._layout.strides, dtype)
    plan = _plan(
        device_state,
        ("bincount", layout, bins, weighing, others),
        lambda: counting_kernels.bincount(
            device_state.native, layout.shape, (layout.strides, layout.dtype), bins, weighing, others=others
        ),
    )
    extra = [] if weights is None else [weights._address]
    planned.launch(device_state, plan, output._address, input._address, *extra)
    return output


@operation()
def histc(
    input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None
) -> Tensor:
    """Histogram: how many elements lie in each of ``bins`` bins of equal width from ``min`` to ``max``, both included.

    Elements outside the range, and NaN, are not counted. With ``min == max`` the range is that of the elements, which
    waits for a CUDA tensor.

    Returns
    -------
    Tensor
        A vector of length ``bins`` and the dtype of ``input``, which on the CPU must be a floating one.

    Raises
    ------
    RuntimeError
        If ``bins`` is not positive, ``max`` is below ``min``, a bound is not finite, or the dtype is not a floating one
        on the CPU.

    Examples
    --------
    >>> tensor.histc(tensor.tensor([1.0, 2.0, 1.0, 4.0]), bins=4, min=0, max=4)
    tensor([0., 2., 1., 1.])
    """
    layout, dtype = input._layout, input._layout.dtype
    if dtype.category is not Category.FLOATING and not layout.device_state.is_cuda:
        raise NotImplementedError(f'"histogram_cpu" not implemented for {dtype!r}: convert to float32 first')
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, got {bins}")
    low, high = float(min), float(max)
    if low == high and layout.numel:
        low, high = float(amin(input.detach()).item()), float(amax(input.detach()).item())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"histc(): range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("histc(): max must be larger than min")
    target = layouts.contiguous[(bins,), dtype, layout.device_state]
    return into_out(_histogram(target, input.detach(), low, high), out, "histc")


@one_step
def _histogram(target: Layout, input: Tensor, low: float, high: float) -> Tensor:
    layout, dtype, (bins,) = input._layout, input._layout.dtype, target.shape
    if isinstance(layout.device_state, CudaState):
        device_state = layout.device_state
        counts = empty(target.with_dtype(dtypes.int64))
        plan = _plan(
            device_state,
            ("histc", layout, bins),
            lambda: counting_kernels.histc(device_state.native, layout.shape, (layout.strides, dtype), bins),
        )
        # Numbers follow the addresses.
        planned.launch(device_state, plan, counts._address, input._address, low, high)  # type: ignore[arg-type]
        return counts.to(dtype)
    array = input._host.reshape(-1).astype(rules.computes_in(dtype).numpy)
    inside = array[(array >= low) & (array <= high)]
    at = np.minimum(((inside - low) / (high - low) * bins).astype(np.int64), bins - 1)
    return wrap(np.bincount(at, minlength=bins).astype(dtype.numpy), target)


@operation()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements, in order.

    Waits for a CUDA tensor. With ``dim``, slices along it are compared, on the host.

    Returns
    -------
    Tensor or tuple of Tensor
        A vector of the dtype of ``input`` (with ``dim``, a tensor of fewer slices); then with ``return_inverse`` the
        int64 index of each element's run, of the shape of ``input`` (with ``dim``, a vector); then with
        ``return_counts`` the int64 lengths of the runs.

    Raises
    ------
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> values, counts = tensor.unique_consecutive(tensor.tensor([1, 1, 2, 1]), return_counts=True)
    >>> values
    tensor([1, 2, 1])
    >>> counts
    tensor([2, 1, 1])
    """
    if dim is not None:
        return _slices(input, dim, return_inverse, return_counts, ordered=False)
    return _runs(input.detach().reshape(-1), input._layout.shape, None, return_inverse, return_counts)


@operation()
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in ascending order.

    Waits for a CUDA tensor. With ``dim``, slices along it are compared, on the host.

    Parameters
    ----------
    sorted : bool
        Ignored: the results are always in order.

    Returns
    -------
    Tensor or tuple of Tensor
        A vector of the dtype of ``input`` (with ``dim``, a tensor of fewer slices); then with ``return_inverse`` the
        int64 index of each element in it, of the shape of ``input`` (with ``dim``, a vector); then with
        ``return_counts`` how often each occurs, as int64.

    Raises
    ------
    RuntimeError
        If ``input`` is complex and ``dim`` is not given.
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> values, inverse = tensor.unique(tensor.tensor([3, 1, 3]), return_inverse=True)
    >>> values
    tensor([1, 3])
    >>> inverse
    tensor([1, 0, 1])
    """
    if dim is not None:
        return _slices(input, dim, return_inverse, return_counts, ordered=True)
    values, positions = sort(input.detach().reshape(-1))
    return _runs(values, input._layout.shape, positions, return_inverse, return_counts)


def _runs(values: Tensor, shape: Any, positions: Tensor | None, inverse: bool, counts: bool) -> Any:
    """Runs of equal elements of a vector; ``positions`` says where each stood."""
    layout, n = values._layout, values._layout.numel
    element_dtypes = layouts.contiguous[(n,), dtypes.int64, layout.device_state]
    if layout.device_state.is_cuda and not n:
        results = [values.clone()]
        results += [empty(element_dtypes).view(shape)] if inverse else []
        results += [empty(element_dtypes)] if counts else []
        return results[0] if len(results) == 1 else tuple(results)
    if layout.device_state.is_cuda:
        device_state = layout.device_state
        values = values.contiguous()
        number = empty(layouts.contiguous[(1,), dtypes.int64, device_state])
        result, back = empty(values._layout), empty(element_dtypes) if inverse else None
        many = empty(element_dtypes) if counts else None
        plan = _plan(
            device_state,
            ("unique", n, layout.dtype, counts),
            lambda: unique_kernels.plan(device_state.native, n, layout.dtype, counts=counts),
        )
        planned.launch(
            device_state,
            plan,
            *(0 if x is None else x._address for x in (number, result, values, back, positions, many)),
        )
        runs = int(number.item())
        results = [slices.narrow(result, 0, 0, runs).clone()]
        results += [] if back is None else [back.view(shape)]
        results += [] if many is None else [slices.narrow(many, 0, 0, runs).clone()]
        return results[0] if len(results) == 1 else tuple(results)
    array = values._host
    if n:
        starts = np.r_[True, array[1:] != array[:-1]]
    else:
        starts = np.empty(0, bool)
    run = np.cumsum(starts) - 1
    results = [wrap(np.ascontiguousarray(array[starts]))]
    if inverse:
        back_array = np.empty(n, np.int64)
        if positions is None:
            back_array[...] = run
        else:
            back_array[positions._host] = run
        results.append(wrap(back_array.reshape(shape)))
    if counts:
        results.append(wrap(np.diff(np.r_[np.flatnonzero(starts), n]).astype(np.int64)))
    return results[0] if len(results) == 1 else tuple(results)


def _slices(input: Tensor, dim: int, inverse: bool, counts: bool, *, ordered: bool) -> Any:
    """Different slices along a dimension, compared on the host."""
    shape = input._layout.shape
    at = dimension(dim, len(shape))
    if not shape:
        raise IndexError(f"unique(): Dimension specified as {dim} but tensor has no dimensions")
    if shape[at] and not input._layout.numel:
        raise RuntimeError(
            f"unique(): There are 0 sized dimensions, and they aren't selected, so unique cannot be applied: got shape "
            f"{list(shape)} and dim {at}"
        )
    moved = views.movedim(input.detach().cpu(), at, 0).contiguous()
    array = moved._host
    flat = array.reshape(len(array), math.prod(array.shape[1:]))
    order = np.lexsort(flat.T[::-1]) if ordered and flat.shape[1] else np.arange(len(flat))
    lined = flat[order]
    starts = np.ones(len(lined), bool)
    if len(lined):
        starts[1:] = (lined[1:] != lined[:-1]).any(1)
    run = np.cumsum(starts) - 1
    back = np.empty(len(lined), np.int64)
    back[order] = run
    uniques = wrap(np.ascontiguousarray(array[order][starts]))
    results = [views.movedim(uniques, 0, at).contiguous()]
    if inverse:
        results.append(wrap(back))
    if counts:
        results.append(wrap(np.diff(np.r_[np.flatnonzero(starts), len(lined)]).astype(np.int64)))
    results = [x.to(input._layout.device) for x in results]
    return results[0] if len(results) == 1 else tuple(results)
