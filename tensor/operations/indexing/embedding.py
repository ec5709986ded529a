"""Rows of a table that indices name, alone and in bags."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import embedding as kernels
from nvrtc_kernels.dtypes import int32, int64
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core import layout as layouts
from tensor.core.base import check_tensor, empty, wrap
from tensor.core.modes.grad_mode import modes, no_grad
from tensor.core.plans import planned
from tensor.core.plans.steps import one_step
from tensor.core.sparse import Coordinates
from tensor.operations.creation.ranges import arange
from tensor.operations.definition import operation
from tensor.operations.losses.loss import check_same_device
from tensor.operations.normalization.row_normalization import in_compute_dtype, tensor_of
from tensor.operations.sparse.parts import sparse_of

from .advanced_indexing import READ, REDUCE, Indexing
from .gather import nonzero_positions
from .recorded_indexing import change_
from .searching import bincount, searchsorted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def _check_indices(name: str, indices: Tensor) -> None:
    check_tensor(indices, name, "indices")
    if indices._layout.dtype not in (int32, int64):
        raise RuntimeError(
            f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{indices._layout.dtype!r} instead (while checking arguments for {name})"
        )


def _check_table(name: str, weight: Tensor) -> None:
    if len(weight._layout.shape) != 2:
        raise RuntimeError(f"{name}(): 'weight' must be 2-D, got shape {list(weight._layout.shape)}")


def padding_row(padding_idx: int | None, rows: int) -> int:
    """The row that is padding, counted from 0; -1 where there is none.

    Raises
    ------
    AssertionError
        If there is no such row.
    """
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"Padding_idx must be within num_embeddings: got {padding_idx} for {rows} rows")
    return padding_idx % rows


@operation(method=False)
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of ``weight`` that ``indices`` name.

    Parameters
    ----------
    weight : Tensor
        Of shape (V, D).
    indices : Tensor
        int64 or int32, of any shape.
    padding_idx : int
        A row that gets no gradient; a negative one for none.
    scale_grad_by_freq : bool
        Whether the gradient of a row is divided by how often it is named.
    sparse : bool
        Whether the gradient is a sparse tensor of the rows that are named.

    Returns
    -------
    Tensor
        Of shape (..., D).

    Raises
    ------
    IndexError
        If an index is no row; on CUDA that is a failed assertion, which a later call raises.
    RuntimeError
        In a backward pass, if ``sparse`` and ``scale_grad_by_freq`` are both true.

    Examples
    --------
    >>> weight = tensor.tensor([[0.0, 1.0], [2.0, 3.0]])
    >>> tensor.embedding(weight, tensor.tensor([1, 1, 0]))
    tensor([[2., 3.],
            [2., 3.],
            [0., 1.]])
    """
    _check_table("embedding", weight)
    _check_indices("embedding", indices)
    check_same_device("embedding", weight, indices=indices)
    shape = (*indices._layout.shape, weight._layout.shape[1])
    flat = indices.reshape(-1)
    indexing = Indexing("embedding", "along", (flat,), 0)
    layout = weight._layout
    result: Tensor = layout.device_state.plans[READ, layout, *indexing.key()](weight, indexing.tensors)
    result = result.view(shape)
    result._base = None
    _EMBEDDING_BACKWARD.record(
        (result,), (weight,), (flat,), (layout, padding_idx, scale_grad_by_freq, sparse)
    )
    return result


def _embedding_gradient(
    _: tuple[bool, ...],
    grad: Tensor,
    flat: Tensor,
    table: Layout,
    padding: int,
    by_frequency: bool,
    sparse: bool,
) -> tuple[Tensor]:
    rows = grad.reshape(flat._layout.numel, table.shape[1])
    if sparse:
        return (_sparse_rows("embedding", rows, flat, table, padding, by_frequency),)
    return (_added_rows(rows, flat, table, padding, by_frequency),)


def _sparse_rows(
    name: str, values: Tensor, flat: Tensor, table: Layout, padding: int, by_frequency: bool
) -> Tensor:
    """A sparse table of the rows ``flat``, in their order, that has ``values`` there."""
    if by_frequency:
        raise RuntimeError(
            f"{name}_backward: scale_grad_by_freq not supported with sparse gradients: leave one of the two out"
        )
    if padding >= 0:
        named = nonzero_positions(flat != padding)
        values, flat = values.index_select(0, named), flat.index_select(0, named)
    return sparse_of(Coordinates(flat.to(int64).unsqueeze(0), coalesced=False), values, table.shape)


_EMBEDDING_BACKWARD = BackwardFormula(
    "EmbeddingBackward0", "weight indices", joint=Derivative(_embedding_gradient, needs="indices")
)


def _added_rows(
    values: Tensor, flat: Tensor, table: Layout, padding: int, by_frequency: bool = False
) -> Tensor:
    """A table of zeros with ``values`` added where ``flat`` says, the same in every run."""
    rows, columns = table.shape
    if not modes.recording and not by_frequency:
        run = table.device_state.plans[_GRADIENT, table, flat._layout, padding]
        if run is not None:
            result: Tensor = run(values, flat)
            return result
    zeros = values.new_zeros((rows, columns))
    factor = None
    if by_frequency:
        counts = bincount(flat, minlength=rows) if flat._layout.numel else flat.new_zeros(rows)
        factor = 1 / counts.clamp(min=1).to(table.dtype).unsqueeze(1)
    if modes.recording:
        if padding >= 0:
            values = values.masked_fill((flat == padding).unsqueeze(1), 0)
        result = zeros.index_add(0, flat, values)
        return result if factor is None else result * factor
    # Half precision is rounded once: the sums of a row are made in order, after the indices are sorted.
    change_(REDUCE["sum", True], zeros, Indexing("embedding", "along", (flat,), 0), values)
    if 0 <= padding < rows:
        zeros[padding].zero_()
    return zeros if factor is None else zeros * factor


def _gradient_plan(table: Layout, flat: Layout, padding: int) -> Callable[..., Tensor] | None:
    """What makes the gradient of a table without sorting: ``plans[operation, table, flat, padding](values, flat)``.

    ``None`` where indices are to be sorted first: on the host, and where there are many.
    """
    device_state, (rows, columns) = table.device_state, table.shape
    if not device_state.is_cuda:
        return None
    out = layouts.contiguous[table.shape, table.dtype, device_state]
    arguments = device_state.native, table.dtype, rows, columns, flat.dtype, flat.numel, padding
    local = device_state.local
    if kernels.has_gradient(table.dtype, rows, flat.numel):
        at_once = kernels.gradient(*arguments)

        def on_device(values: Tensor, flat: Tensor) -> Tensor:
            values, flat, result = values.contiguous(), flat.contiguous(), empty(out)
            at_once(local.stream.handle, flat._address, values._address, result._address)
            return result

        return on_device
    if not kernels.has_filed_gradient(table.dtype, rows, flat.numel):
        return None
    filed = kernels.filed_gradient(*arguments)

    def by_slots(values: Tensor, flat: Tensor) -> Tensor:
        values, flat, result = values.contiguous(), flat.contiguous(), empty(out)
        counts = flat.new_zeros(rows, dtype=int32)
        slots = flat.new_empty(rows * kernels.SLOTS, dtype=int32)
        addresses = (each._address for each in (flat, values, counts, slots, result))
        filed(local.stream.handle, *addresses)
        return result

    return by_slots


_GRADIENT = planned(_gradient_plan)


def renormalise(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale rows of ``weight`` that are named and longer than ``max_norm`` down to it, in place.

    Raises
    ------
    RuntimeError
        If ``weight`` is no matrix, indices are no integers, or the two are on different devices.
    """
    _check_table("embedding_renorm_", weight)
    _check_indices("embedding_renorm_", indices)
    check_same_device("embedding_renorm_", weight, indices=indices)
    with no_grad():
        named = indices.reshape(-1).to(int64).unique()
        rows = weight.index_select(0, named)
        length = rows.norm(norm_type, 1, keepdim=True)
        factor = (max_norm / (length + 1e-7)).masked_fill(length <= max_norm, 1.0)
        weight.detach().index_copy_(0, named, rows * factor)
    return weight


@one_step
def _check_offsets(offsets: Tensor, length: int) -> None:
    first, last = offsets._host[0], offsets._host[-1]
    if first != 0 or last > length:
        raise RuntimeError(
            f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0, and "
            f"offsets[-1] can not be greater than input's length {length}; got {first} and {last}"
        )


def _bags_plan(
    table: Layout, indices: Layout, starts: Layout, mode: str, padding: int
) -> Callable[..., tuple[Tensor, Tensor]]:
    """What combines rows of tables of a layout, all operands contiguous.

    ``device_state.plans[operation, table, indices, starts, mode, padding](table, indices, starts, factors)``.

    The result, and what the kernel calls ``chosen``.
    """
    bags, (rows, columns) = starts.numel, table.shape
    out = layouts.contiguous[(bags, columns), table.dtype, table.device_state]
    saved_layout = layouts.contiguous[out.shape if mode == "max" else (bags,), int64, table.device_state]
    if not table.device_state.is_cuda:

        def on_host(
            weight: Tensor, indices: Tensor, starts: Tensor, factors: Tensor | None
        ) -> tuple[Tensor, Tensor]:
            result, chosen = _bags_on_host(
                in_compute_dtype(weight), indices._host, starts._host,
                None if factors is None else in_compute_dtype(factors), mode, padding,
            )  # fmt: skip
            return tensor_of(result, out), wrap(np.ascontiguousarray(chosen, np.int64), saved_layout)

        return on_host
    device_state = table.device_state
    run = kernels.plan(device_state.native, mode, table.dtype, bags, columns, rows, indices.numel, padding)
    local = device_state.local

    def on_device(
        weight: Tensor, indices: Tensor, starts: Tensor, factors: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        result, chosen = empty(out), empty(saved_layout)
        run(
            local.stream.handle, weight._address, indices._address, starts._address,
            0 if factors is None else factors._address, result._address, chosen._address,
        )  # fmt: skip
        return result, chosen

    return on_device


def _bags_on_host(
    table: Any, indices: Any, starts: Any, factors: Any, mode: str, padding: int
) -> tuple[Any, Any]:
    wrong = (indices < 0) | (indices >= len(table))
    if wrong.any():
        raise IndexError(
            f"embedding_bag: index {indices[wrong][0]} is out of range: the table has {len(table)} rows"
        )
    bags = np.searchsorted(starts, np.arange(len(indices)), side="right") - 1
    counts = (indices != padding) & (bags >= 0)
    indices, bags = indices[counts], bags[counts]
    picked = table[indices]
    if factors is not None:
        picked = picked * factors[counts][:, None]
    first = np.searchsorted(bags, np.arange(len(starts)))
    sizes = np.diff(np.append(first, len(bags)))
    full = np.flatnonzero(sizes)
    result = np.zeros((len(starts), table.shape[1]), table.dtype)
    if mode != "max":
        if len(full):
            result[full] = np.add.reduceat(picked, first[full], axis=0)
        if mode == "mean":
            result /= np.maximum(sizes, 1).astype(result.dtype)[:, None]
        return result, sizes
    chosen = np.full(result.shape, -1, np.int64)
    if len(full):
        result[full] = np.maximum.reduceat(picked, first[full], axis=0)
        positions = np.where(picked == result[bags], np.arange(len(bags))[:, None], len(bags) - 1)
        chosen[full] = indices[np.minimum.reduceat(positions, first[full], axis=0)]
    return result, chosen


BAGS = planned(_bags_plan)


@operation(method=False)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int | str = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums, means or maxima of rows of ``weight``, in bags of indices, without gathering the rows.

    Parameters
    ----------
    weight : Tensor
        Of shape (V, D).
    indices : Tensor
        int64 or int32, a vector.
    offsets : Tensor
        Where each of the B bags starts; with ``include_last_offset`` also where the last one ends.
    mode : int or str
        0 or ``"sum"``, 1 or ``"mean"``, 2 or ``"max"``.
    sparse : bool
        As for :func:`embedding`; not for maxima.
    per_sample_weights : Tensor, optional
        What each row is multiplied with, for sums; of the shape of ``indices``.
    padding_idx : int, optional
        A row that counts nothing in a bag.

    Returns
    -------
    output, offset2bag, bag_size, max_indices
        The first of shape (B, D), the bag of each index, how many count in each bag, and which row each
        maximum came from; what the mode has not is empty.

    Examples
    --------
    >>> weight = tensor.tensor([[0.0, 1.0], [2.0, 3.0]])
    >>> tensor.embedding_bag(weight, tensor.tensor([0, 1, 1]), tensor.tensor([0, 2]))[0]
    tensor([[2., 4.],
            [2., 3.]])
    """
    name = "embedding_bag"
    _check_table(name, weight)
    _check_indices(name, indices)
    _check_indices(name, offsets)
    check_same_device(name, weight, indices=indices, offsets=offsets, per_sample_weights=per_sample_weights)
    mode = kernels.MODES[mode] if isinstance(mode, int) and 0 <= mode < 3 else mode
    if mode not in kernels.MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None, but per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}')"
        )
    padding = padding_row(padding_idx, weight._layout.shape[0])
    flat, starts = (x.to(int64).contiguous() for x in (indices, offsets))
    if not starts._layout.device_state.is_cuda and starts._layout.numel:
        _check_offsets(starts, flat._layout.numel)
    if include_last_offset:
        starts = starts[:-1]
    factors = None if per_sample_weights is None else per_sample_weights.contiguous()
    table = weight.contiguous()
    device_state = table._layout.device_state
    run = device_state.plans[BAGS, table._layout, flat._layout, starts._layout, mode, padding]
    result, chosen = run(table, flat, starts, factors)
    with no_grad():
        count = flat._layout.numel
        bags = searchsorted(starts, arange(count, device=flat.device), right=True) - 1 if count else flat
    context = table._layout, mode, padding, scale_grad_by_freq, sparse
    _BAG_BACKWARD.record((result,), (weight, per_sample_weights), (flat, bags, chosen), context)
    nothing = flat.new_zeros(0)
    return result, bags, nothing if mode == "max" else chosen, chosen if mode == "max" else nothing


def _bag_gradients(
    expected: tuple[bool, ...],
    grad: Tensor,
    flat: Tensor,
    bags: Tensor,
    chosen: Tensor,
    factors: Tensor | None,
    weight: Tensor | None,
    table: Layout,
    mode: str,
    padding: int,
    by_frequency: bool,
    sparse: bool,
) -> tuple[Tensor | None, Tensor | None]:
    if mode == "max":
        rows, columns = table.shape
        positions = chosen * columns + arange(columns, device=flat.device)
        values = grad.masked_fill(chosen < 0, 0)
        cells = grad.new_zeros((rows * columns,))
        result = cells.index_add(0, positions.masked_fill(chosen < 0, 0).reshape(-1), values.reshape(-1))
        return result.view(rows, columns), None
    if mode == "mean":
        grad = grad / chosen.clamp(min=1).to(grad._layout.dtype).unsqueeze(1)
    gathered = grad.index_select(0, bags)
    of_factors = None
    if expected[1] and weight is not None:
        of_factors = (gathered * weight.index_select(0, flat)).sum(1)
        if padding >= 0:
            of_factors = of_factors.masked_fill(flat == padding, 0)
    if not expected[0]:
        return None, of_factors
    if factors is not None:
        gathered = gathered * factors.unsqueeze(1)
    if sparse:
        return _sparse_rows("embedding_bag", gathered, flat, table, padding, by_frequency), of_factors
    return _added_rows(gathered, flat, table, padding, by_frequency), of_factors


_BAG_BACKWARD = BackwardFormula(
    "EmbeddingBagBackward0",
    "weight factors indices bags chosen",
    joint=Derivative(_bag_gradients, needs=("indices bags chosen factors", "indices bags chosen weight")),
)


@one_step
def _check_classes(classes: Tensor, count: int) -> None:
    """Raise RuntimeError for what is negative, or not below ``count`` if that is positive."""
    if int(classes.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    if count > 0 and (largest := int(classes.max())) >= count:
        raise RuntimeError(f"Class values must be smaller than num_classes: {largest} is not below {count}.")


@operation(namespace="nn.functional", method=False)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at the index that each element names, in a new last dimension, and 0 elsewhere.

    Parameters
    ----------
    tensor : Tensor
        int64, of any shape.
    num_classes : int
        Size of the last dimension; by default one more than the largest element, for which the host waits.

    Raises
    ------
    RuntimeError
        If an element is negative or not below ``num_classes``; with a number for that and a CUDA tensor it is a
        failed assertion, which a later call raises.

    Examples
    --------
    >>> nn.functional.one_hot(tensor.tensor([0, 2]), num_classes=3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    layout = tensor._layout
    if layout.dtype is not int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type LongTensor, got {layout.dtype!r}."
        )
    if not layout.numel:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return tensor.new_zeros((*layout.shape, num_classes))
    if not layout.device_state.is_cuda or num_classes < 0:
        if num_classes == 0:
            raise RuntimeError("num_classes should be positive")
        if num_classes < 0:
            _check_classes(tensor, -1)
            num_classes = int(tensor.max()) + 1
        else:
            _check_classes(tensor, num_classes)
    zeros = tensor.new_zeros((*layout.shape, num_classes))
    return zeros.scatter_(-1, tensor.unsqueeze(-1), 1)


def bags_of_rows(input: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of shape (B, L) as a vector, and where its bags start."""
    rows, length = input._layout.shape
    starts = arange(0, rows * length, length or 1, device=input.device, dtype=int64)
    if not length:
        starts = input.new_zeros(rows, dtype=int64)
    return input.reshape(prod(input._layout.shape)), starts
