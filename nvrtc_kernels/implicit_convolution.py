"""Convolutions on tensor cores, and their gradients, with no columns in memory: see ``cuda/implicit_convolution.cuh``."""

from __future__ import annotations

import struct
from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from . import (
    pointwise,
    warpgroup_convolution,
    warpgroup_products,
    warpgroup_strided_convolution,
    warpgroup_weight_gradient,
)
from .convolution import filters_of_tile
from .dtypes import bfloat16, float16, float32
from .layouts import contiguous_strides
from .plans import Plan, includes, launcher
from .pointwise_work import divisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from drv import Device

    from .convolution import Geometry, Three, Windows
    from .dtypes import dtype

    #: ``run(stream_handle, address, scratch)``, which gives the address of what lies otherwise.
    Arrange = Callable[[Any, int, int], int]

#: Threads of a block, its windows, and the bytes of channels that it takes at a time: as in CUDA C++.
_THREADS, _ROWS, _BYTES = 128, 128, 64
_CHUNK = 16
#: How many tiles are under way where they come asynchronously, and else.
_STAGES = {True: 4, False: 2}
_COPY_THREADS = 256
#: Blocks that a multiprocessor has at a time: so many registers does a thread have.
_RESIDENT = 2
#: Fewest tiles of windows in a part of a weight's gradient, and most bytes of all parts.
_LEAST_TILES, _MOST_PARTS_BYTES = 16, 64 << 20
#: Fewest products for each element that is copied first, so that its channels are neighbours: the copy costs about as much as
#: tiles of neighbours save over so many.
_LEAST_PRODUCTS = 128
_ALIGNMENT = 256
#: Compute capability from which on there are asynchronous copies, and products of bfloat16 and TF32.
_CAPABILITY = (8, 0)
#: Offsets are 32 bits.
_FAR, _OFFSET = 1 << 31, 4
_MOST_TILES = 65535


def takes(device: Device, dtype: dtype, geometry: Geometry, *strides: Sequence[int]) -> bool:
    """Whether there are kernels for this geometry.

    ``strides``, in elements, are those of image, weight and result: of items (or filters), channels, depth, height and width.
    """
    return (
        dtype in (float16, bfloat16, float32)
        and device.compute_capability >= _CAPABILITY
        and geometry.groups <= _MOST_TILES
        and all(
            sum(abs(step) * (size - 1) for size, step in zip(shape, each, strict=True)) < _FAR - 1
            for shape, each in zip((geometry.image, geometry.weight, geometry.result), strides, strict=True)
        )
        and max(geometry.items * prod(geometry.windows.out), geometry.items * prod(geometry.windows.size))
        < _FAR - _ROWS
    )


class Phase(NamedTuple):
    """A convolution as the kernels see it, along each dimension; see ``struct Convolution``."""

    windows: Three
    kernel: Three
    step: Three
    start: Three
    advance: Three
    first_element: Three
    element_step: Three
    first: Three
    distance: Three


class _Axis(NamedTuple):
    windows: int
    kernel: int
    step: int
    start: int
    advance: int
    first_element: int
    element_step: int
    first: int
    distance: int


def _together(axes: Sequence[_Axis]) -> Phase:
    return Phase(*zip(*axes, strict=True))


def _forward_phase(w: Windows) -> Phase:
    return _together(
        [
            _Axis(count, kernel, stride, -padding, dilation, 0, 1, 0, 1)
            for count, kernel, stride, padding, dilation in zip(
                w.out, w.kernel, w.stride, w.padding, w.dilation, strict=True
            )
        ]
    )


def _gradient_axis(size: int, kernel: int, stride: int, padding: int, dilation: int) -> Iterator[_Axis]:
    """Elements of the image that are ``stride`` apart: windows reach them with every ``step``-th kernel element."""
    step = stride // gcd(dilation, stride)
    for first in range(min(stride, size)):
        elements = [k for k in range(kernel) if (first + padding - k * dilation) % stride == 0]
        lowest = elements[0] if elements else 0
        yield _Axis(
            windows=-(-(size - first) // stride),
            kernel=len(elements),
            step=1,
            start=(first + padding - lowest * dilation) // stride,
            advance=-(step * dilation // stride),
            first_element=lowest,
            element_step=step,
            first=first,
            distance=stride,
        )


def _gradient_phases(w: Windows) -> Iterator[Phase]:
    axes = map(_gradient_axis, w.size, w.kernel, w.stride, w.padding, w.dilation)
    for each in product(*axes):
        yield _together(each)


def _element(kernel: Three, at: Three) -> int:
    return (at[0] * kernel[1] + at[1]) * kernel[2] + at[2]


def _packed(
    phase: Phase, geometry: Geometry, channels: int, filters: int, padded: int, seen_size: Three, seen: Sequence[int],
    out: Sequence[int], bias: int,
) -> bytes:  # fmt: skip
    """``struct Convolution`` for operands of these strides."""
    kernel = geometry.windows.kernel
    divisors = [number for size in phase.windows for number in (size, *divisor(size))]
    element_steps = kernel[1] * kernel[2], kernel[2], 1
    numbers = (
        geometry.items * prod(phase.windows), channels, filters, *phase.kernel, *phase.step, *phase.start, *phase.advance,
        _element(kernel, phase.first_element),
        *(step * each for step, each in zip(phase.element_step, element_steps, strict=True)), prod(kernel), padded,
        *seen_size, *seen[2:], *seen[:2],
        *(step * distance for step, distance in zip(out[2:], phase.distance, strict=True)), *out[:2],
        sum(step * first for step, first in zip(out[2:], phase.first, strict=True)), bias,
    )  # fmt: skip
    return struct.pack(f"=9I{len(numbers)}i", *divisors, *numbers)


def _are_neighbours(dtype: dtype, strides: Sequence[int], channels: int) -> bool:
    """Whether channels lie in whole chunks of 16 bytes, addresses of which are multiples of 16 where that of the first is."""
    per_chunk = _CHUNK // dtype.itemsize
    return strides[1] == 1 and all(number % per_chunk == 0 for number in (channels, strides[0], *strides[2:]))


def _brought_together(
    device: Device,
    dtype: dtype,
    geometry: Geometry,
    shape: Sequence[int],
    strides: Sequence[int],
    products: int,
) -> tuple[Sequence[int], Arrange | None, int]:
    """How an operand lies for the kernels, what copies it so first, if that is worth it, and the bytes of the copy.

    ``products``: how many its elements have together.
    """
    _, channels, *size = shape
    total = prod(shape)
    together = (prod(size) * channels, 1, *(step * channels for step in contiguous_strides(size)))
    of_group = channels // geometry.groups
    if (
        _are_neighbours(dtype, strides, of_group)
        or not _are_neighbours(dtype, together, of_group)
        or products < _LEAST_PRODUCTS * total
    ):
        return strides, None, 0
    return together, *_copied(device, dtype, shape, strides, together)


def _copied(
    device: Device, dtype: dtype, shape: Sequence[int], strides: Sequence[int], to: Sequence[int]
) -> tuple[Arrange, int]:
    """What copies an operand first, to other strides that leave no gaps, and the bytes of the copy."""
    order = sorted(range(len(shape)), key=lambda dim: -to[dim])
    copy = pointwise.plan_copy(
        device,
        tuple(shape[dim] for dim in order),
        (tuple(to[dim] for dim in order), dtype),
        (tuple(strides[dim] for dim in order), dtype),
    )

    def arrange(stream: Any, address: int, scratch: int) -> int:
        copy(stream, scratch, address)
        return scratch

    return arrange, -(-prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT


def _where_it_is(_: Any, address: int, _scratch: int) -> int:
    return address


def _cuda(flag: bool) -> str:
    return "true" if flag else "false"


def _rearranged(
    device: Device, dtype: dtype, function: str, geometry: Geometry, strides: Sequence[int], padded: int, *,
    part: int = 0, swapped: bool,
) -> Callable[..., None]:  # fmt: skip
    """``run(stream, out, argument)``: a weight of these strides as rows, or sums of parts as such a weight.

    ``part``: how many channels rows have if they are cut; 0 for all.
    """
    filters, channels = geometry.filters // geometry.groups, geometry.channels // geometry.groups
    rows, columns, steps = filters, channels, (strides[0], strides[1])
    if swapped:
        rows, columns, steps = channels, filters, (strides[1], strides[0])
    elements, kernel = geometry.windows.kernel_elements, geometry.windows.kernel
    width = part or padded
    sizes = width, rows, elements, padded // width, kernel[1], kernel[2]
    count = geometry.groups * elements * rows * padded
    numbers = count, columns, filters * strides[0], *steps, *strides[2:]
    order = struct.pack(
        f"=18I{len(numbers)}i", *(each for size in sizes for each in (size, *divisor(size))), *numbers
    )
    t, name = dtype.cuda, f"{function}_{dtype.name}"
    parameters, arguments = {
        "arrange_weight": (f"{t}* to, const {t}* weight", "order, weight, to"),
        "sum_weight_parts": (f"{t}* weight, const float* parts, int count", "order, count, parts, weight"),
    }[function]
    source = (
        f'{includes("implicit_convolution.cuh")}extern "C" __global__ void {name}(WeightOrder order, {parameters}) {{\n'
        f"    {function}({arguments});\n}}\n"
    )
    codes = (len(order), "P", "P", *("i" if "count" in arguments else ""))
    launch = launcher(device, "implicit_convolution.cu", source, name, codes)
    grid = -(-count // _COPY_THREADS)

    def run(stream: Any, out: int, argument: int, *more: int) -> None:
        launch(grid, 1, 1, _COPY_THREADS, 1, 1, 0, stream, order, out, argument, *more)

    return run


def plan(
    device: Device,
    dtype: dtype,
    direction: str,
    geometry: Geometry,
    image: Sequence[int],
    weight: Sequence[int],
    result: Sequence[int],
    bias: int | None,
) -> Plan:
    """What computes a convolution, or the gradient of its image, of operands that :func:`takes` accepts.

    Parameters
    ----------
    direction
        ``"forward"``, or ``"input"`` for the gradient of the image, where the result's gradient lies as ``result`` says.
    image, weight, result
        Their strides in elements, as for :func:`takes`.
    bias
        Stride of one that is added; ``None`` for none.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch, out, first, second, bias)`` with the addresses of result, image, weight and bias, or
        of gradient of the image, gradient of the result, weight and bias. Half precision, or TF32, that operands of
        float32 are rounded to, is multiplied exactly; sums of products are float32.
    """
    planned = _plan(device, dtype, direction, geometry, image, weight, result, bias)
    aligned = _strided_plan(device, dtype, direction, geometry, image, weight, result, bias)
    if aligned is None:
        return planned

    def run(stream: Any, scratch: int, out: int, first: int, *addresses: int) -> None:
        (planned if first % _CHUNK else aligned).run(stream, scratch, out, first, *addresses)

    return Plan(run, max(planned.scratch_bytes, aligned.scratch_bytes))


def _strided_plan(
    device: Device, dtype: dtype, direction: str, geometry: Geometry, image: Sequence[int], weight: Sequence[int],
    result: Sequence[int], bias: int | None,
) -> Plan | None:  # fmt: skip
    """The same for images whose address is a multiple of 16, where their rows can come to shared memory once."""
    phase = _forward_phase(geometry.windows)
    channels, filters = geometry.channels // geometry.groups, geometry.filters // geometry.groups
    if (
        direction != "forward"
        or not warpgroup_convolution.takes(device, [phase.kernel])
        or warpgroup_convolution.copies_pay(geometry, geometry.image, filters)
    ):
        return None
    rows = warpgroup_strided_convolution.rows_of_image(device, dtype, geometry, phase, image)
    if rows is None:
        return None
    part = warpgroup_strided_convolution.LINE_CHANNELS
    padded = -(-channels // part) * part
    arrange = _rearranged(device, dtype, "arrange_weight", geometry, weight, padded, part=part, swapped=False)
    operands = _packed(
        phase, geometry, channels, filters, padded, geometry.windows.size, image, result, bias or 0
    )
    convolve = warpgroup_strided_convolution.launch(
        device, dtype, geometry, rows, operands, out_together=result[1] == 1
    )

    def run(stream: Any, scratch: int, out: int, first: int, second: int, bias: int) -> None:
        arrange(stream, scratch, second)
        convolve(stream, out, first, scratch, bias)

    return Plan(run, geometry.filters * padded * geometry.windows.kernel_elements * dtype.itemsize)


def _plan(
    device: Device,
    dtype: dtype,
    direction: str,
    geometry: Geometry,
    image: Sequence[int],
    weight: Sequence[int],
    result: Sequence[int],
    bias: int | None,
) -> Plan:
    backward = direction == "input"
    w, groups = geometry.windows, geometry.groups
    seen, out, channels, filters = image, result, geometry.channels // groups, geometry.filters // groups
    seen_size, phases = w.size, [_forward_phase(w)]
    if backward:
        seen, out, channels, filters = result, image, filters, channels
        seen_size, phases = w.out, list(_gradient_phases(w))
    seen_shape = geometry.result if backward else geometry.image
    by_warpgroups = warpgroup_convolution.takes(device, [phase.kernel for phase in phases])
    products = _products(geometry)
    if by_warpgroups and not warpgroup_convolution.copies_pay(geometry, seen_shape, filters):
        products = 0
    seen, bring, seen_bytes = _brought_together(device, dtype, geometry, seen_shape, seen, products)
    per_chunk = _CHUNK // dtype.itemsize
    padded = -(-channels // per_chunk) * per_chunk
    arrange = _rearranged(device, dtype, "arrange_weight", geometry, weight, padded, swapped=backward)
    operands = [
        _packed(phase, geometry, channels, filters, padded, seen_size, seen, out, bias or 0)
        for phase in phases
    ]
    tile = filters_of_tile(filters)
    grids = [
        (-(-geometry.items * prod(phase.windows) // _ROWS), -(-filters // tile), groups) for phase in phases
    ]
    out_together = out[1] == 1

    def kernel(together: bool) -> Callable[..., None]:
        if by_warpgroups:
            windows = [geometry.items * prod(phase.windows) for phase in phases]
            return warpgroup_convolution.launches(
                device,
                dtype,
                direction,
                windows,
                filters,
                groups,
                operands,
                together=together,
                out_together=out_together,
                in_pairs=all(warpgroup_convolution.lie_in_pairs(phase, seen_size, seen) for phase in phases),
            )
        t = dtype.cuda
        name = f"convolution_{direction}_{dtype.name}"
        stages = _STAGES[together] * (_ROWS + tile) * _BYTES
        shared = max(stages, _ROWS * tile * dtype.itemsize) + _ROWS * _OFFSET
        source = (
            f'{includes("implicit_convolution.cuh")}extern "C" __global__ void '
            f"__launch_bounds__({_THREADS}, {_RESIDENT}) {name}(Convolution c, {t}* out, const {t}* image, const {t}* weight, "
            f"const {t}* bias) {{\n"
            f"    convolve<{t}, {tile}, {_cuda(together)}, {_cuda(out_together)}>(c, image, weight, bias, out);\n}}\n"
        )
        launch = launcher(
            device, "implicit_convolution.cu", source, name, (len(operands[0]), *"PPPP"), shared
        )

        def run(stream: Any, *addresses: int) -> None:
            for grid, each in zip(grids, operands, strict=True):
                launch(*grid, _THREADS, 1, 1, shared, stream, each, *addresses)

        return run

    convolve = _by_alignment(kernel, _are_neighbours(dtype, seen, channels))
    bring = bring or _where_it_is

    def run(stream: Any, scratch: int, out: int, first: int, second: int, bias: int) -> None:
        first = bring(stream, first, scratch)
        scratch += seen_bytes
        arrange(stream, scratch, second)
        convolve(first, stream, out, first, scratch, bias)

    return Plan(run, seen_bytes + groups * filters * padded * w.kernel_elements * dtype.itemsize)


def _products(geometry: Geometry) -> int:
    w = geometry.windows
    channels = geometry.channels // geometry.groups
    return geometry.items * w.positions * w.kernel_elements * geometry.filters * channels


def _by_alignment(kernel: Callable[[bool], Callable[..., None]], together: bool) -> Callable[..., None]:
    """``run(bits, *arguments)``: the kernel for neighbours where these bits of addresses are multiples of 16."""
    aligned = kernel(together)
    if not together:
        return lambda _, *arguments: aligned(*arguments)

    def run(bits: int, *arguments: Any) -> None:
        (kernel(False) if bits % _CHUNK else aligned)(*arguments)

    return run


def _brought_grad(
    device: Device, dtype: dtype, geometry: Geometry, strides: Sequence[int], *, by_warpgroups: bool
) -> tuple[Sequence[int], Arrange | None, int]:
    """As :func:`_brought_together`, for the result's gradient, of which there is also use as lines of windows."""
    lines = warpgroup_weight_gradient.windows_are_neighbours
    shape = geometry.result
    if by_warpgroups:
        if lines(dtype, geometry, strides):
            return strides, None, 0
        contiguous = contiguous_strides(shape)
        copies = _products(geometry) >= _LEAST_PRODUCTS * prod(shape)
        if dtype is float32 and copies and lines(dtype, geometry, contiguous):
            return contiguous, *_copied(device, dtype, shape, strides, contiguous)
    return _brought_together(device, dtype, geometry, shape, strides, _products(geometry))


def plan_weight(
    device: Device,
    dtype: dtype,
    geometry: Geometry,
    image: Sequence[int],
    weight: Sequence[int],
    result: Sequence[int],
) -> Plan:
    """What computes the gradient of the weight, the same one every time.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch, out, image, grad, bias)`` with the addresses of the weight's gradient, the image and the
        result's gradient; ``bias`` is not used.
    """
    w, groups = geometry.windows, geometry.groups
    channels, filters = geometry.channels // groups, geometry.filters // groups
    image, bring_image, image_bytes = _brought_together(
        device, dtype, geometry, geometry.image, image, _products(geometry)
    )
    together = _are_neighbours(dtype, image, channels)
    by_warpgroups = together and warpgroup_products.has_products(device)
    result, bring_grad, grad_bytes = _brought_grad(
        device, dtype, geometry, result, by_warpgroups=by_warpgroups
    )
    grad_together = _are_neighbours(dtype, result, filters)
    in_lines = warpgroup_weight_gradient.windows_are_neighbours(dtype, geometry, result)
    by_warpgroups = by_warpgroups and (in_lines or (grad_together and dtype.itemsize == 2))
    operands = _packed(_forward_phase(w), geometry, channels, filters, 0, w.size, image, result, 0)
    tile, tile_of_channels = map(filters_of_tile, (filters, channels))
    tiles = w.kernel_elements * -(-filters // tile) * -(-channels // tile_of_channels)
    windows, depth = geometry.items * w.positions, _BYTES // dtype.itemsize
    room = _RESIDENT * device.properties.multi_processor_count // (tiles * groups)
    of_warpgroups = warpgroup_weight_gradient.Tile.of(geometry)
    if by_warpgroups:
        depth = warpgroup_weight_gradient.depth(dtype)
        room = device.properties.multi_processor_count // (of_warpgroups.count(geometry) * groups)
    elements = geometry.filters * channels * w.kernel_elements
    most = min(
        -(-windows // (_LEAST_TILES * depth)), max(_MOST_PARTS_BYTES // (elements * 4), 1), _MOST_TILES
    )
    # As many parts as keep all multiprocessors busy once, whole times.
    parts = max(min(room, most), 1)
    per_part = -(-windows // (parts * depth)) * depth
    parts = -(-windows // per_part)
    add = _rearranged(device, dtype, "sum_weight_parts", geometry, weight, channels, swapped=False)

    def kernel(aligned: bool) -> Callable[..., None]:
        if aligned and by_warpgroups:
            grid = of_warpgroups.count(geometry), parts, groups
            return warpgroup_weight_gradient.launch(
                device, dtype, of_warpgroups, operands, grid, per_part, grad_together=grad_together
            )
        t, name = dtype.cuda, f"convolution_weight_{dtype.name}"
        first, second = aligned and together, aligned and grad_together
        shared = _STAGES[first and second] * (tile + tile_of_channels) * _BYTES
        source = (
            f'{includes("implicit_convolution.cuh")}extern "C" __global__ void '
            f"__launch_bounds__({_THREADS}, {_RESIDENT}) {name}(Convolution c, int per_part, float* parts, const {t}* image, "
            f"const {t}* grad) {{\n"
            f"    convolve_weight<{t}, {tile}, {tile_of_channels}, {_cuda(first)}, {_cuda(second)}>(c, per_part, image, grad, "
            "parts);\n}\n"
        )
        launch = launcher(device, "implicit_convolution.cu", source, name, (len(operands), *"iPPP"), shared)

        def run(stream: Any, *addresses: int) -> None:
            launch(tiles, parts, groups, _THREADS, 1, 1, shared, stream, operands, per_part, *addresses)

        return run

    multiply = _by_alignment(kernel, together or grad_together)

    bring_image, bring_grad = bring_image or _where_it_is, bring_grad or _where_it_is

    def run(stream: Any, scratch: int, out: int, first: int, second: int, _: int) -> None:
        first = bring_image(stream, first, scratch)
        scratch += image_bytes
        second = bring_grad(stream, second, scratch)
        scratch += grad_bytes
        multiply(first | second, stream, scratch, first, second)
        add(stream, out, scratch, parts)

    return Plan(run, image_bytes + grad_bytes + parts * elements * 4)
