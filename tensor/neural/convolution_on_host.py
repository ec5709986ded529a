"""Convolutions with NumPy: products of BLAS over windows that are copied to columns a cache's worth at a time.

Arrays have three spatial dimensions and the type that is computed in. Columns are made for a block of positions of
an item, or for some items where these are small; each block is multiplied while it is in the cache. Blocks of items
are shared among threads. Where every channel has filters of its own there is no product to speak of: each tap of
the windows is then multiplied and added for all positions at once.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels.convolution import Windows

from ..host_threads import share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from .convolution import Geometry

    Array = NDArray[Any]

#: Bytes of columns at a time, about a cache.
_COLUMNS = 1 << 21
#: Positions of a block at least, for products to be worth their packing, as long as they fit into the workspace.
_POSITIONS = 256
_WORKSPACE = 64 << 20
#: Positions of an item below which the product is one of several items.
_FEW = 64
#: Bytes of planes at a time where channels are on their own.
_PLANES = 1 << 18
#: Partial sums of the weight's gradient: how many, and bytes that they take together.
_PARTIAL, _PARTIAL_BYTES = 4, 16 << 20


class _Block(NamedTuple):
    """Some positions of an item: a box of them that is one range, row by row."""

    first: int
    count: int
    start: tuple[int, int, int]
    shape: tuple[int, int, int]


def _blocks(windows: Windows, room: int) -> Iterator[_Block]:
    """The positions, at most ``room`` at a time."""
    depth, height, width = windows.out
    if room >= height * width:
        box = (min(room // (height * width), depth), height, width)
    elif room >= width:
        box = (1, room // width, width)
    else:
        box = (1, 1, max(room, 1))
    for z in range(0, depth, box[0]):
        for y in range(0, height, box[1]):
            for x in range(0, width, box[2]):
                start = (z, y, x)
                shape = tuple(min(size, n - at) for size, n, at in zip(box, windows.out, start, strict=True))
                yield _Block((z * height + y) * width + x, prod(shape), start, shape)  # type: ignore[arg-type]


class _Cut:
    """How the work is cut: items at a time, and positions of an item at a time."""

    def __init__(self, geometry: Geometry, itemsize: int) -> None:
        windows = geometry.windows
        row = geometry.channels * windows.taps * itemsize
        room = min(max(_COLUMNS // row, _POSITIONS), max(_WORKSPACE // row, 1))
        self.items = max(min(room // windows.positions, geometry.items), 1)
        self.room = room
        self.pieces = -(-geometry.items // self.items)
        self.blocks = list(_blocks(windows, room))


def _padded(x: Array, windows: Windows) -> Array:
    """Items with zeros around them."""
    if not any(windows.padding):
        return x
    size = [n + 2 * p for n, p in zip(windows.size, windows.padding, strict=True)]
    made = np.zeros((*x.shape[:2], *size), x.dtype)
    made[(..., *_inner(windows))] = x
    return made


def _inner(windows: Windows) -> tuple[slice, ...]:
    """The image in the padded one."""
    return tuple(slice(p, p + n) for p, n in zip(windows.padding, windows.size, strict=True))


def _taps(windows: Windows, block: _Block) -> Iterator[tuple[Any, ...]]:
    """For each tap of a window: what the windows of ``block`` see with it of a padded image."""
    for index in np.ndindex(*windows.kernel):
        yield (
            ...,
            *(
                slice(k * d + at * step, k * d + (at + n - 1) * step + 1, step)
                for k, d, at, n, step in zip(
                    index, windows.dilation, block.start, block.shape, windows.stride, strict=True
                )
            ),
        )


def _unfold(columns: Array, padded: Array, windows: Windows, block: _Block) -> None:
    """Windows of a block; ``columns`` is ``(items, channels, taps, *block.shape)``, of any strides."""
    for number, seen in enumerate(_taps(windows, block)):
        columns[:, :, number] = padded[seen]


def _columns(padded: Array, windows: Windows, block: _Block) -> Array:
    """Windows of a block with items next to positions: ``(channels, taps, items * positions)``."""
    items, channels = padded.shape[:2]
    made = np.empty((channels, windows.taps, items, *block.shape), padded.dtype)
    _unfold(made.transpose(2, 0, 1, 3, 4, 5), padded, windows, block)
    return made.reshape(channels, windows.taps, -1)


def _forward_plain(x: Array, weight: Array, geometry: Geometry, out: Array) -> None:
    """Windows of single elements: the image is the matrix."""
    groups, positions = geometry.groups, geometry.windows.positions
    matrix = weight.reshape(groups, geometry.filters // groups, -1)
    np.matmul(
        matrix,
        x.reshape(geometry.items, groups, -1, positions),
        out=out.reshape(geometry.items, groups, -1, positions),
    )


def forward(x: Array, weight: Array, geometry: Geometry, out: Array) -> None:
    """Write the convolution to ``out``."""
    windows, groups = geometry.windows, geometry.groups
    positions = windows.positions
    if geometry.depthwise:
        _depthwise_forward(x, weight, geometry, out)
        return
    if geometry.plain and positions >= _FEW:
        _forward_plain(x, weight, geometry, out)
        return
    cut = _Cut(geometry, x.itemsize)
    matrix = weight.reshape(groups, geometry.filters // groups, -1)
    flat = out.reshape(geometry.items, groups, matrix.shape[1], positions)

    def work(piece: int) -> None:
        item = piece * cut.items
        part = x[item : item + cut.items]
        items = len(part)
        padded = _padded(part, windows)
        target = flat[item : item + items]
        if positions < _FEW:
            columns = _columns(padded, windows, cut.blocks[0])
            found = np.matmul(matrix, columns.reshape(groups, matrix.shape[2], -1))
            target[...] = found.reshape(groups, -1, items, positions).transpose(2, 0, 1, 3)
            return
        for block in cut.blocks:
            columns = np.empty((items, geometry.channels, windows.taps, *block.shape), x.dtype)
            _unfold(columns, padded, windows, block)
            into = target[..., block.first : block.first + block.count]
            np.matmul(matrix, columns.reshape(items, groups, matrix.shape[2], -1), out=into)

    share(work, cut.pieces)


def _reversed(geometry: Geometry) -> Geometry | None:
    """The convolution of the result's gradient that gives the input's; ``None`` where there is no such."""
    windows = geometry.windows
    reach = [d * (k - 1) for d, k in zip(windows.dilation, windows.kernel, strict=True)]
    padding = tuple(r - p for r, p in zip(reach, windows.padding, strict=True))
    if windows.stride != (1, 1, 1) or min(padding) < 0:
        return None
    turned = Windows(windows.out, windows.kernel, windows.stride, padding, windows.dilation)  # type: ignore[arg-type]
    return geometry._replace(windows=turned, channels=geometry.filters, filters=geometry.channels)


def input_gradient(grad: Array, weight: Array, geometry: Geometry, out: Array) -> None:
    """Write the gradient of the input to ``out``."""
    groups, windows = geometry.groups, geometry.windows
    turned = _reversed(geometry)
    filters, width = geometry.filters // groups, geometry.channels // groups
    # Copies of the gradient's windows cost as much as there are filters, sums of the image's as there are channels.
    alone = geometry.depthwise and filters == 1
    if turned is not None and (geometry.plain or alone or (width > 1 and filters <= 2 * width)):
        matrix = weight.reshape(groups, filters, width, -1)[..., ::-1].transpose(0, 2, 1, 3)
        matrix = np.ascontiguousarray(matrix).reshape(geometry.channels, filters, *windows.kernel)
        forward(grad, matrix, turned, out)
        return
    if geometry.depthwise:
        _depthwise_input(grad, weight, geometry, out)
        return
    cut = _Cut(geometry, grad.itemsize)
    matrix = weight.reshape(groups, filters, -1).swapaxes(1, 2)
    flat = grad.reshape(geometry.items, groups, filters, -1)
    size = [n + 2 * p for n, p in zip(windows.size, windows.padding, strict=True)]

    def work(piece: int) -> None:
        item = piece * cut.items
        target = out[item : item + cut.items]
        items = len(target)
        padded = np.zeros((items, geometry.channels, *size), grad.dtype)
        for block in cut.blocks:
            given = flat[item : item + items, ..., block.first : block.first + block.count]
            columns = np.matmul(matrix, given)
            columns = columns.reshape(items, geometry.channels, windows.taps, *block.shape)
            for number, seen in enumerate(_taps(windows, block)):
                padded[seen] += columns[:, :, number]
        target[...] = padded[(..., *_inner(windows))]

    share(work, cut.pieces)


def weight_gradient(x: Array, grad: Array, geometry: Geometry, out: Array) -> None:
    """Write the gradient of the weight to ``out``."""
    windows, groups = geometry.windows, geometry.groups
    if geometry.depthwise:
        _depthwise_weight(x, grad, geometry, out)
        return
    cut = _Cut(geometry, x.itemsize)
    rows = geometry.channels // groups * windows.taps
    flat = grad.reshape(geometry.items, geometry.filters, -1)
    # Always as many sums, whatever there are of threads.
    parts = max(min(_PARTIAL, _PARTIAL_BYTES // out.nbytes, cut.pieces), 1)
    sums = np.zeros((parts, groups, geometry.filters // groups, rows), out.dtype)

    def add(total: Array, piece: int) -> None:
        item = piece * cut.items
        part = x[item : item + cut.items]
        items = len(part)
        padded = _padded(part, windows)
        for block in cut.blocks:
            if geometry.plain and items == 1:
                columns = part.reshape(geometry.channels, -1)[:, block.first : block.first + block.count]
            else:
                columns = _columns(padded, windows, block)
            given = flat[item : item + items, :, block.first : block.first + block.count]
            # All items in one product, which adds them up.
            given = given.swapaxes(0, 1).reshape(groups, -1, items * block.count)
            total += np.matmul(given, columns.reshape(groups, rows, -1).swapaxes(1, 2))

    def work(part: int) -> None:
        for piece in range(part * cut.pieces // parts, (part + 1) * cut.pieces // parts):
            add(sums[part], piece)

    share(work, parts)
    np.sum(sums, axis=0, out=out.reshape(sums.shape[1:]))


# Channels on their own


def _by_planes(geometry: Geometry, itemsize: int, work: Callable[[int, slice], None]) -> None:
    """``work(item, channels)`` for neighbouring planes as large as a cache together."""
    area = prod(geometry.windows.size) * itemsize
    several = max(min(_PLANES // max(area, 1), geometry.channels), 1)
    ranges = [slice(at, min(at + several, geometry.channels)) for at in range(0, geometry.channels, several)]

    def item(number: int) -> None:
        for channels in ranges:
            work(number, channels)

    share(item, geometry.items)


def _depthwise_forward(x: Array, weight: Array, geometry: Geometry, out: Array) -> None:
    windows = geometry.windows
    taps = weight.reshape(geometry.channels, -1, windows.taps)
    several = taps.shape[1]
    results = out.reshape(geometry.items, geometry.channels, several, *windows.out)
    (block,) = _blocks(windows, windows.positions)
    seen = list(_taps(windows, block))

    def work(item: int, channels: slice) -> None:
        padded = _padded(x[item : item + 1, channels], windows)[0]
        target = results[item, channels]
        product = np.empty((target.shape[0], *windows.out), out.dtype)
        for filter in range(several):
            into = target[:, filter]
            for number, part in enumerate(seen):
                factor = taps[channels, filter, number, None, None, None]
                if number:
                    into += np.multiply(padded[part], factor, out=product)
                else:
                    np.multiply(padded[part], factor, out=into)

    _by_planes(geometry, x.itemsize, work)


def _depthwise_input(grad: Array, weight: Array, geometry: Geometry, out: Array) -> None:
    windows = geometry.windows
    taps = weight.reshape(geometry.channels, -1, windows.taps)
    several = taps.shape[1]
    grads = grad.reshape(geometry.items, geometry.channels, several, *windows.out)
    (block,) = _blocks(windows, windows.positions)
    seen = list(_taps(windows, block))
    size = [n + 2 * p for n, p in zip(windows.size, windows.padding, strict=True)]

    def work(item: int, channels: slice) -> None:
        given = grads[item, channels]
        padded = np.zeros((len(given), *size), out.dtype)
        product = np.empty((len(given), *windows.out), out.dtype)
        for filter in range(several):
            for number, part in enumerate(seen):
                factor = taps[channels, filter, number, None, None, None]
                padded[part] += np.multiply(given[:, filter], factor, out=product)
        out[item, channels] = padded[(..., *_inner(windows))]

    _by_planes(geometry, grad.itemsize, work)


def _depthwise_weight(x: Array, grad: Array, geometry: Geometry, out: Array) -> None:
    windows = geometry.windows
    several = geometry.filters // geometry.channels
    grads = grad.reshape(geometry.items, geometry.channels, several, -1)
    (block,) = _blocks(windows, windows.positions)
    seen = list(_taps(windows, block))
    sums = np.empty((geometry.items, geometry.channels, several, windows.taps), out.dtype)

    def work(item: int, channels: slice) -> None:
        padded = _padded(x[item : item + 1, channels], windows)[0]
        columns = np.empty((len(padded), windows.taps, *windows.out), out.dtype)
        for number, part in enumerate(seen):
            columns[:, number] = padded[part]
        columns = columns.reshape(len(padded), windows.taps, -1)
        np.matmul(grads[item, channels], columns.swapaxes(1, 2), out=sums[item, channels])

    _by_planes(geometry, x.itemsize, work)
    np.sum(sums, axis=0, out=out.reshape(sums.shape[1:]))
