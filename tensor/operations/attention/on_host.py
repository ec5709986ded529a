"""Attention on the CPU, in the same blocks as on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host.blas import multiply
from nvrtc_kernels.attention import most_keys
from nvrtc_kernels.host_loops import attention as loops
from tensor.core.base import view_of, wrap
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.operations.normalization.row_normalization import in_compute_dtype, tensor_of
from tensor.operations.random.philox import words

from .blocks import tiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.attention import Block, Dropout
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .blocks import Problem, Tile

    Array = NDArray[Any]


def _matrices(tile: Tile) -> slice:
    return slice(tile.matrix, tile.matrix + tile.matrices)


def _rows(tile: Tile) -> tuple[slice, slice]:
    return _matrices(tile), slice(tile.row, tile.row + tile.rows)


def _keys(tile: Tile, block: Block) -> tuple[slice, slice]:
    return _matrices(tile), slice(block.first_key, block.first_key + block.keys)


def _mask(mask: Tensor | None, layout: Layout | None) -> Array | None:
    """The mask over all scores, stretched."""
    if mask is None or layout is None:
        return None
    return view_of(mask._storage, layout, mask._offset)._host


def _scores(
    tile: Tile, block: Block, queries: Array, keys: Array, mask: Array | None, scale: float
) -> tuple[Array, float]:
    """Scores before what is behind a position is hidden, and what they are still to be multiplied by."""
    x: Array = multiply(queries, keys[_keys(tile, block)].swapaxes(1, 2))
    if mask is None:
        return x, scale
    x *= x.dtype.type(scale)
    some = mask[tile.region(block)].reshape(x.shape)
    if some.dtype == bool:
        x[~some] = -np.inf
    else:
        x += some.astype(x.dtype, copy=False)
    return x, 1.0


def _visible(tile: Tile, block: Block) -> Array | None:
    """How many of the block's keys each row sees, where that is not all of them."""
    if not block.causal:
        return None
    position = np.arange(tile.row, tile.row + tile.rows) % block.positions
    return np.tile(np.clip(position + 1 - block.first_key, 0, block.keys), tile.matrices)


def _hide(x: Array, scale: float, visible: Array | None) -> None:
    """Scale scores, and make those minus infinity that rows do not see."""
    if scale != 1:
        x *= x.dtype.type(scale)
    if visible is not None:
        x[np.arange(x.shape[2]) >= visible.reshape(*x.shape[:2], 1)] = -np.inf


def _in_rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _factors(dropout: Dropout, block: Block, dtype: np.dtype[Any]) -> Array:
    """What each weight of a block is multiplied by."""
    each = dropout.blocks * 4
    # Words of rows that follow each other are drawn at once.
    joined = block.matrices if block.step == block.rows else 1
    below, factor = np.uint64(dropout.below), dtype.type(dropout.scale)
    result = np.empty((block.matrices, block.rows, block.keys), dtype)
    for matrix in range(0, block.matrices, joined):
        start = (block.first + matrix * block.step) * each
        drawn = words(dropout.seed, dropout.call, joined * block.rows * each, start)
        seen = drawn.reshape(joined, block.rows, each)[..., block.first_key : block.first_key + block.keys]
        np.multiply(seen < below, factor, out=result[matrix : matrix + joined])
    return result


def plan(
    layout: Layout, mask_layout: Layout | None, problem: Problem, capacity: int
) -> Callable[..., tuple[Tensor, Tensor]]:
    """What computes results and logarithms of the sums; see :func:`.attention._forward_plan`."""
    compute_dtype = rules.computes_in(layout.dtype)
    shape = problem.matrices, problem.rows
    out = contiguous[(*shape, problem.values), layout.dtype, layout.device_state]

    def run(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: Dropout | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        queries, keys, values = (in_compute_dtype(x) for x in (query, key, value))
        seen = _mask(mask, mask_layout)
        result = np.empty(out.shape, compute_dtype.numpy)
        logarithms = np.empty(shape, compute_dtype.numpy)
        with np.errstate(all="ignore"):
            for tile in tiles(problem, capacity, most_keys(layout.dtype)):
                rows = _rows(tile)
                for block in tile.blocks:
                    x, factor = _scores(tile, block, queries[rows], keys, seen, scale)
                    visible = _visible(tile, block)
                    if len(tile.blocks) == 1:
                        sums = np.empty(x.shape[:2], x.dtype)
                        if loops.weights(_in_rows(x), visible, sums, factor):
                            logarithms[rows] = sums
                            if dropout is not None:
                                x *= _factors(dropout, block, x.dtype)
                            multiply(x, values[_keys(tile, block)], result[rows])
                            continue
                    _hide(x, factor, visible)
                    largest = x.max(-1, keepdims=True)
                    shift = np.where(largest == -np.inf, 0, largest)
                    np.exp(np.subtract(x, shift, out=x), out=x)
                    total = x.sum(-1, keepdims=True)
                    logarithm = largest + np.log(total)
                    if block.first_key:
                        before = logarithms[rows][..., None]
                        logarithm = np.logaddexp(before, logarithm)
                        x *= np.where(largest == -np.inf, 0, np.exp(shift - logarithm))
                        result[rows] *= np.where(before == -np.inf, 0, np.exp(before - logarithm))
                    else:
                        x *= np.where(total == 0, 0, 1 / total)
                        result[rows] = 0
                    logarithms[rows] = logarithm[..., 0]
                    if dropout is not None:
                        x *= _factors(dropout, block, x.dtype)
                    result[rows] += multiply(x, values[_keys(tile, block)])
        return tensor_of(result, out), wrap(logarithms)

    return run


def plan_backward(
    layout: Layout,
    mask_layout: Layout | None,
    problem: Problem,
    capacity: int,
    expected: tuple[bool, ...],
    mask_shape: tuple[int, ...] | None,
) -> Callable[..., tuple[Tensor | None, ...]]:
    """What computes the gradients; see :func:`.attention._backward_plan`."""
    compute_dtype = rules.computes_in(layout.dtype)
    lengths = (problem.rows, problem.width), (problem.keys, problem.width), (problem.keys, problem.values)

    def run(
        grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, result: Tensor,
        logarithms: Tensor, dropout: Dropout | None, scale: float,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        grads, queries, keys, values, results = (
            in_compute_dtype(x) for x in (grad, query, key, value, result)
        )
        seen = _mask(mask, mask_layout)
        along = np.einsum("bri,bri->br", grads, results)[..., None]
        sums = logarithms._host[..., None]
        dq, dk, dv = (np.zeros((problem.matrices, *shape), compute_dtype.numpy) for shape in lengths)
        of_mask = np.zeros(mask_shape or (), compute_dtype.numpy)
        with np.errstate(all="ignore"):
            for tile in tiles(problem, capacity, most_keys(layout.dtype)):
                rows = _rows(tile)
                for block in tile.blocks:
                    some = _keys(tile, block)
                    x, factor = _scores(tile, block, queries[rows], keys, seen, scale)
                    slopes = multiply(grads[rows], values[some].swapaxes(1, 2))
                    factors = None
                    if dropout is not None:
                        factors = _factors(dropout, block, x.dtype)
                        slopes *= factors
                    visible = _visible(tile, block)
                    logarithm, of_row = (np.ascontiguousarray(each[rows]) for each in (sums, along))
                    if not loops.gradients(_in_rows(x), _in_rows(slopes), visible, logarithm, of_row, factor):
                        _hide(x, factor, visible)
                        x = np.where(sums[rows] == -np.inf, 0, np.exp(x - sums[rows]))
                        slopes -= along[rows]
                        slopes *= x
                    weights = x if factors is None else x * factors
                    dv[some] += multiply(weights.swapaxes(1, 2), grads[rows])
                    if expected[3] and mask_shape is not None:
                        _add_to_mask(of_mask, tile.region(block), slopes)
                    slopes *= slopes.dtype.type(scale)
                    dq[rows] += multiply(slopes, keys[some])
                    dk[some] += multiply(slopes.swapaxes(1, 2), queries[rows])
        entry = []
        for want, array in zip(expected, (dq, dk, dv, of_mask), strict=True):
            like = contiguous[array.shape, layout.dtype, layout.device_state]
            entry.append(tensor_of(array, like) if want else None)
        return tuple(entry)

    return run


def _add_to_mask(into: Array, region: tuple[slice, ...], slopes: Array) -> None:
    """Add gradients of scores to that of the mask, over whose stretched dimensions they are summed."""
    box = slopes.reshape([each.stop - each.start for each in region])
    stretched = tuple(dim for dim, size in enumerate(into.shape) if size == 1)
    where = tuple(slice(0, 1) if size == 1 else each for size, each in zip(into.shape, region, strict=True))
    into[where] += box.sum(stretched, keepdims=True)
