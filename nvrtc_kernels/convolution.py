"""Windows of images as columns and back, and depthwise convolutions: see ``cuda/unfold.cuh``."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from .dtypes import Category
from .plans import bound, includes

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

THREADS = 256
_MAX_BLOCKS = 65535
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "int4"}

Three = tuple[int, int, int]


class Windows(NamedTuple):
    """Where the windows of a convolution lie; each attribute has depth, height and width.

    Attributes
    ----------
    size : tuple of int
        Of the image.
    kernel, stride, padding, dilation : tuple of int
        Of the windows.
    ceil : bool
        Whether a last window may go beyond the padded image, as long as it starts before its second padding.
    excess : tuple of int
        By how many elements the second padding is larger than the first; negative where it is smaller.
    """

    size: Three
    kernel: Three
    stride: Three
    padding: Three
    dilation: Three
    ceil: bool = False
    excess: Three = (0, 0, 0)

    @property
    def out(self) -> Three:
        """How many windows there are along each dimension."""
        depth, height, width = map(
            self._count, self.size, self.kernel, self.stride, self.padding, self.dilation, self.excess
        )
        return depth, height, width

    @property
    def padded(self) -> Three:
        """The image with both paddings."""
        depth, height, width = (
            size + 2 * padding + excess
            for size, padding, excess in zip(self.size, self.padding, self.excess, strict=True)
        )
        return depth, height, width

    def _count(self, size: int, kernel: int, stride: int, padding: int, dilation: int, excess: int) -> int:
        room = size + 2 * padding + excess - dilation * (kernel - 1) - 1
        if not self.ceil:
            return room // stride + 1
        count = -(-room // stride) + 1
        return count - 1 if (count - 1) * stride >= size + padding else count

    @property
    def kernel_elements(self) -> int:
        """Elements of a window in one channel."""
        return prod(self.kernel)

    @property
    def positions(self) -> int:
        """Windows of an image."""
        return prod(self.out)

    def packed(self, item_channels: int) -> bytes:
        """The structure of the same name in CUDA C++, for images of ``item_channels`` channels."""
        area = prod(self.size)
        numbers = (*self.size, *self.kernel, *self.stride, *self.padding, *self.dilation, *self.out)
        return struct.pack("=18i2q", *numbers, area, area * item_channels)


class Geometry(NamedTuple):
    """Shapes of a convolution with three spatial dimensions."""

    windows: Windows
    items: int
    channels: int
    filters: int
    groups: int

    @property
    def image(self) -> tuple[int, ...]:
        """Shape of the input."""
        return (self.items, self.channels, *self.windows.size)

    @property
    def weight(self) -> tuple[int, ...]:
        """Shape of the weight."""
        return (self.filters, self.channels // self.groups, *self.windows.kernel)

    @property
    def result(self) -> tuple[int, ...]:
        """Shape of the output."""
        return (self.items, self.filters, *self.windows.out)

    @property
    def depthwise(self) -> bool:
        """Whether every channel has filters of its own."""
        return self.groups == self.channels > 1

    @property
    def plain(self) -> bool:
        """Whether the windows are single elements, and the image is the matrix."""
        w, zeros, ones = self.windows, (0, 0, 0), (1, 1, 1)
        return w.kernel == ones and w.stride == ones and w.padding == zeros and w.excess == zeros


_SIZE = 18 * 4 + 2 * 8


def sum_type(dtype: dtype) -> str:
    """Type in CUDA C++ to add elements of type ``dtype`` up in."""
    if dtype.itemsize == 2 and dtype.is_floating_point:
        return "float"
    return dtype.cuda if dtype.category >= Category.FLOATING else "long long"


def grid_of(count: int) -> int:
    """Blocks of ``THREADS`` for ``count`` elements, over which the kernels go in steps of the grid."""
    return min(max(-(-count // THREADS), 1), (1 << 31) - 1)


def plan_unfold(
    device: Device,
    windows: Windows,
    item_channels: int,
    itemsize: int,
    channels: int,
    items: int,
    first: int,
    count: int,
    row_step: int,
    item_step: int,
) -> Callable[..., None]:
    """What copies windows to the columns of a matrix.

    Parameters
    ----------
    item_channels
        Channels that lie between an item of the image and the next.
    itemsize
        Bytes of an element.
    channels, items
        What is copied of: neighbouring channels, of neighbouring items.
    first, count
        The first window of each item, and how many from there on.
    row_step, item_step
        Elements of the columns from one row to the next, and within a row from one item to the next.

    Returns
    -------
    callable
        ``run(stream_handle, columns_address, image_address)``.
    """
    word = _WORDS[itemsize]
    name = f"unfold_{itemsize}_bytes"
    source = (
        f'#include "elements.cuh"\n#include "unfold.cuh"\n\nextern "C" __global__ void {name}('
        "Windows w, long long rows, long long items, long long at, long long count, long long row_step, "
        f"long long item_step, {word}* columns, const {word}* image) {{\n"
        "    unfold(w, rows, items, at, count, row_step, item_step, image, columns);\n}\n"
    )
    rows = channels * windows.kernel_elements
    grid = grid_of(items * count), min(rows, _MAX_BLOCKS)
    argument = windows.packed(item_channels), rows, items, first, count, row_step, item_step
    return bound(device, "unfold.cu", source, name, (_SIZE, *"qqqqqqPP"), grid, THREADS, *argument)


def plan_fold(
    device: Device,
    windows: Windows,
    item_channels: int,
    dtype: dtype,
    channels: int,
    items: int,
    row_step: int,
    item_step: int,
) -> Callable[..., None]:
    """What adds columns up to images: the transpose of :func:`plan_unfold`, for all windows.

    Returns
    -------
    callable
        ``run(stream_handle, image_address, columns_address)``.
    """
    name = f"fold_{dtype.name}"
    source = (
        f'{includes("unfold.cuh")}extern "C" __global__ void {name}(Windows w, long long channels, '
        f"long long items, long long row_step, long long item_step, {dtype.cuda}* image, const {dtype.cuda}* columns) {{\n"
        f"    fold<{sum_type(dtype)}>(w, channels, items, row_step, item_step, columns, image);\n}}\n"
    )
    grid = grid_of(items * channels * prod(windows.size))
    argument = windows.packed(item_channels), channels, items, row_step, item_step
    return bound(device, "unfold.cu", source, name, (_SIZE, *"qqqqPP"), grid, THREADS, *argument)


def plan_depthwise(
    device: Device, part: str, windows: Windows, items: int, channels: int, multiplier: int, dtype: dtype
) -> Callable[..., None]:
    """A convolution of ``channels`` channels with ``multiplier`` filters each, or one of its derivatives.

    Parameters
    ----------
    part
        ``"forward"`` (of image and weight), ``"input"`` (of the result's gradient and the weight) or ``"weight"``
        (of the image and the result's gradient).

    Returns
    -------
    callable
        ``run(stream_handle, out_address, first_address, second_address)``, all of them contiguous.
    """
    name = f"depthwise_{part}_{dtype.name}"
    filters = channels * multiplier
    counted = channels if part == "input" else filters
    threads = f", {THREADS}" if part == "weight" else ""
    source = (
        f'{includes("unfold.cuh")}extern "C" __global__ void {name}(Windows w, long long counted, '
        f"int multiplier, long long items, {dtype.cuda}* out, const {dtype.cuda}* first, const {dtype.cuda}* second) {{\n"
        f"    depthwise_{part}<{sum_type(dtype)}{threads}>(w, counted, multiplier, items, first, second, out);\n}}\n"
    )
    grid = {
        "forward": grid_of(items * filters * windows.positions),
        "input": grid_of(items * channels * prod(windows.size)),
        "weight": filters * windows.kernel_elements,
    }[part]
    argument = windows.packed(channels), counted, multiplier, items
    return bound(device, "unfold.cu", source, name, (_SIZE, *"qiqPPP"), grid, THREADS, *argument)


def filters_of_tile(filters: int) -> int:
    """How many filters, or channels, a block on tensor cores computes, of so many of a group."""
    return 64 if filters <= 64 else 128
