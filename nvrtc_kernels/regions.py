"""Regions of images pooled to one size, and boxes that overlap better ones suppressed: see ``cuda/regions.cuh``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .convolution import THREADS, grid_of
from .grid_sampling import sum_type
from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

#: Boxes whose overlaps are the bits of one word.
_WORD = 64
#: Most boxes whose marks fit into the shared memory that every device has.
MOST_BOXES = 48 * 1024 // 8 * _WORD


@dataclass(frozen=True, slots=True)
class Regions:
    """What is pooled how.

    Attributes
    ----------
    method : {"align", "pool"}
        Weighted sums of samples, or the elements of regions that are rounded to elements.
    sensitive : bool
        Whether each bin reads channels of its own.
    images, channels, height, width : int
        Of the images.
    rows, columns : int
        Bins of a region.
    scale : float
        From the coordinates of regions to those of elements.
    samples : int
        Of a bin along each dimension; 0 for as many as it has elements.
    aligned : bool
        Whether coordinates are moved by half an element.
    """

    method: str
    sensitive: bool
    images: int
    channels: int
    height: int
    width: int
    rows: int
    columns: int
    scale: float
    samples: int = 0
    aligned: bool = False

    @property
    def out_channels(self) -> int:
        """Channels of the result."""
        return self.channels // (self.rows * self.columns) if self.sensitive else self.channels

    def packed(self) -> bytes:
        """The structure of the same name in CUDA C++."""
        sizes = (self.images, self.channels, self.height, self.width, self.rows, self.columns)
        return struct.pack("=d8i", self.scale, *sizes, self.samples, self.aligned)


def plan(device: Device, regions: Regions, dtype: dtype, *, backward: bool) -> Callable[..., None]:
    """What pools regions of contiguous images, or gives the gradient of the images.

    Returns
    -------
    callable
        ``run(stream_handle, regions, image_address, boxes_address, out_address, where_address)``; backward
        ``run(stream_handle, regions, grad_address, boxes_address, where_address, image_grad_address)``. ``where`` holds
        int32 positions of maxima and may be 0 for what is no maximum. The gradient is added to what is there: float64 for
        float64, otherwise float32, in no fixed order.
    """
    function = f"{regions.method}{'_backward' if backward else ''}"
    name = f"{'sensitive_' if regions.sensitive else ''}{function}_{dtype.name}"
    ends = "const int* where, Sum* grad_in" if backward else f"{dtype.cuda}* out, int* where"
    parameters = [f"const {dtype.cuda}* in", f"const {dtype.cuda}* boxes", *ends.split(", ")]
    passed = ", ".join(each.split()[-1] for each in parameters)
    source = (
        f"{includes('regions.cuh')}typedef {sum_type(dtype)} Sum;\n\n"
        f'extern "C" __global__ void {name}(Regions r, long long regions, {", ".join(parameters)}) {{\n'
        f"    {function}<{str(regions.sensitive).lower()}, Sum>(r, regions, {passed});\n}}\n"
    )
    packed = regions.packed()
    launch = launcher(device, "regions.cu", source, name, (len(packed), "q", *"PPPP"))
    each = regions.out_channels * regions.rows * regions.columns

    def run(stream: Any, count: int, *addresses: int) -> None:
        launch(grid_of(count * each), 1, 1, THREADS, 1, 1, 0, stream, packed, count, *addresses)

    return run


def words_of(boxes: int) -> int:
    """How many words of 64 bits the overlaps of so many boxes are."""
    return boxes * -(-boxes // _WORD)


def plan_suppression(device: Device, dtype: dtype) -> Callable[..., None]:
    """What suppresses boxes that overlap better ones, of which the best comes first.

    Returns
    -------
    callable
        ``run(stream_handle, boxes, threshold, corners_address, words_address, stays_address)``: scratch of
        :func:`words_of` words, and a bool for each of at most ``MOST_BOXES`` boxes.
    """
    name = f"overlaps_{dtype.name}"
    source = (
        f"{includes('regions.cuh')}"
        f'extern "C" __global__ void {name}(\n'
        f"    int boxes, double threshold, const {dtype.cuda}* corners, unsigned long long* words) {{\n"
        f"    overlaps<{sum_type(dtype)}>(boxes, threshold, corners, words);\n}}\n"
        f'extern "C" __global__ void suppress_{dtype.name}(int boxes, const unsigned long long* words, bool* stays) {{\n'
        f"    extern __shared__ unsigned long long removed[];\n"
        f"    suppress(boxes, words, removed, stays);\n}}\n"
    )
    compare = launcher(device, "suppression.cu", source, name, "idPP")
    suppress = launcher(device, "suppression.cu", source, f"suppress_{dtype.name}", "iPP")

    def run(stream: Any, boxes: int, threshold: float, corners: int, words: int, stays: int) -> None:
        columns = -(-boxes // _WORD)
        compare(columns, columns, 1, _WORD, 1, 1, 0, stream, boxes, threshold, corners, words)
        threads = min(-(-columns // 32) * 32, 1024)
        suppress(1, 1, 1, threads, 1, 1, columns * 8, stream, boxes, words, stays)

    return run
