"""Convolutions with NumPy: products of BLAS over windows that are copied to columns a cache's worth at a time.

Arrays have three spatial dimensions and the type that is computed in. Columns are made for a block of positions of
an item, or for some items where these are small; each block is multiplied while it is in the cache. Blocks of items
are shared among threads, unless BLAS has threads of its own. Where every channel has filters of its own, blocks are
some channels of an item.
"""

from __future__ import annotations

import os
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels.convolution import Windows
from tensor.core.host.threads import share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
_PLANES = 1 << 20
#: Pieces of work that threads share, each with memory of its own.
_TASKS = 8
#: Partial sums of the weight's gradient: how many, and bytes that they take together.
_PARTIAL, _PARTIAL_BYTES = 4, 16 << 20


class _Block(NamedTuple):
    """Some positions of an item: a box of them that is one range, row by row."""

    first: int
    positions: int
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
        rows = geometry.channels * windows.taps
        room = min(max(_COLUMNS // (rows * itemsize), _POSITIONS), max(_WORKSPACE // (rows * itemsize), 1))
        self.count = geometry.items
        self.items = max(min(room // windows.positions, geometry.items), 1)
        self.pieces = -(-geometry.items // self.items)
        self.blocks = [(block, _taps(windows, block)) for block in _blocks(windows, room)]
        #: Elements of columns.
        self.size = rows * self.items * min(windows.positions, room)

    def share(self, work: Callable[[slice, Array], None], dtype: Any) -> None:
        """``work(items, memory for columns)`` for all items."""
        tasks = min(self.pieces, _TASKS)

        def run(task: int) -> None:
            room = np.empty(self.size, dtype)
            for piece in range(task * self.pieces // tasks, (task + 1) * self.pieces // tasks):
                work(self.part(piece), room)

        _share_products(run, tasks)

    def part(self, piece: int) -> slice:
        """The items of a piece."""
        return slice(piece * self.items, min((piece + 1) * self.items, self.count))


def _share_products(work: Callable[[int], None], pieces: int) -> None:
    """:func:`share` where BLAS has one thread: threads of both kinds would wait for each other."""
    if os.environ.get("OPENBLAS_NUM_THREADS") == "1":
        share(work, pieces)
        return
    for piece in range(pieces):
        work(piece)


def _stepping(first: int, step: int, size: int, count: int) -> tuple[slice, slice]:
    """Elements ``first + step * i`` for ``i`` below ``count``, of those that there are: they, and their ``i``."""
    begin = max(-(first // step), 0)
    end = max(min(-((first - size) // step), count), begin)
    return slice(first + step * begin, max(first + step * end, 0), step), slice(begin, end)


def _phases(windows: Windows) -> list[int]:
    """Remainders by the stride of the rows that windows see."""
    return sorted({j * windows.dilation[1] % windows.stride[1] for j in range(windows.kernel[1])})


def _shifted_shape(windows: Windows) -> tuple[int, ...]:
    """Of a plane of :func:`_shifted`: depth, remainder of the row by the stride, rows, what is seen of each."""
    depth, height = (n + 2 * p for n, p in zip(windows.size[:2], windows.padding[:2], strict=True))
    step = windows.stride[1]
    return depth, len(_phases(windows)), -(-height // step), windows.out[2]


def _shifts(windows: Windows) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Parts of the image, and where they are in :func:`_shifted`."""
    depth, padding = windows.size[0], windows.padding
    height, width = _shifted_shape(windows)[2:]
    for number in range(windows.kernel[2]):
        first = number * windows.dilation[2] - padding[2]
        row, columns = _stepping(first, windows.stride[2], windows.size[2], width)
        for at, phase in enumerate(_phases(windows)):
            rows, into = _stepping(phase - padding[1], windows.stride[1], windows.size[1], height)
            deep = slice(padding[0], padding[0] + depth)
            yield (..., rows, row), (number, ..., deep, at, into, columns)


def _shifted(x: Array, windows: Windows) -> Array:
    """Padded items ``(kernel, items, channels, depth, ...)`` whose rows hold what all windows see with one tap of a row.

    Short rows are so copied once for each of those taps. What the other taps see of them are long runs, as rows
    that are a stride from each other are neighbours.
    """
    padded = any(windows.padding)
    if windows.kernel[2] == windows.stride[1] == windows.stride[2] == 1 and not padded:
        return x[None, :, :, :, None]
    shape = (windows.kernel[2], *x.shape[:2], *_shifted_shape(windows))
    made = np.zeros(shape, x.dtype) if padded else np.empty(shape, x.dtype)
    for seen, into in _shifts(windows):
        made[into] = x[seen]
    return made


def _sum_of_shifted(shifted: Array, windows: Windows, out: Array) -> None:
    """The reverse: each element of the image is the sum of where it went."""
    out[...] = 0
    for seen, into in _shifts(windows):
        out[seen] += shifted[into]


def _taps(windows: Windows, block: _Block) -> list[tuple[Any, ...]]:
    """For each tap of a window: what the windows of ``block`` see with it of shifted images."""
    (z, y, x), (depth, height, width) = block.start, block.shape
    row = slice(x, x + width)
    (deep, high, wide), phases = windows.kernel, _phases(windows)
    found: list[tuple[Any, ...]] = []
    for k in range(deep):
        first = k * windows.dilation[0] + z * windows.stride[0]
        planes = slice(first, first + (depth - 1) * windows.stride[0] + 1, windows.stride[0])
        for j in range(high):
            start, phase = divmod(j * windows.dilation[1], windows.stride[1])
            rows = slice(start + y, start + y + height)
            at = phases.index(phase)
            found += [(i, ..., planes, at, rows, row) for i in range(wide)]
    return found


def _columns(shifted: Array, block: _Block, taps: Sequence[Any], room: Array) -> Array:
    """Windows of a block, ``(items, channels, taps, *block.shape)``."""
    _, items, channels = shifted.shape[:3]
    made = room[: items * channels * len(taps) * block.positions]
    made = made.reshape(items, channels, len(taps), *block.shape)
    for number, seen in enumerate(taps):
        made[:, :, number] = shifted[seen]
    return made


def _joint_columns(shifted: Array, block: _Block, taps: Sequence[Any], room: Array) -> Array:
    """The same with items next to positions: ``(channels, taps, items * positions)``."""
    _, items, channels = shifted.shape[:3]
    made = room[: items * channels * len(taps) * block.positions]
    made = made.reshape(channels, len(taps), items, *block.shape)
    for number, seen in enumerate(taps):
        made[:, number] = shifted[seen].swapaxes(0, 1)
    return made.reshape(channels, len(taps), -1)


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
    rows = matrix.shape[2]
    flat = out.reshape(geometry.items, groups, -1, positions)

    def work(part: slice, room: Array) -> None:
        shifted, target = _shifted(x[part], windows), flat[part]
        items = len(target)
        if positions < _FEW:
            columns = _joint_columns(shifted, *cut.blocks[0], room)
            found = np.matmul(matrix, columns.reshape(groups, rows, -1))
            target[...] = found.reshape(groups, -1, items, positions).transpose(2, 0, 1, 3)
            return
        for block, taps in cut.blocks:
            columns = _columns(shifted, block, taps, room).reshape(items, groups, rows, -1)
            np.matmul(matrix, columns, out=target[..., block.first : block.first + block.positions])

    cut.share(work, x.dtype)


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
    plane = _shifted_shape(windows)

    def work(part: slice, room: Array) -> None:
        given, target = flat[part], out[part]
        items = len(given)
        shifted = np.zeros((windows.kernel[2], items, geometry.channels, *plane), out.dtype)
        for block, taps in cut.blocks:
            columns = room[: items * geometry.channels * windows.taps * block.positions]
            columns = columns.reshape(items, groups, -1, block.positions)
            np.matmul(matrix, given[..., block.first : block.first + block.positions], out=columns)
            columns = columns.reshape(items, geometry.channels, windows.taps, *block.shape)
            for number, seen in enumerate(taps):
                shifted[seen] += columns[:, :, number]
        _sum_of_shifted(shifted, windows, target)

    cut.share(work, out.dtype)


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

    def add(total: Array, part: slice, room: Array) -> None:
        images, grads = x[part], flat[part]
        items = len(images)
        alone = geometry.plain and items == 1
        shifted = None if alone else _shifted(images, windows)
        for block, taps in cut.blocks:
            seen = slice(block.first, block.first + block.positions)
            if shifted is None:
                columns = images.reshape(geometry.channels, -1)[:, seen]
            else:
                columns = _joint_columns(shifted, block, taps, room)
            # All items in one product, which adds them up.
            given = grads[..., seen].swapaxes(0, 1).reshape(groups, -1, items * block.positions)
            total += np.matmul(given, columns.reshape(groups, rows, -1).swapaxes(1, 2))

    def work(number: int) -> None:
        room = np.empty(cut.size, x.dtype)
        for piece in range(number * cut.pieces // parts, (number + 1) * cut.pieces // parts):
            add(sums[number], cut.part(piece), room)

    _share_products(work, parts)
    np.sum(sums, axis=0, out=out.reshape(sums.shape[1:]))


# Channels on their own


def _by_planes(geometry: Geometry, dtype: Any, work: Callable[[int, slice, Array], None]) -> None:
    """``work(item, channels, memory for columns)`` for neighbouring planes as large as a cache together."""
    windows = geometry.windows
    each = windows.taps * windows.positions
    several = max(min(_PLANES // max(each * dtype.itemsize, 1), geometry.channels), 1)
    ranges = [slice(at, min(at + several, geometry.channels)) for at in range(0, geometry.channels, several)]
    tasks = min(geometry.items, _TASKS)

    def run(task: int) -> None:
        room = np.empty(several * each, dtype)
        for item in range(task * geometry.items // tasks, (task + 1) * geometry.items // tasks):
            for channels in ranges:
                work(item, channels, room)

    share(run, tasks)


def _depthwise_forward(x: Array, weight: Array, geometry: Geometry, out: Array) -> None:
    windows = geometry.windows
    matrix = weight.reshape(geometry.channels, -1, windows.taps)
    results = out.reshape(geometry.items, geometry.channels, -1, windows.positions)
    (block,) = _blocks(windows, windows.positions)
    taps = _taps(windows, block)

    def work(item: int, channels: slice, room: Array) -> None:
        shifted = _shifted(x[item : item + 1, channels], windows)
        columns = _columns(shifted, block, taps, room)[0]
        columns = columns.reshape(len(columns), windows.taps, -1)
        np.matmul(matrix[channels], columns, out=results[item, channels])

    _by_planes(geometry, x.dtype, work)


def _depthwise_input(grad: Array, weight: Array, geometry: Geometry, out: Array) -> None:
    windows = geometry.windows
    matrix = weight.reshape(geometry.channels, -1, windows.taps).swapaxes(1, 2)
    grads = grad.reshape(geometry.items, geometry.channels, -1, windows.positions)
    (block,) = _blocks(windows, windows.positions)
    taps = _taps(windows, block)
    plane = _shifted_shape(windows)

    def work(item: int, channels: slice, room: Array) -> None:
        given = grads[item, channels]
        shifted = np.zeros((windows.kernel[2], 1, len(given), *plane), out.dtype)
        columns = room[: len(given) * windows.taps * windows.positions]
        columns = columns.reshape(len(given), windows.taps, -1)
        if given.shape[1] == 1:
            np.multiply(matrix[channels], given, out=columns)
        else:
            np.matmul(matrix[channels], given, out=columns)
        columns = columns.reshape(1, len(given), windows.taps, *windows.out)
        for number, seen in enumerate(taps):
            shifted[seen] += columns[:, :, number]
        _sum_of_shifted(shifted, windows, out[item : item + 1, channels])

    _by_planes(geometry, grad.dtype, work)


def _depthwise_weight(x: Array, grad: Array, geometry: Geometry, out: Array) -> None:
    windows = geometry.windows
    grads = grad.reshape(geometry.items, geometry.channels, -1, windows.positions)
    (block,) = _blocks(windows, windows.positions)
    taps = _taps(windows, block)
    sums = np.empty((geometry.items, geometry.channels, grads.shape[2], windows.taps), out.dtype)

    def work(item: int, channels: slice, room: Array) -> None:
        shifted = _shifted(x[item : item + 1, channels], windows)
        columns = _columns(shifted, block, taps, room)[0]
        columns = columns.reshape(len(columns), windows.taps, -1)
        np.matmul(grads[item, channels], columns.swapaxes(1, 2), out=sums[item, channels])

    _by_planes(geometry, x.dtype, work)
    np.sum(sums, axis=0, out=out.reshape(sums.shape[1:]))
