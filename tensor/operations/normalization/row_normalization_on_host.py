"""Normalization of rows with NumPy, as many rows at a time as stay in a cache.

Every element comes from memory once for each pass, whatever steps the pass takes. Sums over rows are made of each piece of
work and then of the pieces, in an order that does not depend on threads. Rows are those of
:class:`nvrtc_kernels.normalization.Rows`: arrays are ``(rows, channels * inner)``, weights and biases have an element for each
channel of all groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drv.host.threads import share
from nvrtc_kernels.host_loops import normalization as loops
from tensor.core.host.broadcasting import use_rows_in_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.normalization import Rows

Array: TypeAlias = "NDArray[Any]"

#: Elements of a block forward, where it is two arrays, and backward, where it is four or five, and of the blocks that a thread
#: works on at a time.
_FORWARD, _BACKWARD, _PIECE = 1 << 17, 1 << 16, 1 << 18


class _Blocks:
    """How rows are divided: into pieces for threads, and these into blocks for a cache."""

    def __init__(self, rows: Rows, block: int) -> None:
        self.rows = rows
        n = max(rows.n, 1)
        self.size = min(max(block // n, 1), rows.rows)
        self.blocks_of_piece = max(_PIECE // (max(self.size, 1) * n), 1)
        #: Elements next to each other that share a factor, of a row or of a channel.
        self.inner = rows.n if rows.plain else rows.inner
        self.pieces = -(-rows.rows // (self.size * self.blocks_of_piece)) if rows.rows else 0

    def run(self, work: Callable[[int, slice, Array], None], dtype: Any, scratch: int) -> None:
        """``work(piece, rows, arrays)`` for each block, with ``scratch`` arrays of its shape to write."""
        size, blocks_of_piece = self.size, self.blocks_of_piece

        def run(piece: int) -> None:
            arrays = np.empty((scratch, size, self.rows.n), dtype)
            first = piece * blocks_of_piece * size
            with np.errstate(all="ignore"):
                use_rows_in_place(self.inner)
                for start in range(first, min(first + blocks_of_piece * size, self.rows.rows), size):
                    block = slice(start, min(start + size, self.rows.rows))
                    work(piece, block, arrays[:, : block.stop - start])

        share(run, self.pieces)


class _Channels:
    """A weight or a bias, as the rows of a block need it."""

    def __init__(self, vector: Array, rows: Rows) -> None:
        self.groups = rows.groups
        self.vector = vector.reshape(rows.groups, rows.channels, 1)

    def of(self, block: slice) -> Array:
        """``(rows or 1, channels, 1)``."""
        return (
            self.vector if self.groups == 1 else self.vector[np.arange(block.start, block.stop) % self.groups]
        )


def forward(
    array: Array, weight: Array | None, bias: Array | None, eps: float, rows: Rows, out: Array
) -> tuple[Array | None, Array]:
    """Write the normalised rows of ``array`` to ``out``; means, where they are taken away, and scales are the result."""
    n, dtype = max(rows.n, 1), array.dtype
    # Products with ones are sums that BLAS makes.
    ones = np.ones(rows.n, dtype)
    means = np.empty(rows.rows, dtype) if rows.center else None
    scales = np.empty(rows.rows, dtype)
    if rows.plain and loops.forward(array, weight, bias, eps, out, means, scales):
        return means, scales
    factor = None if weight is None else _Channels(weight, rows)
    addend = None if bias is None else _Channels(bias, rows)

    def work(_: int, block: slice, __: Array) -> None:
        x, into, scale = array[block], out[block], scales[block]
        if means is not None:
            mean = np.matmul(x, ones, out=means[block])
            mean /= n
            x = np.subtract(x, mean[:, None], out=into)
        np.vecdot(x, x, out=scale)
        scale /= n
        scale += dtype.type(eps)
        np.sqrt(scale, out=scale)
        np.reciprocal(scale, out=scale)
        np.multiply(x, scale[:, None], out=into)
        channels = into.reshape(len(into), rows.channels, rows.inner)
        if factor is not None:
            channels *= factor.of(block)
        if addend is not None:
            channels += addend.of(block)

    _Blocks(rows, _FORWARD).run(work, dtype, 0)
    return means, scales


def gradients(
    grad: Array,
    array: Array,
    weight: Array | None,
    means: Array | None,
    scales: Array,
    rows: Rows,
    out: Array | None,
    sums: bool,
) -> tuple[Array, Array] | None:
    """Write the gradient of ``array`` to ``out``, if there is one.

    With ``sums`` the gradients of weight and bias are the result, of shape ``(groups * channels,)``.
    """
    if rows.plain:
        result = loops.backward(grad, array, weight, means, scales, out, sums)
        if not isinstance(result, bool):
            return result
        if result:
            return None
    n, dtype = max(rows.n, 1), array.dtype
    ones = np.ones(rows.n, dtype)
    factor = None if weight is None else _Channels(weight, rows)
    blocks = _Blocks(rows, _BACKWARD)
    of_channels = _ChannelSums(rows, blocks, dtype) if sums else None

    def work(piece: int, block: slice, scratch: Array) -> None:
        centred, scale, g = scratch[0], scales[block], grad[block]
        if means is None:
            centred = array[block]
        else:
            np.subtract(array[block], means[block, None], out=centred)
        if of_channels is not None:
            of_channels.add(0, piece, block, np.multiply(g, centred, out=scratch[1]), scale)
            of_channels.add(1, piece, block, g)
        if out is None:
            return
        into = out[block]
        if factor is not None:
            shape = len(g), rows.channels, rows.inner
            np.multiply(g.reshape(shape), factor.of(block), out=into.reshape(shape))
            g = into
        # Of the gradient of the normalised rows, what goes along these is taken away, and the mean. Factors one after the other, as
        # the cube of the scale may be too small for a number, or too large.
        along = np.vecdot(g, centred)
        along *= scale
        along *= scale
        along *= scale
        along /= n
        centred = np.multiply(centred, along[:, None], out=scratch[0])
        if rows.center:
            mean = np.matmul(g, ones)
            mean *= scale
            mean /= n
            centred += mean[:, None]
        np.multiply(g, scale[:, None], out=into)
        into -= centred

    blocks.run(work, dtype, 1 + sums)
    return None if of_channels is None else (of_channels.total(0), of_channels.total(1))


class _ChannelSums:
    """Sums of two arrays for each channel of all groups."""

    def __init__(self, rows: Rows, blocks: _Blocks, dtype: Any) -> None:
        self.rows = rows
        if rows.plain:
            # One sum for each piece, and of one block after the other.
            self.parts = np.zeros((2, blocks.pieces, rows.n), dtype)
            self.ones = np.ones(blocks.size, dtype)
        else:
            self.parts = np.empty((2, rows.rows, rows.channels), dtype)
            self.ones = np.ones(rows.inner, dtype)

    def add(self, number: int, piece: int, block: slice, values: Array, factors: Array | None = None) -> None:
        """Add the rows of a block, each of them times a factor."""
        if self.rows.plain:
            self.parts[number, piece] += np.matmul(
                self.ones[: len(values)] if factors is None else factors, values
            )
        else:
            channels = values.reshape(len(values), self.rows.channels, self.rows.inner)
            sums = np.matmul(channels, self.ones, out=self.parts[number, block])
            if factors is not None:
                sums *= factors[:, None]

    def total(self, number: int) -> Array:
        parts, groups = self.parts[number], self.rows.groups
        shape = len(parts) // groups, groups * self.rows.channels
        result: Array = parts.reshape(shape).sum(0, dtype=parts.dtype)
        return result
