"""Convolutions of windows of 3 x 3 on the CPU by Winograd's F(2 x 2, 3 x 3): 16 multiplications in place of 36.

Of an image, tiles of 4 x 4 elements that overlap by 2 are transformed, and the weight to 4 x 4 elements; their products, summed over
the channels by BLAS, are transformed to tiles of 2 x 2 of the result (S. Winograd; A. Lavin and S. Gray, "Fast algorithms for
convolutional neural networks", 2015). The transforms add and halve, so rounding errors are about those of the plain sum. An
infinite element makes NaN of the results that depend on it.

Work is done for some tiles at a time, in a cache, with channels next to each other: all steps of a transform are then long runs.
Gradients of the input are convolutions with the turned weight; those of the weight are products of transformed tiles, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.host.blas import product_for
from nvrtc_kernels.host_loops import winograd as loops
from nvrtc_kernels.host_loops.transposition import copy_transposed
from tensor.core.host.memory import empty_array

from .product_threads import share_products

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from nvrtc_kernels.convolution import Geometry, Windows

    Array = NDArray[Any]
    Run = Callable[[Array, Array, Array], None]

#: Channels, of image and result, from which on products are worth the transforms, and tiles of the whole.
_CHANNELS, _LEAST = 24, 64
#: Bytes of transformed tiles of the image and of the result at a time, and tiles at least, for products to be worth their packing.
_TILE_BYTES, _TILES = 3 << 20, 128
#: Sums of the weight's gradient that there are at once: how many, and bytes that they take together.
_PARTIAL, _PARTIAL_BYTES = 4, 32 << 20


def fits(geometry: Geometry, dtype: Any) -> bool:
    """Whether the convolution is one that is better done so."""
    windows = geometry.windows
    tiles = geometry.items * -(-windows.out[1] // 2) * -(-windows.out[2] // 2)
    return (
        dtype == np.float32
        and geometry.groups == 1
        and windows.kernel == (1, 3, 3)
        and windows.stride == windows.dilation == (1, 1, 1)
        and windows.size[0] == windows.out[0] == 1
        and min(geometry.channels, geometry.filters) >= _CHANNELS
        and tiles >= _LEAST
    )


class _Chunk(NamedTuple):
    """Rows of tiles of some items."""

    items: slice
    rows: slice

    @property
    def number(self) -> int:
        """How many items there are."""
        result: int = self.items.stop - self.items.start
        return result

    @property
    def height(self) -> int:
        """How many rows of tiles there are."""
        result: int = self.rows.stop - self.rows.start
        return result


class _Tiles:
    """How tiles are cut into chunks, of an image with ``channels`` of which windows see ``filters`` results."""

    def __init__(self, geometry: Geometry, least: int = _TILES) -> None:
        self.windows: Windows = geometry.windows
        self.channels, self.filters = geometry.channels, geometry.filters
        _, height, width = self.windows.out
        self.high, self.across = -(-height // 2), -(-width // 2)
        size = 64 * (self.channels + self.filters)
        room = max(_TILE_BYTES // size, least)
        self.items = max(min(room // (self.high * self.across), geometry.items), 1)
        self.rows = self.high if self.items > 1 else max(min(room // self.across, self.high), 1)
        #: Tiles of a chunk at most.
        self.count = self.items * self.rows * self.across
        #: What multiplies the matrices of a chunk.
        self.product = product_for(self.count * self.channels * self.filters)
        self.chunks = [
            _Chunk(
                slice(item, min(item + self.items, geometry.items)),
                slice(row, min(row + self.rows, self.high)),
            )
            for item in range(0, geometry.items, self.items)
            for row in range(0, self.high, self.rows)
        ]

    def chunks_of(self, part: int, parts: int) -> Iterator[_Chunk]:
        """Those of one of several parts of the work."""
        count = len(self.chunks)
        yield from self.chunks[part * count // parts : (part + 1) * count // parts]

    def of(self, array: Array, chunk: _Chunk) -> Array:
        """``(16, tiles, n)`` as ``(4, 4, items, rows, across, n)``."""
        return array.reshape(4, 4, chunk.number, chunk.height, self.across, -1)


class _Image:
    """Tiles of an image, transformed.

    Parameters
    ----------
    tiles : _Tiles
        The cut.
    """

    def __init__(self, tiles: _Tiles) -> None:
        self.tiles = tiles
        columns = 2 * tiles.across + 2
        self.padded = empty_array((tiles.items, 2 * tiles.rows + 2, columns, tiles.channels), np.float32)
        self.room = empty_array((16, tiles.count, tiles.channels), np.float32)
        #: Rows of the memory that an image was copied to: those around it are 0.
        self.filled: slice | None = None

    def of(self, x: Array, chunk: _Chunk) -> Array:
        """``(16, tiles, channels)`` of the image ``(items, channels, height, width)``."""
        tiles, windows = self.tiles, self.tiles.windows
        (_, top, left), (_, height, width) = windows.padding, windows.size
        # Row 0 of the memory is this row of the image.
        first = 2 * chunk.rows.start - top
        above, rows = max(-first, 0), 2 * chunk.height + 2
        below = max(min(rows, height - first), above)
        columns = min(width, self.padded.shape[2] - left)
        if self.filled != slice(above, below):
            self.padded[...] = 0
            self.filled = slice(above, below)
        padded = self.padded[: chunk.number, :rows]
        seen = x[chunk.items, :, first + above : first + below, :columns]
        copy_transposed(seen.swapaxes(1, 2), padded[:, above:below, left : left + columns])
        count = chunk.number * chunk.height * tiles.across
        result = self.room[:, :count]
        loops.transform_image(padded, tiles.of(result, chunk))
        return result


class _Result:
    """Tiles of a result ``(items, filters, height, width)``, or of its gradient."""

    def __init__(self, tiles: _Tiles) -> None:
        self.tiles = tiles
        self.plain = empty_array((tiles.items, 2 * tiles.rows, 2 * tiles.across, tiles.filters), np.float32)
        self.room = empty_array((16, tiles.count, tiles.filters), np.float32)

    def memory(self, chunk: _Chunk) -> Array:
        """``(16, tiles, filters)``, to be written."""
        return self.room[:, : chunk.number * chunk.height * self.tiles.across]

    def write(self, products: Array, out: Array, chunk: _Chunk) -> None:
        """Transform products in :meth:`memory`, and write the chunk's part of ``out``."""
        plain = self.plain[: chunk.number, : 2 * chunk.height]
        loops.transform_products(self.tiles.of(products, chunk), plain)
        rows = slice(2 * chunk.rows.start, min(2 * chunk.rows.stop, out.shape[2]))
        seen = plain[:, : rows.stop - rows.start, : out.shape[3]]
        copy_transposed(seen, out[chunk.items, :, rows].swapaxes(1, 2))

    def of_gradient(self, grad: Array, chunk: _Chunk) -> Array:
        """``(16, tiles, filters)`` of the gradient of the result."""
        rows = slice(2 * chunk.rows.start, min(2 * chunk.rows.stop, grad.shape[2]))
        plain = self.plain[: chunk.number, : 2 * chunk.height]
        # What is beyond the result.
        plain[:, rows.stop - rows.start :] = 0
        plain[:, :, grad.shape[3] :] = 0
        seen = plain[:, : rows.stop - rows.start, : grad.shape[3]]
        copy_transposed(grad[chunk.items, :, rows].swapaxes(1, 2), seen)
        result = self.memory(chunk)
        loops.transform_gradient(plain, self.tiles.of(result, chunk))
        return result


def _convolution(geometry: Geometry) -> Run:
    """``run(x, weight, out)`` with a transformed weight ``(16, channels, filters)``, and without the dimension of depth."""
    tiles = _Tiles(geometry)
    parts = min(len(tiles.chunks), _PARTIAL)

    def run(x: Array, weight: Array, out: Array) -> None:
        def work(part: int) -> None:
            image, result = _Image(tiles), _Result(tiles)
            for chunk in tiles.chunks_of(part, parts):
                products = tiles.product(image.of(x, chunk), weight, out=result.memory(chunk))
                result.write(products, out, chunk)

        share_products(work, parts)

    return run


def _transformed(weight: Array) -> Array:
    """A weight ``(filters, channels, 3, 3)`` as ``(16, filters, channels)``."""
    result = loops.transform_weight(weight.transpose(2, 3, 0, 1))
    return result.reshape(16, *result.shape[2:])


def forward(geometry: Geometry) -> Run:
    """``run(x, weight, out)`` writes the convolution to ``out``."""
    convolve = _convolution(geometry)

    def run(x: Array, weight: Array, out: Array) -> None:
        convolve(x[:, :, 0], _transformed(weight[:, :, 0]).swapaxes(1, 2), out[:, :, 0])

    return run


def input_gradient(turned: Geometry) -> Run:
    """``run(grad, weight, out)``, where ``turned`` is the convolution of the gradient."""
    convolve = _convolution(turned)

    def run(grad: Array, weight: Array, out: Array) -> None:
        convolve(grad[:, :, 0], _transformed(weight[:, :, 0, ::-1, ::-1]), out[:, :, 0])

    return run


def weight_gradient(geometry: Geometry) -> Run:
    """``run(x, grad, out)`` writes the gradient of the weight to ``out``."""
    channels, filters = geometry.channels, geometry.filters
    tiles = _Tiles(geometry, 2 * _TILES)
    # Always as many sums, whatever there are of threads.
    parts = max(min(_PARTIAL, _PARTIAL_BYTES // (64 * channels * filters), len(tiles.chunks)), 1)

    def run(x: Array, grad: Array, out: Array) -> None:
        sums: list[Any] = [None] * parts
        images, grads = x[:, :, 0], grad[:, :, 0]

        def work(part: int) -> None:
            image, result = _Image(tiles), _Result(tiles)
            for chunk in tiles.chunks_of(part, parts):
                tiled = result.of_gradient(grads, chunk).swapaxes(1, 2)
                products = tiles.product(tiled, image.of(images, chunk))
                if sums[part] is None:
                    sums[part] = products
                else:
                    sums[part] += products

        share_products(work, parts)
        total = sums[0]
        for each in sums[1:]:
            total += each
        loops.transform_weight_gradient(
            total.reshape(4, 4, filters, channels), out[:, :, 0].transpose(2, 3, 0, 1)
        )

    return run
