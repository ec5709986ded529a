"""Images sampled at the positions of a grid: see ``cuda/grid_sampling.cuh``."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from .convolution import THREADS, grid_of
from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

#: Channels that a thread goes over, where there are threads enough.
_CHANNELS = 8
#: Threads of a multiprocessor that keep the memory busy.
_BUSY = 2048
_WEIGHTS = {"nearest": "Nearest", "bilinear": "Linear", "bicubic": "Cubic"}


class Sampling(NamedTuple):
    """What is read where.

    Attributes
    ----------
    items, channels
        Of the images.
    size, out : tuple of int
        Height and width, for volumes after the depth, of images and of the grid.
    mode : {"nearest", "bilinear", "bicubic"}
        What is read between elements; the last one is for images only.
    padding : {"zeros", "border", "reflection"}
        What is outside of images.
    align_corners : bool
        Whether -1 and 1 are the centres of the end elements, not their outer edges.
    """

    items: int
    channels: int
    size: tuple[int, ...]
    out: tuple[int, ...]
    mode: str
    padding: str
    align_corners: bool

    def packed(self) -> bytes:
        """The structure of the same name in CUDA C++."""
        size = (1,) * (3 - len(self.size)) + self.size
        return struct.pack("=5i", self.channels, prod(self.out), *size)

    @property
    def template(self) -> str:
        """Template arguments of the kernels."""
        weights = f"{_WEIGHTS[self.mode]}<Sum>"
        depth = weights if len(self.size) == 3 else "One<Sum>"
        align = str(self.align_corners).lower()
        offset = "int" if prod(self.size) < 1 << 31 else "long long"
        return f"{offset}, {len(self.size)}, {depth}, {weights}, {weights}, {self.padding.upper()}, {align}"

    @property
    def label(self) -> str:
        """For names of kernels."""
        return f"{len(self.size)}d_{self.mode}_{self.padding}{'_aligned' if self.align_corners else ''}"


def sum_type(dtype: dtype) -> str:
    """Type in CUDA C++ that elements of type ``dtype`` are added up in."""
    return "double" if dtype.name == "float64" else "float"


def plan(device: Device, sampling: Sampling, dtype: dtype) -> Callable[..., None]:
    """What reads contiguous images at a contiguous grid.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, image_address, grid_address)``.
    """
    threads = sampling.items * sampling.channels * prod(sampling.out)
    each = max(1, min(_CHANNELS, threads // (_BUSY * device.attribute("MULTIPROCESSOR_COUNT"))))
    groups = -(-sampling.channels // each)
    launch = _kernel(
        device,
        "grid_sample",
        sampling,
        dtype,
        "",
        [f"const {dtype.cuda}* in", f"const {dtype.cuda}* grid", f"{dtype.cuda}* out"],
    )
    packed, grid = sampling.packed(), grid_of(sampling.items * groups * prod(sampling.out))

    def run(stream: Any, out: int, image: int, grid_address: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, packed, sampling.items, groups, image, grid_address, out)

    return run


def plan_backward(
    device: Device, sampling: Sampling, dtype: dtype, *, to_image: bool, to_grid: bool
) -> Callable[..., None]:
    """What gives gradients of the image, of the grid, or of both.

    Returns
    -------
    callable
        ``run(stream_handle, image_grad_address, grid_grad_address, grad_address, image_address, grid_address)``.
        The address of a gradient that is not computed may be 0. The gradient of the image is added to what is there: float64 for float64,
        otherwise float32, in no fixed order.
    """
    # A thread sums up all channels for the grid.
    groups = 1 if to_grid else sampling.channels
    parameters = [f"const {dtype.cuda}* {name}" for name in ("grad", "in", "grid")]
    launch = _kernel(
        device,
        "grid_sample_backward",
        sampling,
        dtype,
        f", {str(to_image).lower()}, {str(to_grid).lower()}",
        [*parameters, "Sum* grad_in", f"{dtype.cuda}* grad_grid"],
    )
    packed, grid = sampling.packed(), grid_of(sampling.items * groups * prod(sampling.out))

    def run(stream: Any, image_grad: int, grid_grad: int, grad: int, image: int, grid_address: int) -> None:
        launch(
            grid, 1, 1, THREADS, 1, 1, 0, stream,
            packed, sampling.items, groups, grad, image, grid_address, image_grad, grid_grad,
        )  # fmt: skip

    return run


def _kernel(
    device: Device, function: str, sampling: Sampling, dtype: dtype, template: str, parameters: list[str]
) -> Callable[..., None]:
    name = f"{function}_{sampling.label}_{dtype.name}"
    passed = ", ".join(each.split()[-1] for each in parameters)
    source = (
        f"{includes('grid_sampling.cuh')}typedef {sum_type(dtype)} Sum;\n\n"
        f'extern "C" __global__ void {name}(Sampling s, long long items, int groups, {", ".join(parameters)}) {{\n'
        f"    {function}<{sampling.template}{template}, Sum>(s, items, groups, {passed});\n}}\n"
    )
    codes = (len(sampling.packed()), "q", "i", *"P" * len(parameters))
    return launcher(device, "grid_sampling.cu", source, name, codes)
