"""Batch normalization on the CPU: planes ``(items, channels, inner)``, by native loops, or with NumPy as many as stay in a cache.

Every element comes from memory once for each of the four things there are to do, whatever steps these take. Sums
are made of each plane first and of the planes then, in an order that does not depend on threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drv.host.threads import share
from nvrtc_kernels.host_loops import channel_normalization as loops
from tensor.core.host.broadcasting import use_rows_in_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
_Slices: TypeAlias = "tuple[slice, slice]"

#: Elements of a block.
_BLOCK = 1 << 15
#: Elements of a plane from which on it is worth being summed on its own.
LEAST = 16


def planes(array: Array) -> Array | None:
    """A contiguous array ``(N, C, ...)`` as planes; ``None`` where it is not, or its planes are small."""
    if not array.flags.c_contiguous or array.ndim < 3 or array.size < LEAST * array.shape[0] * array.shape[1]:
        return None
    return array.reshape(*array.shape[:2], -1) if array.size else None


def _by_blocks(array: Array, work: Callable[[_Slices, Array], None]) -> None:
    """``work(items and channels, scratch of their shape)`` for blocks of ``array``."""
    items, channels, inner = array.shape
    some = min(max(_BLOCK // inner, 1), channels)
    several = max(_BLOCK // (channels * inner), 1)
    across = -(-channels // some)
    pieces = -(-items // several) * across
    # A thread's while of neighbouring blocks, with one piece of memory between them.
    each = max((1 << 18) // (several * some * inner), 1)

    def run(number: int) -> None:
        scratch = np.empty((min(several, items), some, inner), array.dtype)
        for piece in range(number * each, min((number + 1) * each, pieces)):
            item, channel = piece // across * several, piece % across * some
            block = (
                slice(item, min(item + several, items)),
                slice(channel, min(channel + some, channels)),
            )
            with np.errstate(all="ignore"):
                use_rows_in_place(inner)
                work(block, scratch[: block[0].stop - item, : block[1].stop - channel])

    share(run, -(-pieces // each))


def moments(array: Array) -> tuple[Array, Array]:
    """Variance (biased) and mean of each channel, from those of each plane."""
    items, _, inner = array.shape
    # Products with ones are sums that BLAS makes.
    ones = np.ones(inner, array.dtype)
    means, squares = np.empty((2, *array.shape[:2]), array.dtype)

    def work(block: _Slices, away: Array) -> None:
        x, mean = array[block], means[block]
        np.matmul(x, ones, out=mean)
        mean /= inner
        np.subtract(x, mean[..., None], out=away)
        np.vecdot(away, away, out=squares[block])

    if not loops.moments(array, means, squares):
        _by_blocks(array, work)
    mean = means.mean(0, dtype=array.dtype)
    away = means - mean
    squares += away * away * array.dtype.type(inner)
    return squares.sum(0) / array.dtype.type(items * inner), mean


def apply(array: Array, mean: Array, scale: Array, bias: Array | None, out: Array) -> None:
    """``out = (array - mean) * scale + bias`` with vectors of channels."""
    if loops.apply(array, mean, scale, bias, out):
        return

    def work(block: _Slices, _: Array) -> None:
        into, channels = out[block], block[1]
        np.subtract(array[block], mean[channels, None], out=into)
        into *= scale[channels, None]
        if bias is not None:
            into += bias[channels, None]

    _by_blocks(array, work)


def sums(grad: Array, array: Array, mean: Array, scale: Array) -> tuple[Array, Array]:
    """Sums of the gradient of each channel, and of it times ``(array - mean) * scale``."""
    ones = np.ones(array.shape[2], array.dtype)
    total, products = np.empty((2, *array.shape[:2]), array.dtype)

    def work(block: _Slices, away: Array) -> None:
        argument = grad[block]
        np.subtract(array[block], mean[block[1], None], out=away)
        np.vecdot(argument, away, out=products[block])
        np.matmul(argument, ones, out=total[block])

    if not loops.sums(grad, array, mean, total, products):
        _by_blocks(array, work)
    return total.sum(0), products.sum(0) * scale


def input_gradient(
    grad: Array, array: Array, mean: Array, factor: Array, shift: Array, scale: Array, out: Array
) -> None:
    """``out = (grad - shift - (array - mean) * factor) * scale`` with vectors of channels."""
    if loops.input_gradient(grad, array, mean, factor, shift, scale, out):
        return

    def work(block: _Slices, _: Array) -> None:
        into, channels = out[block], block[1]
        np.subtract(array[block], mean[channels, None], out=into)
        into *= -factor[channels, None]
        into += grad[block]
        into -= shift[channels, None]
        into *= scale[channels, None]

    _by_blocks(array, work)
