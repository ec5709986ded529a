"""Convolutions with NumPy: products of BLAS over windows that are copied to columns a cache's worth at a time.

Arrays are contiguous, have three spatial dimensions and the type that is computed in; how the work is cut, and which
elements go where, is worked out once for a geometry and type. Columns are made for a block of positions of
an item, or for some items where these are small; each block is multiplied while it is in the cache. Blocks of items
are shared among threads, unless BLAS has threads of its own. Where every channel has filters of its own, blocks are
some channels of an item.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.host.blas import product_for
from drv.host.threads import share
from nvrtc_kernels.convolution import Windows

from . import winograd_on_host as winograd
from .product_threads import share_products

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from nvrtc_kernels.convolution import Geometry

    Array = NDArray[Any]
    #: ``run(first operand, second operand, result)``
    Run = Callable[[Array, Array, Array], None]

#: Bytes of columns at a time, about a cache.
_COLUMNS = 1 << 21
#: Positions of a block at least, for products to be worth their packing, as long as they fit into the workspace.
_POSITIONS = 256
_WORKSPACE = 64 << 20
#: Positions of an item below which the product is one of several items.
_FEW = 64
#: Bytes of planes at a time where channels are on their own.
_PLANES = 1 << 20
#: Kernel elements of all blocks up to which a plan holds them.
_HELD = 4096
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


class _Blocks:
    """The blocks of an item with their kernel elements, worked out each time that they are gone through."""

    def __init__(self, windows: Windows, room: int) -> None:
        self.windows = windows
        self.blocks = list(_blocks(windows, room))

    def __iter__(self) -> Iterator[tuple[_Block, list[tuple[Any, ...]]]]:
        for block in self.blocks:
            yield block, _kernel_elements(self.windows, block)


class _Cut:
    """How the work is cut: items at a time, and positions of an item at a time."""

    def __init__(self, geometry: Geometry, dtype: Any) -> None:
        windows = geometry.windows
        rows = geometry.channels * windows.kernel_elements
        size = rows * np.dtype(dtype).itemsize
        room = min(max(_COLUMNS // size, _POSITIONS), max(_WORKSPACE // size, 1))
        self.dtype = dtype
        self.count = geometry.items
        self.items = max(min(room // windows.positions, geometry.items), 1)
        self.pieces = -(-geometry.items // self.items)
        self.tasks = min(self.pieces, _TASKS)
        self.blocks: Any = _Blocks(windows, room)
        if len(self.blocks.blocks) * windows.kernel_elements <= _HELD:
            self.blocks = list(self.blocks)
        #: Elements of columns.
        self.size = rows * self.items * min(windows.positions, room)
        self.chunks = [
            slice(at, min(at + self.items, geometry.items)) for at in range(0, geometry.items, self.items)
        ]

    def share(self, work: Callable[[slice, Array], None]) -> None:
        """``work(items, memory for columns)`` for all items."""
        if self.pieces == 1:
            work(self.chunks[0], np.empty(self.size, self.dtype))
            return
        tasks = self.tasks

        def run(task: int) -> None:
            room = np.empty(self.size, self.dtype)
            for piece in range(task * self.pieces // tasks, (task + 1) * self.pieces // tasks):
                work(self.chunks[piece], room)

        share_products(run, tasks)


def _stepping(first: int, step: int, size: int, count: int) -> tuple[slice, slice]:
    """Elements ``first + step * i`` for ``i`` below ``count``, of those that there are: they, and their ``i``."""
    begin = max(-(first // step), 0)
    end = max(min(-((first - size) // step), count), begin)
    return slice(first + step * begin, max(first + step * end, 0), step), slice(begin, end)


def _phases(windows: Windows) -> list[int]:
    """Remainders by the stride of the rows that windows see."""
    return sorted({j * windows.dilation[1] % windows.stride[1] for j in range(windows.kernel[1])})


class _Shift:
    """Padded items ``(kernel, items, channels, depth, ...)`` whose rows hold what all windows see with one kernel element of a row.

    Short rows are so copied once for each of those elements. What the other elements of a kernel see of them are long runs, as rows
    that are a stride from each other are neighbours.
    """

    def __init__(self, windows: Windows) -> None:
        depth, height, _ = windows.padded
        rows, width = -(-height // windows.stride[1]), windows.out[2]
        phases, padding = _phases(windows), windows.padding
        self.kernel_elements = windows.kernel[2]
        #: Of a plane: depth, remainder of the row by the stride, rows, what is seen of each.
        self.shape = depth, len(phases), rows, width
        self.padded = any(padding) or any(windows.excess)
        self.whole = windows.kernel[2] == windows.stride[1] == windows.stride[2] == 1 and not self.padded
        #: Parts of the image, and where they go.
        self.steps: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []
        deep, into_deep = _stepping(-padding[0], 1, windows.size[0], depth)
        for element in range(self.kernel_elements):
            first = element * windows.dilation[2] - padding[2]
            row, columns = _stepping(first, windows.stride[2], windows.size[2], width)
            for at, phase in enumerate(phases):
                high, into = _stepping(phase - padding[1], windows.stride[1], windows.size[1], rows)
                self.steps.append(((..., deep, high, row), (element, ..., into_deep, at, into, columns)))

    def of(self, x: Array) -> Array:
        """Of some items of an image."""
        if self.whole:
            return x[None, :, :, :, None]
        shape = (self.kernel_elements, *x.shape[:2], *self.shape)
        result = np.zeros(shape, x.dtype) if self.padded else np.empty(shape, x.dtype)
        for seen, into in self.steps:
            result[into] = x[seen]
        return result

    def zeros(self, items: int, channels: int, dtype: Any) -> Array:
        """What gradients of items are added up in."""
        return np.zeros((self.kernel_elements, items, channels, *self.shape), dtype)

    def sum(self, shifted: Array, out: Array) -> None:
        """The reverse: each element of the image is the sum of where it went."""
        out[...] = 0
        for seen, into in self.steps:
            out[seen] += shifted[into]


def _kernel_elements(windows: Windows, block: _Block) -> list[tuple[Any, ...]]:
    """For each kernel element: what the windows of ``block`` see with it of shifted images."""
    (z, y, x), (depth, height, width) = block.start, block.shape
    row = slice(x, x + width)
    (deep, high, wide), phases = windows.kernel, _phases(windows)
    result: list[tuple[Any, ...]] = []
    for k in range(deep):
        first = k * windows.dilation[0] + z * windows.stride[0]
        planes = slice(first, first + (depth - 1) * windows.stride[0] + 1, windows.stride[0])
        for j in range(high):
            start, phase = divmod(j * windows.dilation[1], windows.stride[1])
            rows = slice(start + y, start + y + height)
            at = phases.index(phase)
            result += [(i, ..., planes, at, rows, row) for i in range(wide)]
    return result


def _columns(shifted: Array, block: _Block, kernel_elements: Sequence[Any], room: Array) -> Array:
    """Windows of a block, ``(items, channels, kernel_elements, *block.shape)``."""
    _, items, channels = shifted.shape[:3]
    result = room[: items * channels * len(kernel_elements) * block.positions]
    result = result.reshape(items, channels, len(kernel_elements), *block.shape)
    for number, seen in enumerate(kernel_elements):
        result[:, :, number] = shifted[seen]
    return result


def _joint_columns(shifted: Array, block: _Block, kernel_elements: Sequence[Any], room: Array) -> Array:
    """The same with items next to positions: ``(channels, kernel_elements, items * positions)``."""
    _, items, channels = shifted.shape[:3]
    result = room[: items * channels * len(kernel_elements) * block.positions]
    result = result.reshape(channels, len(kernel_elements), items, *block.shape)
    for number, seen in enumerate(kernel_elements):
        result[:, number] = shifted[seen].swapaxes(0, 1)
    return result.reshape(channels, len(kernel_elements), -1)


def _product(geometry: Geometry) -> Callable[..., Array]:
    """What multiplies matrices for a convolution of all items."""
    weight = geometry.filters * (geometry.channels // geometry.groups) * geometry.windows.kernel_elements
    return product_for(geometry.items * weight * geometry.windows.positions // geometry.groups)


def _forward_plain(geometry: Geometry) -> Run:
    """Windows of single elements: the image is the matrix."""
    items, groups, positions = geometry.items, geometry.groups, geometry.windows.positions
    width, filters = geometry.channels // groups, geometry.filters // groups
    product = _product(geometry)

    def run(x: Array, weight: Array, out: Array) -> None:
        matrix, images = weight.reshape(groups, filters, width), x.reshape(items, groups, width, positions)
        product(matrix, images, out=out.reshape(items, groups, filters, positions))

    return run


def forward(geometry: Geometry, dtype: Any) -> Run:
    """``run(x, weight, out)`` writes the convolution to ``out``."""
    windows, groups = geometry.windows, geometry.groups
    positions = windows.positions
    if geometry.depthwise:
        return _depthwise_forward(geometry, dtype)
    if winograd.fits(geometry, dtype):
        return winograd.forward(geometry)
    if geometry.plain and positions >= _FEW:
        return _forward_plain(geometry)
    cut, shift, product = _Cut(geometry, dtype), _Shift(windows), _product(geometry)
    filters, rows = geometry.filters // groups, geometry.channels // groups * windows.kernel_elements

    def run(x: Array, weight: Array, out: Array) -> None:
        matrix = weight.reshape(groups, filters, rows)
        flat = out.reshape(geometry.items, groups, filters, positions)

        def work(chunk: slice, room: Array) -> None:
            shifted, target = shift.of(x[chunk]), flat[chunk]
            items = len(target)
            if positions < _FEW:
                (block, kernel_elements), *_ = cut.blocks
                columns = _joint_columns(shifted, block, kernel_elements, room)
                result = product(matrix, columns.reshape(groups, rows, -1))
                target[...] = result.reshape(groups, -1, items, positions).transpose(2, 0, 1, 3)
                return
            for block, kernel_elements in cut.blocks:
                columns = _columns(shifted, block, kernel_elements, room).reshape(items, groups, rows, -1)
                product(matrix, columns, out=target[..., block.first : block.first + block.positions])

        cut.share(work)

    return run


def _reversed(geometry: Geometry) -> Geometry | None:
    """The convolution of the result's gradient that gives the input's; ``None`` where there is no such."""
    windows = geometry.windows
    reach = [d * (k - 1) for d, k in zip(windows.dilation, windows.kernel, strict=True)]
    padding = tuple(r - p for r, p in zip(reach, windows.padding, strict=True))
    excess = tuple(-each for each in windows.excess)
    ends = [p + e for p, e in zip(padding, excess, strict=True)]
    if windows.stride != (1, 1, 1) or min(*padding, *ends) < 0:
        return None
    turned = Windows(
        windows.out,
        windows.kernel,
        windows.stride,
        padding,  # type: ignore[arg-type]
        windows.dilation,
        excess=excess,  # type: ignore[arg-type]
    )
    return geometry._replace(windows=turned, channels=geometry.filters, filters=geometry.channels)


def input_gradient(geometry: Geometry, dtype: Any) -> Run:
    """``run(grad, weight, out)`` writes the gradient of the input to ``out``."""
    groups, windows = geometry.groups, geometry.windows
    turned = _reversed(geometry)
    filters, width = geometry.filters // groups, geometry.channels // groups
    # Copies of the gradient's windows cost as much as there are filters, sums of the image's as there are channels.
    alone = geometry.depthwise and filters == 1
    if turned is not None and winograd.fits(turned, dtype):
        return winograd.input_gradient(turned)
    # A large weight costs more to turn around than few windows to be added up.
    few = windows.positions < _FEW and geometry.items * windows.positions < filters
    if turned is not None and not few and (geometry.plain or alone or (width > 1 and filters <= 2 * width)):
        convolve, kernel = forward(turned, dtype), windows.kernel

        def run_reversed(grad: Array, weight: Array, out: Array) -> None:
            matrix = weight.reshape(groups, filters, width, -1)[..., ::-1].transpose(0, 2, 1, 3)
            matrix = np.ascontiguousarray(matrix).reshape(geometry.channels, filters, *kernel)
            convolve(grad, matrix, out)

        return run_reversed
    if geometry.depthwise:
        return _depthwise_input(geometry, dtype)
    cut, shift, product = _Cut(geometry, dtype), _Shift(windows), _product(geometry)

    positions, kernel_size = windows.positions, windows.kernel_elements
    channels = geometry.channels

    def run(grad: Array, weight: Array, out: Array) -> None:
        matrix = weight.reshape(groups, filters, -1).swapaxes(1, 2)
        flat = grad.reshape(geometry.items, groups, filters, -1)

        def work(chunk: slice, room: Array) -> None:
            argument, target = flat[chunk], out[chunk]
            items = len(argument)
            shifted = shift.zeros(items, channels, dtype)
            if positions < _FEW:
                # All items in one product.
                (block, kernel_elements), *_ = cut.blocks
                joint = argument.transpose(1, 2, 0, 3).reshape(groups, filters, -1)
                columns = product(matrix, joint).reshape(channels, kernel_size, items, *block.shape)
                for number, seen in enumerate(kernel_elements):
                    shifted[seen] += columns[:, number].swapaxes(0, 1)
                shift.sum(shifted, target)
                return
            for block, kernel_elements in cut.blocks:
                columns = room[: items * channels * kernel_size * block.positions]
                columns = columns.reshape(items, groups, -1, block.positions)
                product(matrix, argument[..., block.first : block.first + block.positions], out=columns)
                columns = columns.reshape(items, channels, kernel_size, *block.shape)
                for number, seen in enumerate(kernel_elements):
                    shifted[seen] += columns[:, :, number]
            shift.sum(shifted, target)

        cut.share(work)

    return run


def weight_gradient(geometry: Geometry, dtype: Any) -> Run:
    """``run(x, grad, out)`` writes the gradient of the weight to ``out``."""
    windows, groups = geometry.windows, geometry.groups
    if geometry.depthwise:
        return _depthwise_weight(geometry, dtype)
    if winograd.fits(geometry, dtype):
        return winograd.weight_gradient(geometry)
    cut, shift, product = _Cut(geometry, dtype), _Shift(windows), _product(geometry)
    filters, rows = geometry.filters // groups, geometry.channels // groups * windows.kernel_elements
    plain = geometry.plain
    nbytes = geometry.filters * rows * np.dtype(dtype).itemsize
    # Always as many sums, whatever there are of threads.
    partial_sums = max(min(_PARTIAL, _PARTIAL_BYTES // nbytes, cut.pieces), 1)

    def add(total: Array, images: Array, grads: Array, room: Array, *, first: bool) -> None:
        items = len(images)
        shifted = None if plain and items == 1 else shift.of(images)
        for block, kernel_elements in cut.blocks:
            seen = slice(block.first, block.first + block.positions)
            if shifted is None:
                columns = images.reshape(geometry.channels, -1)[:, seen]
            else:
                columns = _joint_columns(shifted, block, kernel_elements, room)
            # All items in one product, which adds them up.
            argument = grads[..., seen].swapaxes(0, 1).reshape(groups, -1, items * block.positions)
            factor = columns.reshape(groups, rows, -1).swapaxes(1, 2)
            if first:
                product(argument, factor, out=total)
                first = False
            else:
                total += product(argument, factor)

    def run(x: Array, grad: Array, out: Array) -> None:
        flat = grad.reshape(geometry.items, geometry.filters, -1)
        whole = out.reshape(1, groups, filters, rows)
        # One sum alone is the result.
        sums = whole if partial_sums == 1 else np.empty((partial_sums, groups, filters, rows), dtype)

        def work(number: int) -> None:
            room = np.empty(cut.size, dtype)
            start, end = (each * cut.pieces // partial_sums for each in (number, number + 1))
            for piece in range(start, end):
                chunk = cut.chunks[piece]
                add(sums[number], x[chunk], flat[chunk], room, first=piece == start)

        if partial_sums == 1:
            work(0)
            return
        share_products(work, partial_sums)
        np.add.reduce(sums, axis=0, out=whole[0])

    return run


# Channels on their own


class _Planes:
    """How the work is cut where channels are on their own: neighbouring planes as large as a cache together."""

    def __init__(self, geometry: Geometry, dtype: Any) -> None:
        windows = geometry.windows
        each = windows.kernel_elements * windows.positions
        several = max(min(_PLANES // max(each * np.dtype(dtype).itemsize, 1), geometry.channels), 1)
        self.channels = [
            slice(at, min(at + several, geometry.channels)) for at in range(0, geometry.channels, several)
        ]
        self.items, self.tasks = geometry.items, min(geometry.items, _TASKS)
        self.size, self.dtype = several * each, dtype
        (self.block,) = _blocks(windows, windows.positions)
        self.kernel_elements = _kernel_elements(windows, self.block)

    def share(self, work: Callable[[int, slice, Array], None]) -> None:
        """``work(item, channels, memory for columns)`` for all of them."""

        def run(task: int) -> None:
            room = np.empty(self.size, self.dtype)
            for item in range(task * self.items // self.tasks, (task + 1) * self.items // self.tasks):
                for channels in self.channels:
                    work(item, channels, room)

        share(run, self.tasks)


def _depthwise_forward(geometry: Geometry, dtype: Any) -> Run:
    windows = geometry.windows
    planes, shift = _Planes(geometry, dtype), _Shift(windows)

    def run(x: Array, weight: Array, out: Array) -> None:
        matrix = weight.reshape(geometry.channels, -1, windows.kernel_elements)
        results = out.reshape(geometry.items, geometry.channels, -1, windows.positions)

        def work(item: int, channels: slice, room: Array) -> None:
            shifted = shift.of(x[item : item + 1, channels])
            columns = _columns(shifted, planes.block, planes.kernel_elements, room)[0]
            columns = columns.reshape(len(columns), windows.kernel_elements, -1)
            np.matmul(matrix[channels], columns, out=results[item, channels])

        planes.share(work)

    return run


def _depthwise_input(geometry: Geometry, dtype: Any) -> Run:
    windows = geometry.windows
    planes, shift = _Planes(geometry, dtype), _Shift(windows)

    def run(grad: Array, weight: Array, out: Array) -> None:
        matrix = weight.reshape(geometry.channels, -1, windows.kernel_elements).swapaxes(1, 2)
        grads = grad.reshape(geometry.items, geometry.channels, -1, windows.positions)

        def work(item: int, channels: slice, room: Array) -> None:
            argument = grads[item, channels]
            shifted = shift.zeros(1, len(argument), dtype)
            columns = room[: len(argument) * windows.kernel_elements * windows.positions]
            columns = columns.reshape(len(argument), windows.kernel_elements, -1)
            if argument.shape[1] == 1:
                np.multiply(matrix[channels], argument, out=columns)
            else:
                np.matmul(matrix[channels], argument, out=columns)
            columns = columns.reshape(1, len(argument), windows.kernel_elements, *windows.out)
            for number, seen in enumerate(planes.kernel_elements):
                shifted[seen] += columns[:, :, number]
            shift.sum(shifted, out[item : item + 1, channels])

        planes.share(work)

    return run


def _depthwise_weight(geometry: Geometry, dtype: Any) -> Run:
    windows = geometry.windows
    planes, shift = _Planes(geometry, dtype), _Shift(windows)
    multiplier = geometry.filters // geometry.channels

    def run(x: Array, grad: Array, out: Array) -> None:
        grads = grad.reshape(geometry.items, geometry.channels, multiplier, windows.positions)
        sums = np.empty((geometry.items, geometry.channels, multiplier, windows.kernel_elements), dtype)

        def work(item: int, channels: slice, room: Array) -> None:
            shifted = shift.of(x[item : item + 1, channels])
            columns = _columns(shifted, planes.block, planes.kernel_elements, room)[0]
            columns = columns.reshape(len(columns), windows.kernel_elements, -1)
            np.matmul(grads[item, channels], columns.swapaxes(1, 2), out=sums[item, channels])

        planes.share(work)
        np.add.reduce(sums, axis=0, out=out.reshape(sums.shape[1:]))

    return run
