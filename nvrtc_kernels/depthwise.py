"""Convolutions of planes with a filter or several for each channel, in strips: see ``cuda/depthwise.cuh``."""

from __future__ import annotations

import struct
from math import gcd
from typing import TYPE_CHECKING, Any

from .convolution import Windows, sum_type
from .dtypes import bfloat16, float16, float32, float64
from .plans import Plan, includes, launcher
from .pointwise_work import divisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

#: Threads of a block, most elements of a kernel, and most rows of the image that a strip sees.
_THREADS, _MOST_ELEMENTS, _MOST_ROWS = 128, 64, 16
_WIDEST = 16
#: Rows of a strip by its width: of narrow ones a thread has more.
_ROWS = {1: 8, 2: 8, 4: 4, 8: 2}
#: Blocks for each multiprocessor that the gradient of a weight has, and strips for each thread of one at least.
_RESIDENT, _LEAST_STRIPS = 8, 2
_MOST = 1 << 31


def takes(part: str, windows: Windows, items: int, channels: int, multiplier: int, dtype: dtype) -> bool:
    """Whether there are kernels for a part as of :func:`nvrtc_kernels.convolution.plan_depthwise`."""
    w = windows
    return (
        dtype in (float16, bfloat16, float32, float64)
        and (w.size[0], w.kernel[0], w.stride[0], w.padding[0], w.out[0]) == (1, 1, 1, 0, 1)
        and w.kernel_elements <= _MOST_ELEMENTS
        and w.dilation[1] * (w.kernel[1] - 1) + w.stride[1] < _MOST_ROWS
        and w.dilation[2] * (w.kernel[2] - 1) + w.stride[2] < _MOST_ROWS
        and (part != "input" or (multiplier == 1 and w.stride[1:] == (1, 1)))
        and items * channels * multiplier * max(w.positions, w.size[1] * w.size[2]) < _MOST
    )


def plan(
    device: Device,
    part: str,
    windows: Windows,
    items: int,
    channels: int,
    multiplier: int,
    dtype: dtype,
    bias: int | None = None,
) -> Plan:
    """What computes a part that :func:`takes` accepts, of contiguous operands.

    Parameters
    ----------
    part
        ``"forward"`` (of image and weight), ``"input"`` (of the result's gradient and the weight) or ``"weight"``
        (of the image and the result's gradient).
    bias
        Stride of one that is added; ``None`` for none.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch, out, first, second, bias)`` with the addresses of result, operands and bias.
    """
    if part == "input":
        windows = _turned(windows)
    w = windows
    filters = channels * multiplier
    widest = gcd(_WIDEST // dtype.itemsize, w.size[2], w.out[2])
    make = _weight if part == "weight" else _forward

    def of_width(width: int) -> tuple[Callable[..., None], int]:
        rows = max(min(_ROWS[width], w.out[1]) // (1 if w.kernel[1] <= 3 else 2), 1)
        strip = ", ".join(
            map(str, (*w.kernel[1:], *w.stride[1:], *w.dilation[1:], *w.padding[1:], rows, width, multiplier))
        )
        per_row, groups = w.out[2] // width, -(-w.out[1] // rows)
        count = items * groups * per_row * (1 if part == "weight" else filters)
        numbers = [number for size in (per_row, groups, filters) for number in (size, *divisor(size))]
        planes = struct.pack("=10I4i", *numbers, count, *w.size[1:], *w.out[1:])
        return make(device, part, dtype, strip, planes, count, filters, w.kernel_elements, bias or 0)

    aligned, scratch_bytes = of_width(widest)
    unaligned: Callable[..., None] | None = None
    bytes_at_once = widest * dtype.itemsize

    def run(stream: Any, scratch: int, out: int, first: int, second: int, bias: int) -> None:
        nonlocal unaligned
        # What is read or written a strip's row at a time.
        if ((second if part == "weight" else out) | first) % bytes_at_once:
            if unaligned is None:
                unaligned, needed = of_width(1)
                assert needed <= scratch_bytes
            unaligned(stream, scratch, out, first, second, bias)
        else:
            aligned(stream, scratch, out, first, second, bias)

    return Plan(run, scratch_bytes)


def _turned(w: Windows) -> Windows:
    """The windows in which the gradient of the image sees that of the result, where windows are next to each other."""
    steps = w.dilation[1:]
    padding = [
        step * (size - 1) - each for step, size, each in zip(steps, w.kernel[1:], w.padding[1:], strict=True)
    ]
    # As many windows as the image has elements.
    excess = [
        size - (seen + 2 * pad - step * (kernel - 1))
        for size, seen, pad, step, kernel in zip(
            w.size[1:], w.out[1:], padding, steps, w.kernel[1:], strict=True
        )
    ]
    return Windows(
        w.out, w.kernel, w.stride, (0, padding[0], padding[1]), w.dilation, excess=(0, excess[0], excess[1])
    )


def _forward(
    device: Device, part: str, dtype: dtype, strip: str, planes: bytes, count: int, filters: int, elements: int, bias: int
) -> tuple[Callable[..., None], int]:  # fmt: skip
    t, name = dtype.cuda, f"depthwise_{part}_{dtype.name}"
    turned = "true" if part == "input" else "false"
    source = (
        f'{includes("depthwise.cuh")}extern "C" __global__ void {name}(Planes p, {t}* out, const {t}* image, '
        f"const {t}* weight, const {t}* bias, int bias_step) {{\n"
        f"    depthwise_strips<Strip<{strip}>, {turned}, {sum_type(dtype)}>(p, image, weight, bias, bias_step, out);\n}}\n"
    )
    launch = launcher(device, "depthwise.cu", source, name, (len(planes), *"PPPPi"))
    grid = -(-count // _THREADS)

    def run(stream: Any, _: int, out: int, first: int, second: int, bias_at: int) -> None:
        launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, planes, out, first, second, bias_at, bias)

    return run, 0


def _weight(
    device: Device, part: str, dtype: dtype, strip: str, planes: bytes, count: int, filters: int, elements: int, _: int
) -> tuple[Callable[..., None], int]:  # fmt: skip
    t, total, name = dtype.cuda, sum_type(dtype), f"depthwise_{part}_{dtype.name}"
    sums = f"depthwise_sums_{dtype.name}"
    source = (
        f'{includes("depthwise.cuh")}extern "C" __global__ void {name}(Planes p, unsigned int per_block, {total}* parts, '
        f"const {t}* image, const {t}* grad) {{\n"
        f"    depthwise_weight_strips<Strip<{strip}>, {_THREADS}, {total}>(p, per_block, image, grad, parts);\n}}\n"
        f'extern "C" __global__ void {sums}(int count, int blocks, {t}* weight, const {total}* parts) {{\n'
        f"    sum_strips(count, blocks, parts, weight);\n}}\n"
    )
    launch = launcher(device, "depthwise.cu", source, name, (len(planes), *"IPPP"))
    add = launcher(device, "depthwise.cu", source, sums, "iiPP")
    room = _RESIDENT * device.properties.multi_processor_count
    blocks = max(min(-(-room // filters), -(-count // (_LEAST_STRIPS * _THREADS))), 1)
    per_block = -(-count // blocks)
    blocks = -(-count // per_block)
    results = filters * elements

    def run(stream: Any, scratch: int, out: int, first: int, second: int, _: int) -> None:
        launch(filters, blocks, 1, _THREADS, 1, 1, 0, stream, planes, per_block, scratch, first, second)
        add(-(-results // _THREADS), 1, 1, _THREADS, 1, 1, 0, stream, results, blocks, out, scratch)

    return run, blocks * results * (8 if total == "double" else 4)
