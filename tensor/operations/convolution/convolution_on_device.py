"""Convolutions on devices, worked out once for a geometry: kernels, matrix products, and where they read and write.

The convolution is a product of the weight with the windows of the image as columns; the gradient of the input is the
product of the transposed weight with the result's gradient, added up from columns to an image; that of the weight is
the product of the result's gradient with the windows. The columns of as many items are made at a time as fit into a
workspace of bounded size; where windows are single elements the image itself is the matrix. Where every channel has
filters of its own, a product would have one row, and a kernel computes everything directly.

What is planned are steps, each with the offsets in bytes of what it works on, so that running them is nothing but
launches. Everything is contiguous; operands are given by their addresses.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels import convolution as kernels
from nvrtc_kernels import depthwise, pointwise, products
from nvrtc_kernels.dtypes import Category
from tensor.core.dtypes import promotion as rules
from tensor.operations.products import blas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nvrtc_kernels.convolution import Geometry
    from nvrtc_kernels.dtypes import dtype


#: Bytes of columns at a time.
WORKSPACE = 64 << 20
#: Windows of an item from which on every item has a matrix product of its own.
_LONG = 128
_ALIGNMENT = 512
#: The setting that says whether float32 is rounded to TF32, read at every product.
_TF32 = "convolution_tf32"


class Work(NamedTuple):
    """A planned computation.

    Attributes
    ----------
    run : callable
        ``run(stream_handle, scratch, out, first, second, bias)`` with addresses. ``bias`` may be 0 unless one was
        planned for.
    scratch_bytes : int
        Bytes of scratch memory that it needs.
    """

    run: Callable[..., None]
    scratch_bytes: int


class _Chunk(NamedTuple):
    """Work that is done at a time: some items, and some windows of each."""

    item: int
    items: int
    first: int
    windows: int


def _chunks(geometry: Geometry, itemsize: int) -> list[_Chunk]:
    """All items and windows, as many at a time as have columns that fit into the workspace."""
    total = geometry.windows.positions
    rows = geometry.channels // geometry.groups * geometry.windows.kernel_elements
    room = max(WORKSPACE // max(rows * itemsize, 1), 1)
    items = max(min(room // max(total, 1), geometry.items), 1)
    windows = total if room >= total else room
    return [
        _Chunk(item, min(items, geometry.items - item), first, min(windows, total - first))
        for item in range(0, geometry.items, items)
        for first in range(0, total, windows)
    ]


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _product(
    device_state: Any,
    dtype: dtype,
    sizes: tuple[int, int, int, int],
    a: tuple[int, int, int],
    b: tuple[int, int, int],
    c: tuple[int, int, int],
) -> Callable[..., None]:
    """``run(c, a, b, 1, beta)`` for addresses: ``C = A @ B + beta * C`` for batches of matrices of these strides.

    ``sizes`` are how many matrices there are, rows of A, columns of B and columns of A.
    """
    count, rows, columns, inner = sizes
    if dtype.category < Category.FLOATING:
        launch = products.plan(device_state.native, dtype, sizes, a, b, c)
        local = device_state.local
        # Only results are products of integers, to which nothing is added.
        return lambda c, a, b, _alpha=1, _beta=0: launch(local.stream.handle, a, b, c)
    factors = (
        blas.factor((count, *shape), strides)
        for shape, strides in (((rows, inner), a), ((inner, columns), b), ((rows, columns), c))
    )
    left, right, into = factors
    assert left is not None and right is not None and into is not None and not into.transposed
    return blas.product(device_state, dtype, sizes, left, right, into, _TF32)


def _bias_added(
    device_state: Any,
    dtype: dtype,
    shape: Sequence[int],
    steps: tuple[Sequence[int], Sequence[int]],
    bias: int,
) -> Callable[..., None]:
    """``run(stream, out, given, bias)`` for arrays ``(items, filters, windows)`` of these strides."""
    out, argument = steps
    compute_dtype = rules.computes_in(dtype)
    include = "complex_math.cuh" if dtype.is_complex else ""
    add = pointwise.Expression("add", "a + b", compute=compute_dtype, include=include)
    return pointwise.plan(
        device_state.native, add, shape, (out, dtype), (argument, dtype), ((0, bias, 0), dtype)
    )


def _copied(
    device_state: Any, dtype: dtype, shape: Sequence[int], out: Sequence[int], argument: Sequence[int]
) -> Callable[..., None]:
    return pointwise.plan_copy(device_state.native, shape, (out, dtype), (argument, dtype))


class _Sizes:
    """What steps are worked out from: sizes of one group, and elements from one item to the next."""

    def __init__(self, geometry: Geometry, dtype: dtype) -> None:
        windows = geometry.windows
        self.width = geometry.channels // geometry.groups
        self.filters = geometry.filters // geometry.groups
        self.kernel_elements, self.positions = windows.kernel_elements, windows.positions
        self.rows = self.width * self.kernel_elements
        self.area = windows.size[0] * windows.size[1] * windows.size[2]
        #: Elements of an item of the image, and of the result.
        self.image, self.result = geometry.channels * self.area, geometry.filters * self.positions
        self.itemsize: int = dtype.itemsize
        self.groups = geometry.groups

    def image_at(self, item: int, channel: int, element: int = 0) -> int:
        """Bytes of the image before an element of a channel."""
        return (item * self.image + channel * self.area + element) * self.itemsize

    def result_at(self, item: int, filter: int, window: int) -> int:
        """Bytes of the result before a window of a filter."""
        return (item * self.result + filter * self.positions + window) * self.itemsize

    def weight_at(self, filter: int, channel: int = 0) -> int:
        """Bytes of the weight before the elements of a channel of a filter."""
        return (filter * self.rows + channel * self.kernel_elements) * self.itemsize


def _depthwise(
    device_state: Any,
    direction: str,
    geometry: Geometry,
    dtype: dtype,
    bias: int | None,
    shape: tuple[int, ...],
) -> Work:
    multiplier = geometry.filters // geometry.channels
    sizes = geometry.windows, geometry.items, geometry.channels, multiplier, dtype
    if depthwise.takes(direction, *sizes):
        planned = depthwise.plan(device_state.native, direction, *sizes, bias)
        return Work(planned.run, planned.scratch_bytes)
    launch = kernels.plan_depthwise(device_state.native, direction, *sizes)
    add = bias_onto(device_state, dtype, shape, bias)

    def run(stream: Any, _: int, out: int, first: int, second: int, bias: int) -> None:
        launch(stream, out, first, second)
        if add is not None:
            add(stream, out, out, bias)

    return Work(run, 0)


def bias_onto(
    device_state: Any, dtype: dtype, shape: tuple[int, ...], bias: int | None, channels_last: bool = False
) -> Callable[..., None] | None:
    """What adds a bias of that stride to a whole result in place, if there is one.

    It is ``run(stream, out, out, bias)`` for addresses; ``shape`` is ``(items, filters, depth, height, width)``.
    """
    if bias is None:
        return None
    items, filters, depth, height, width = shape
    windows = depth * height * width
    steps = (filters * windows, 1, filters) if channels_last else (filters * windows, windows, 1)
    return _bias_added(device_state, dtype, (items, filters, windows), (steps, steps), bias)


def forward(device_state: Any, geometry: Geometry, dtype: dtype, bias: int | None) -> Work:
    """The convolution of image and weight; ``bias`` is the stride of one that is added, ``None`` without."""
    if geometry.depthwise:
        return _depthwise(device_state, "forward", geometry, dtype, bias, geometry.result)
    chunks = _chunks(geometry, dtype.itemsize)
    if geometry.windows.positions >= _LONG or chunks[0].items == 1:
        return _forward_by_items(device_state, geometry, dtype, bias, chunks)
    return _forward_jointly(device_state, geometry, dtype, bias, chunks)


def _forward_by_items(
    device_state: Any, geometry: Geometry, dtype: dtype, bias: int | None, chunks: list[_Chunk]
) -> Work:
    """A product for each item, written where it belongs."""
    s, plain = _Sizes(geometry, dtype), geometry.plain

    @cache
    def unfold(items: int, first: int, count: int) -> Any:
        return kernels.plan_unfold(
            device_state.native, geometry.windows, geometry.channels, s.itemsize,
            s.width, items, first, count, count, s.rows * count,
        )  # fmt: skip

    @cache
    def product(items: int, count: int) -> Any:
        columns = (s.image, s.area, 1) if plain else (s.rows * count, count, 1)
        into = (s.result, s.positions, 1)
        return _product(device_state, dtype, (items, s.filters, count, s.rows), (0, s.rows, 1), columns, into)

    steps = [
        (
            None if plain else unfold(items, first, count),
            s.image_at(item, group * s.width, first if plain else 0),
            product(items, count),
            s.weight_at(group * s.filters),
            s.result_at(item, group * s.filters, first),
        )
        for item, items, first, count in chunks
        for group in range(s.groups)
    ]
    add = bias_onto(device_state, dtype, geometry.result, bias)

    def run(stream: Any, scratch: int, out: int, x: int, w: int, bias: int) -> None:
        for unfold, image, multiply, matrix, target in steps:
            if unfold is None:
                multiply(out + target, w + matrix, x + image)
            else:
                unfold(stream, scratch, x + image)
                multiply(out + target, w + matrix, scratch)
        if add is not None:
            add(stream, out, out, bias)

    size = 0 if plain else chunks[0].items * s.rows * chunks[0].windows * s.itemsize
    return Work(run, size)


def _forward_jointly(
    device_state: Any, geometry: Geometry, dtype: dtype, bias: int | None, chunks: list[_Chunk]
) -> Work:
    """One product for the windows of several items, which goes from there to where it belongs, with the bias."""
    s, plain = _Sizes(geometry, dtype), geometry.plain

    @cache
    def gather_plan(items: int, first: int, count: int) -> Any:
        if plain:
            shape, out = (s.rows, items, count), (items * count, count, 1)
            return _copied(device_state, dtype, shape, out, (s.area, s.image, 1))
        return kernels.plan_unfold(
            device_state.native, geometry.windows, geometry.channels, s.itemsize,
            s.width, items, first, count, items * count, count,
        )  # fmt: skip

    @cache
    def product(columns: int) -> Any:
        sizes = 1, s.filters, columns, s.rows
        return _product(device_state, dtype, sizes, (0, s.rows, 1), (0, columns, 1), (0, columns, 1))

    @cache
    def finish_plan(items: int, count: int) -> Any:
        shape = (items, s.filters, count)
        out, argument = (s.result, s.positions, 1), (count, items * count, 1)
        if bias is None:
            return _copied(device_state, dtype, shape, out, argument)
        return _bias_added(device_state, dtype, shape, (out, argument), bias)

    columns = _aligned(chunks[0].items * s.rows * chunks[0].windows * s.itemsize)

    def step(item: int, items: int, first: int, count: int, group: int) -> Callable[..., None]:
        gather, image = (
            gather_plan(items, first, count),
            s.image_at(item, group * s.width, first if plain else 0),
        )
        multiply, matrix = product(items * count), s.weight_at(group * s.filters)
        finish, target = finish_plan(items, count), s.result_at(item, group * s.filters, first)
        offset = group * s.filters * (bias or 0) * s.itemsize

        def run(stream: Any, scratch: int, out: int, x: int, w: int, bias: int) -> None:
            product = scratch + columns
            gather(stream, scratch, x + image)
            multiply(product, w + matrix, scratch)
            if bias:
                finish(stream, out + target, product, bias + offset)
            else:
                finish(stream, out + target, product)

        return run

    size = columns + chunks[0].items * s.filters * chunks[0].windows * s.itemsize
    steps = [step(*chunk, group) for chunk in chunks for group in range(s.groups)]
    if len(steps) == 1:
        return Work(steps[0], size)

    def run(*arguments: Any) -> None:
        for each in steps:
            each(*arguments)

    return Work(run, size)


def input_gradient(device_state: Any, geometry: Geometry, dtype: dtype, bias: int | None) -> Work:
    """The gradient of the image from those of the result and the weight: the transposed convolution.

    ``bias`` is the stride of one that is added, ``None`` without.
    """
    if geometry.depthwise:
        return _depthwise(device_state, "input", geometry, dtype, bias, geometry.image)
    s, plain = _Sizes(geometry, dtype), geometry.plain
    room = max(WORKSPACE // max(s.kernel_elements * s.positions * s.itemsize, 1), 1)
    # As many channels as fit, and as many items of all channels.
    most = min(s.width, room)
    together = max(min(room // s.width, geometry.items), 1)

    @cache
    def product(items: int, channels: int) -> Any:
        sizes = items, channels * s.kernel_elements, s.positions, s.filters
        into = (s.image, s.area, 1) if plain else (channels * s.kernel_elements * s.positions, s.positions, 1)
        return _product(device_state, dtype, sizes, (0, 1, s.rows), (s.result, s.positions, 1), into)

    @cache
    def fold(items: int, channels: int) -> Any:
        return kernels.plan_fold(
            device_state.native, geometry.windows, geometry.channels, dtype,
            channels, items, s.positions, channels * s.kernel_elements * s.positions,
        )  # fmt: skip

    steps = [
        (
            product(items, channels),
            s.weight_at(group * s.filters, channel),
            s.result_at(item, group * s.filters, 0),
            None if plain else fold(items, channels),
            s.image_at(item, group * s.width + channel),
        )
        for item, items, group, channel, channels in _channel_chunks(geometry, s.width, together, most)
    ]
    add = bias_onto(device_state, dtype, geometry.image, bias)

    def run(stream: Any, scratch: int, out: int, grad: int, w: int, bias: int) -> None:
        for multiply, matrix, argument, fold, target in steps:
            if fold is None:
                multiply(out + target, w + matrix, grad + argument)
            else:
                multiply(scratch, w + matrix, grad + argument)
                fold(stream, out + target, scratch)
        if add is not None:
            add(stream, out, out, bias)

    return Work(run, 0 if plain else together * most * s.kernel_elements * s.positions * s.itemsize)


def _channel_chunks(
    geometry: Geometry, width: int, together: int, most: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """``(first item, items, group, first channel of it, channels)`` of each step."""
    for item in range(0, geometry.items, together):
        for group in range(geometry.groups):
            for channel in range(0, width, most):
                yield item, min(together, geometry.items - item), group, channel, min(most, width - channel)


def weight_gradient(device_state: Any, geometry: Geometry, dtype: dtype) -> Work:
    """The gradient of the weight from the image and the gradient of the result."""
    if geometry.depthwise:
        return _depthwise(device_state, "weight", geometry, dtype, None, geometry.weight)
    s, plain = _Sizes(geometry, dtype), geometry.plain
    chunks = _chunks(geometry, dtype.itemsize)

    @cache
    def gather(items: int, first: int, count: int) -> Any:
        if plain:
            shape, out = (s.rows, items, count), (items * count, count, 1)
            return None if items == 1 else _copied(device_state, dtype, shape, out, (s.area, s.image, 1))
        return kernels.plan_unfold(
            device_state.native, geometry.windows, geometry.channels, s.itemsize,
            s.width, items, first, count, items * count, count,
        )  # fmt: skip

    @cache
    def collect(items: int, count: int) -> Any:
        """The gradients of several items in rows of filters; those of one lie so already."""
        shape, out = (s.filters, items, count), (items * count, count, 1)
        return None if items == 1 else _copied(device_state, dtype, shape, out, (s.positions, s.result, 1))

    @cache
    def product(items: int, count: int) -> Any:
        # All items in one product, which adds them up.
        columns = items * count
        grads = s.positions if items == 1 else columns
        seen = s.area if plain and items == 1 else columns
        sizes = 1, s.filters, s.rows, columns
        return _product(device_state, dtype, sizes, (0, grads, 1), (0, 1, seen), (0, s.rows, 1))

    most = chunks[0].items * chunks[0].windows * s.itemsize
    columns = _aligned(most * s.rows)
    steps = [
        (
            gather(items, first, count),
            s.image_at(item, group * s.width, first if plain else 0),
            collect(items, count),
            s.result_at(item, group * s.filters, first),
            product(items, count),
            s.weight_at(group * s.filters),
            int(number > 0),
        )
        for number, (item, items, first, count) in enumerate(chunks)
        for group in range(s.groups)
    ]

    def run(stream: Any, scratch: int, out: int, x: int, grad: int, _: int) -> None:
        for gather, image, collect, argument, multiply, target, beta in steps:
            seen, grads = x + image, grad + argument
            if gather is not None:
                gather(stream, scratch, seen)
                seen = scratch
            if collect is not None:
                collect(stream, scratch + columns, grads)
                grads = scratch + columns
            multiply(out + target, grads, seen, 1, beta)

    return Work(run, columns + most * s.filters)
