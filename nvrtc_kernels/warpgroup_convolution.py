"""Convolutions and gradients of weights by products of warpgroups, on Hopper.

See ``cuda/warpgroup_convolution.cuh`` and ``cuda/warpgroup_weight_gradient.cuh``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .convolution import Geometry
    from .dtypes import dtype

#: The only compute capability that has these products.
_CAPABILITY = (9, 0)
#: Elements of a kernel along all dimensions together: each has a bit of a word.
_MOST_ELEMENTS = 32
#: Windows of a block, each 64 of which are a warpgroup's.
_ROWS = 256, 192, 128
_BYTES, _STAGES, _OFFSET = 128, 4, 4
#: Of a gradient of the weight: windows of a tile, bytes of what says where they are, and by how many elements of the kernel and
#: channels a block has columns.
WEIGHT_DEPTH, _WINDOW_BYTES = 64, 16
_COLUMNS = (3, 64), (1, 128), (1, 64)


def takes(device: Device, kernels: Sequence[Sequence[int]]) -> bool:
    """Whether there are kernels for windows of these elements along each dimension."""
    return device.compute_capability == _CAPABILITY and all(sum(each) <= _MOST_ELEMENTS for each in kernels)


def takes_weight(device: Device, dtype: dtype) -> bool:
    """Whether there is a kernel for the gradient of a weight."""
    return device.compute_capability == _CAPABILITY and dtype.itemsize == 2


def _rows(device: Device, windows: Sequence[int], others: int) -> int:
    """Windows of a block with which the busiest multiprocessor has fewest; ``others``: blocks of the same windows."""
    multiprocessors = device.properties.multi_processor_count

    def busiest(rows: int) -> int:
        return sum(-(-(-(-count // rows) * others) // multiprocessors) * rows for count in windows)

    return min(_ROWS, key=busiest)


def launches(
    device: Device,
    dtype: dtype,
    direction: str,
    windows: Sequence[int],
    filters: int,
    groups: int,
    operands: Sequence[bytes],
    *,
    out_together: bool,
) -> Callable[..., None]:
    """``run(stream, out, image, weight, bias)`` for images whose channels are neighbours.

    Parameters
    ----------
    windows
        How many each launch has, of all items.
    operands
        ``struct Convolution`` of each launch.
    out_together : bool
        Whether the channels of the result are neighbours.
    """
    t, name = dtype.cuda, f"convolution_{direction}_{dtype.name}"
    tile = 64 if filters <= 64 else 128
    tiles = -(-filters // tile)
    rows = _rows(device, windows, tiles * groups)
    shared = _STAGES * (rows + tile) * _BYTES + rows * _OFFSET
    threads = rows * 2
    source = (
        f'{includes("warpgroup_convolution.cuh", dtype)}extern "C" __global__ void '
        f"__launch_bounds__({threads}, 1) {name}(Convolution c, {t}* out, const {t}* image, const {t}* weight, "
        f"const {t}* bias) {{\n"
        f"    convolve_by_warpgroups<{t}, {rows}, {tile}, {str(out_together).lower()}>(c, image, weight, bias, out);\n}}\n"
    )
    codes = (len(operands[0]), *"PPPP")
    launch = launcher(
        device, "warpgroup_convolution.cu", source, name, codes, shared, one_architecture=True
    )
    grids = [(-(-count // rows), tiles, groups) for count in windows]

    def run(stream: Any, *addresses: int) -> None:
        for grid, each in zip(grids, operands, strict=True):
            launch(*grid, threads, 1, 1, shared, stream, each, *addresses)

    return run


class WeightTile(NamedTuple):
    """What a block has of a weight's gradient: filters, elements of the kernel, channels."""

    filters: int
    elements: int
    channels: int

    @classmethod
    def of(cls, geometry: Geometry) -> WeightTile:
        """The tile with which least is computed, and fetched, that is not needed."""
        channels = geometry.channels // geometry.groups
        size = geometry.windows.kernel_elements

        def cost(columns: tuple[int, int]) -> float:
            elements, of_block = columns
            computed = -(-size // elements) * elements * -(-channels // of_block) * of_block
            # The filters' gradient is fetched for every block.
            return computed * (1 + 64 / (elements * of_block))

        return cls(64 if geometry.filters // geometry.groups <= 64 else 128, *min(_COLUMNS, key=cost))

    def count(self, geometry: Geometry) -> int:
        """Tiles of a group."""
        filters, channels = geometry.filters // geometry.groups, geometry.channels // geometry.groups
        elements = -(-geometry.windows.kernel_elements // self.elements)
        return elements * -(-filters // self.filters) * -(-channels // self.channels)


def weight_launch(
    device: Device, dtype: dtype, tile: WeightTile, operands: bytes, grid: tuple[int, int, int], per_part: int
) -> Callable[..., None]:
    """``run(stream, parts, image, grad)`` for images and gradients of half precision whose channels are neighbours.

    Parameters
    ----------
    operands
        ``struct Convolution``.
    grid
        Tiles, parts and groups.
    per_part
        Windows of a part, a multiple of :data:`WEIGHT_DEPTH`.
    """
    t, name = dtype.cuda, f"convolution_weight_{dtype.name}"
    columns = tile.elements * tile.channels
    shared = _STAGES * WEIGHT_DEPTH * ((tile.filters + columns) * dtype.itemsize + _WINDOW_BYTES)
    threads = tile.filters * 2
    source = (
        f'{includes("warpgroup_weight_gradient.cuh", dtype)}extern "C" __global__ void '
        f"__launch_bounds__({threads}, 1) {name}(Convolution c, int per_part, float* parts, const {t}* image, "
        f"const {t}* grad) {{\n"
        f"    convolve_weight_by_warpgroups<{t}, {tile.filters}, {tile.elements}, {tile.channels}>(c, per_part, image, grad, "
        "parts);\n}\n"
    )
    launch = launcher(
        device,
        "warpgroup_weight_gradient.cu",
        source,
        name,
        (len(operands), *"iPPP"),
        shared,
        one_architecture=True,
    )

    def run(stream: Any, *addresses: int) -> None:
        launch(*grid, threads, 1, 1, shared, stream, operands, per_part, *addresses)

    return run
