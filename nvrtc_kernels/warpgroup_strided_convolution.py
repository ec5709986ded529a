"""Convolutions of half precision with stride 2, on Hopper: see ``cuda/warpgroup_strided_convolution.cuh``."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from .convolution import filters_of_tile
from .plans import includes, launcher
from .pointwise_work import divisor
from .warpgroup_convolution import tile_rows
from .warpgroup_products import LINE_BYTES, STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .convolution import Geometry
    from .dtypes import dtype
    from .implicit_convolution import Phase

#: Windows of a block.
_ROWS = 192, 128
#: Bytes that a thread reads at once, and a line of pixels; lines of the image for two turns: as in CUDA C++.
_PIECE, _PIXEL, _TURNS = 16, 64, 2
#: Channels that a warp brings at once, and of a line; pieces of these; how many of both a warp brings in a step.
_CHANNELS, LINE_CHANNELS, _PIECES, _LOADS = 8, 32, 4, 4
#: How many at once in the beginning.
_FIRST_LOADS = 12
#: Bytes of what says where results go, and of elements of the kernel.
_OFFSET, _ELEMENTS = 4, 32 * 8
#: Bytes of what says where a piece is, and the lines of its pixels.
_PIECE_TABLES = 4 + 8 * 2
#: Fewest elements of a kernel: over these the next channels are brought.
_LEAST_ELEMENTS = 4


class Rows(NamedTuple):
    """How blocks bring the rows of an image: windows of a block, ``struct ImageRows``, and bytes of shared memory."""

    windows: int
    packed: bytes
    shared: int


def rows_of_image(
    device: Device, dtype: dtype, geometry: Geometry, phase: Phase, strides: Sequence[int]
) -> Rows | None:
    """How blocks bring the rows of an image of these strides, in elements; ``None`` for what there are no kernels for."""
    items, channel, *size_strides = strides
    _, height, width = geometry.windows.size
    per_piece = _PIECE // dtype.itemsize
    takes = (
        dtype.itemsize == 2
        and geometry.windows.size[0] == phase.windows[0] == phase.kernel[0] == 1
        and phase.step[2] == 2
        and phase.kernel[1] * phase.kernel[2] >= _LEAST_ELEMENTS
        and tuple(size_strides[1:]) == (width, 1)
        and width >= per_piece
        and not any(number % per_piece for number in (items, channel, height * width))
    )
    if not takes:
        return None
    filters = geometry.filters // geometry.groups
    tile = filters_of_tile(filters)
    windows = geometry.items * phase.windows[1] * phase.windows[2]
    candidates = (_rows(geometry, phase, rows, tile) for rows in _ROWS)
    fits = {
        each.windows: each
        for each in candidates
        if each is not None and each.shared <= device.properties.shared_memory_per_block_optin
    }
    if not fits:
        return None
    return fits[tile_rows(device, [windows], -(-filters // tile) * geometry.groups, tuple(fits))]


def _rows(geometry: Geometry, phase: Phase, rows: int, tile: int) -> Rows | None:
    _, height, width = geometry.windows.size
    most = _most_rows(phase, height, rows)
    threads = rows * 2
    # Pieces that all warps bring at once; those of rows, which may begin in a piece, and the first in any of a warp.
    at_once = threads // 32 // (LINE_CHANNELS // _CHANNELS) * _PIECES
    pieces = -(-most * width * 2 // _PIECE) + 1 + _PIECES - 1
    if -(-pieces // at_once) > _LOADS * (phase.kernel[1] * phase.kernel[2] // 2):
        return None
    pieces = -(-pieces // (at_once * _FIRST_LOADS)) * at_once * _FIRST_LOADS
    odd = (width + 1) // 2 | 1  # odd, so that the columns of a pair meet in different banks
    pitch = odd + width // 2
    # Windows below each other follow in banks like windows beside each other, if that is possible.
    pitch += next(
        (more for more in range(8) if ((pitch + more) * phase.step[1] - phase.windows[2]) % 8 == 0), 0
    )
    lines = most * pitch
    packed = struct.pack(
        "=10I", width, *divisor(width), height * width, *divisor(height * width), pitch, odd, lines, pieces
    )
    shared = (
        STAGES * tile * LINE_BYTES
        + (_TURNS * lines + 1) * _PIXEL
        + threads * _PIECE
        + _ELEMENTS
        + pieces * _PIECE_TABLES
        + rows * _OFFSET
    )
    return Rows(rows, packed, shared)


def _most_rows(phase: Phase, height: int, rows: int) -> int:
    """The most rows of the image that ``rows`` windows may see; rows of items follow each other."""
    _, down, across = phase.windows
    touched = (across - 1 + rows - 1) // across + 1

    def row(number: int, element: int) -> int:
        item, y = divmod(number, down)
        seen = phase.start[1] + y * phase.step[1] + element * phase.advance[1]
        return item * height + max(0, min(seen, height - 1))

    return max(row(y + touched - 1, phase.kernel[1] - 1) - row(y, 0) + 1 for y in range(down))


def launch(
    device: Device, dtype: dtype, geometry: Geometry, rows: Rows, operands: bytes, *, out_together: bool
) -> Callable[..., None]:
    """``run(stream, out, image, weight, bias)`` with the addresses of elements of ``dtype``; the image's a multiple of 16.

    Parameters
    ----------
    operands
        ``struct Convolution``; rows of the weight are cut into parts of ``LINE_CHANNELS``.
    out_together : bool
        Whether the channels of the result are neighbours.
    """
    t, name = dtype.cuda, f"convolution_forward_{dtype.name}"
    filters = geometry.filters // geometry.groups
    tile = filters_of_tile(filters)
    threads = rows.windows * 2
    source = (
        f'{includes("warpgroup_strided_convolution.cuh")}extern "C" __global__ void '
        f"__launch_bounds__({threads}, 1) {name}(Convolution c, ImageRows rows, {t}* out, const {t}* image, "
        f"const {t}* weight, const {t}* bias) {{\n"
        f"    convolve_strided<{t}, {rows.windows}, {tile}, {str(out_together).lower()}>"
        "(c, rows, image, weight, bias, out);\n}\n"
    )
    launch = launcher(
        device,
        "warpgroup_strided_convolution.cu",
        source,
        name,
        (len(operands), len(rows.packed), *"PPPP"),
        rows.shared,
        one_architecture=True,
    )
    grid = (
        -(-geometry.items * geometry.windows.positions // rows.windows),
        -(-filters // tile),
        geometry.groups,
    )

    def run(stream: Any, *addresses: int) -> None:
        launch(*grid, threads, 1, 1, rows.shared, stream, operands, rows.packed, *addresses)

    return run
