"""Convolutions by products of warpgroups, on Hopper: see ``cuda/warpgroup_convolution.cuh``."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from .convolution import filters_of_tile
from .plans import includes, launcher
from .warpgroup_products import LINE_BYTES, STAGES, has_products

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .convolution import Geometry
    from .dtypes import dtype
    from .implicit_convolution import Phase

#: Elements of a kernel along all dimensions together: each has a bit of a word.
_MOST_ELEMENTS = 32
#: Windows of a block, each 64 of which are a warpgroup's.
_ROWS = 256, 192, 128
#: Bytes of what says where a result goes, as in CUDA C++.
_OFFSET = 4
#: How often a block may read an element whose channels lie apart: beyond that it costs less to copy the image first.
_MOST_READS = 4


def takes(device: Device, kernels: Sequence[Sequence[int]]) -> bool:
    """Whether there are kernels for windows of these elements along each dimension."""
    return has_products(device) and all(sum(each) <= _MOST_ELEMENTS for each in kernels)


def copies_pay(geometry: Geometry, seen: Sequence[int], filters: int) -> bool:
    """Whether an image should be copied first if its channels are no neighbours.

    Parameters
    ----------
    seen
        Its shape: items, channels, depth, height and width.
    filters
        Those of a group.
    """
    w = geometry.windows
    reads = geometry.items * w.positions * w.kernel_elements * -(-filters // filters_of_tile(filters))
    return reads > _MOST_READS * seen[0] * prod(seen[2:])


def lie_in_pairs(phase: Phase, size: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether all windows see the columns of an image in the same pairs, of an even one and the next.

    A pair is one access where the image's address is a multiple of its bytes, and is inside the image or outside as a whole.

    Parameters
    ----------
    phase
        The windows.
    size, strides
        Of the image: depth, height and width; and in elements of items, channels, depth, height and width.
    """
    *others, neighbour = strides
    return (
        phase.step[2] % 2 == 0
        and phase.advance[2] == 1
        and phase.kernel[2] > 1
        and neighbour == 1
        and all(number % 2 == 0 for number in (size[2], *others))
    )


def tile_rows(device: Device, windows: Sequence[int], others: int, candidates: Sequence[int]) -> int:
    """Windows of a block with which the busiest multiprocessor has fewest; ``others``: blocks of the same windows."""
    multiprocessors = device.properties.multi_processor_count

    def busiest(rows: int) -> int:
        return sum(-(-(-(-count // rows) * others) // multiprocessors) * rows for count in windows)

    return min(candidates, key=busiest)


def launches(
    device: Device,
    dtype: dtype,
    direction: str,
    windows: Sequence[int],
    filters: int,
    groups: int,
    operands: Sequence[bytes],
    *,
    together: bool,
    out_together: bool,
    in_pairs: bool,
) -> Callable[..., None]:
    """``run(stream, out, image, weight, bias)`` with the addresses of elements of ``dtype``.

    Parameters
    ----------
    direction
        What kernels are named after.
    windows
        How many each launch has, of all items.
    filters
        Those of a group.
    operands
        ``struct Convolution`` of each launch.
    together : bool
        Whether the channels of the image are neighbours, in whole chunks of 16 bytes.
    out_together : bool
        Whether the channels of the result are neighbours.
    in_pairs : bool
        Whether columns :func:`lie_in_pairs`, so that they are read two at a time where the image's address allows it.
    """
    t, name = dtype.cuda, f"convolution_{direction}_{dtype.name}"
    tile = filters_of_tile(filters)
    tiles = -(-filters // tile)
    rows = tile_rows(device, windows, tiles * groups, _ROWS)
    shared = STAGES * (rows + tile) * LINE_BYTES + rows * _OFFSET
    threads = rows * 2
    codes = (len(operands[0]), *"PPPP")
    grids = [(-(-count // rows), tiles, groups) for count in windows]

    def kernel(columns: int) -> Callable[..., None]:
        source = (
            f'{includes("warpgroup_convolution.cuh")}extern "C" __global__ void '
            f"__launch_bounds__({threads}, 1) {name}(Convolution c, {t}* out, const {t}* image, const {t}* weight, "
            f"const {t}* bias) {{\n"
            f"    convolve_by_warpgroups<{t}, {rows}, {tile}, {str(together).lower()}, {str(out_together).lower()}, {columns}>"
            "(c, image, weight, bias, out);\n}\n"
        )
        return launcher(
            device, "warpgroup_convolution.cu", source, name, codes, shared, one_architecture=True
        )

    pair = 2 * dtype.itemsize if in_pairs and not together else 0
    aligned = kernel(2 if pair else 1)

    def run(stream: Any, out: int, image: int, *addresses: int) -> None:
        launch = kernel(1) if pair and image % pair else aligned
        for grid, each in zip(grids, operands, strict=True):
            launch(*grid, threads, 1, 1, shared, stream, each, out, image, *addresses)

    return run
