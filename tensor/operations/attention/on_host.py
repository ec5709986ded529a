"""Attention on the CPU, in the same blocks as on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host.blas import multiply
from nvrtc_kernels.attention import most_keys
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


def _scores(tile: Tile, block: Block, queries: Array, keys: Array, mask: Array | None, scale: float) -> Array:
    x: Array = multiply(queries, keys[_keys(tile, block)].swapaxes(1, 2))
    x *= x.dtype.type(scale)
    if mask is not None:
        some = mask[tile.region(block)].reshape(x.shape)
        if some.dtype == bool:
            x[~some] = -np.inf
        else:
            x += some.astype(x.dtype, copy=False)
    if block.causal:
        position = np.arange(tile.row, tile.row + tile.rows) % block.positions
        hidden = np.arange(block.first_key, block.first_key + block.keys) > position[:, None]
        x[:, hidden] = -np.inf
    return x


def _factors(dropout: Dropout, block: Block) -> Array:
    """What each weight of a block is multiplied by."""
    each = dropout.blocks * 4
    result = np.empty((block.matrices, block.rows, block.keys), bool)
    for matrix in range(block.matrices):
        start = (block.first + matrix * block.step) * each
        drawn = words(dropout.seed, dropout.call, block.rows * each, start).reshape(block.rows, each)
        result[matrix] = drawn[:, block.first_key : block.first_key + block.keys] < np.uint64(dropout.below)
    return result * np.float64(dropout.scale)


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
                    x = _scores(tile, block, queries[rows], keys, seen, scale)
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
                        x *= _factors(dropout, block).astype(x.dtype)
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
                    x = _scores(tile, block, queries[rows], keys, seen, scale)
                    x = np.where(sums[rows] == -np.inf, 0, np.exp(x - sums[rows]))
                    slopes = multiply(grads[rows], values[some].swapaxes(1, 2))
                    weights = x
                    if dropout is not None:
                        factors = _factors(dropout, block).astype(x.dtype)
                        weights = x * factors
                        slopes *= factors
                    dv[some] += multiply(weights.swapaxes(1, 2), grads[rows])
                    slopes -= along[rows]
                    slopes *= x
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
