"""Gradients of the weights of convolutions by products of warpgroups, on Hopper: see ``cuda/warpgroup_weight_gradient.cuh``."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from .convolution import filters_of_tile
from .layouts import contiguous_strides
from .plans import includes, launcher
from .warpgroup_products import LINE_BYTES, STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .convolution import Geometry
    from .dtypes import dtype

#: Bytes of a chunk, and of what says where a window is.
_CHUNK, _WINDOW_BYTES = 16, 16
#: Of how many elements of the kernel, and channels, a block may have the gradient.
_ELEMENTS_AND_CHANNELS = (3, 64), (1, 128), (1, 64)


def depth(dtype: dtype) -> int:
    """Windows of a tile, of which parts have whole multiples."""
    windows: int = LINE_BYTES // dtype.itemsize
    return windows


def windows_are_neighbours(dtype: dtype, geometry: Geometry, strides: Sequence[int]) -> bool:
    """Whether windows of the result's gradient lie in whole chunks of 16 bytes, none of which two items share."""
    per_chunk = _CHUNK // dtype.itemsize
    out = geometry.windows.out
    steps = zip(out, strides[2:], contiguous_strides(out), strict=True)
    return all(size == 1 or step == between for size, step, between in steps) and not any(
        number % per_chunk for number in (prod(out), *strides[:2])
    )


class Tile(NamedTuple):
    """What a block has of a weight's gradient: filters, elements of the kernel, channels."""

    filters: int
    elements: int
    channels: int

    @classmethod
    def of(cls, geometry: Geometry) -> Tile:
        """The tile with which least is computed, and fetched, that is not needed."""
        channels = geometry.channels // geometry.groups
        size = geometry.windows.kernel_elements

        def cost(block: tuple[int, int]) -> float:
            elements, of_block = block
            computed = -(-size // elements) * elements * -(-channels // of_block) * of_block
            # The result's gradient is fetched for every block.
            return computed * (1 + 64 / (elements * of_block))

        filters = filters_of_tile(geometry.filters // geometry.groups)
        return cls(filters, *min(_ELEMENTS_AND_CHANNELS, key=cost))

    def count(self, geometry: Geometry) -> int:
        """Tiles of a group."""
        filters, channels = geometry.filters // geometry.groups, geometry.channels // geometry.groups
        elements = -(-geometry.windows.kernel_elements // self.elements)
        return elements * -(-filters // self.filters) * -(-channels // self.channels)


def launch(
    device: Device,
    dtype: dtype,
    tile: Tile,
    operands: bytes,
    grid: tuple[int, int, int],
    per_part: int,
    *,
    grad_together: bool,
) -> Callable[..., None]:
    """``run(stream, parts, image, grad)`` for images whose channels are neighbours.

    These are addresses: of float32 ``(part, group, element, filter, channel)``, and of elements of ``dtype``.

    Parameters
    ----------
    operands
        ``struct Convolution``.
    grid
        Tiles, parts and groups.
    per_part
        Windows of a part, a multiple of :func:`depth`.
    grad_together : bool
        Whether channels of the result's gradient are neighbours, which those of float32 may not be. Else
        :func:`windows_are_neighbours`.
    """
    t, name = dtype.cuda, f"convolution_weight_{dtype.name}"
    columns = tile.elements * tile.channels
    shared = STAGES * (LINE_BYTES * (tile.filters + columns) + depth(dtype) * _WINDOW_BYTES)
    sizes = ", ".join(map(str, tile))
    if dtype.itemsize == 2:
        threads = tile.filters * 2
        function = f"convolve_weight_by_warpgroups<{t}, {sizes}, {str(grad_together).lower()}>"
    else:
        threads = columns * 2
        function = f"convolve_tf32_weight<{sizes}>"
    source = (
        f'{includes("warpgroup_weight_gradient.cuh")}extern "C" __global__ void '
        f"__launch_bounds__({threads}, 1) {name}(Convolution c, int per_part, float* parts, const {t}* image, "
        f"const {t}* grad) {{\n"
        f"    {function}(c, per_part, image, grad, parts);\n}}\n"
    )
    codes = (len(operands), *"iPPP")
    kernel = launcher(
        device, "warpgroup_weight_gradient.cu", source, name, codes, shared, one_architecture=True
    )

    def run(stream: Any, *addresses: int) -> None:
        kernel(*grid, threads, 1, 1, shared, stream, operands, per_part, *addresses)

    return run
