"""Normalising the elements of channels whose moments are known: see ``cuda/channel_normalization.cuh``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .normalization import statistics_type
from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
#: Packs of a thread, roughly, in a grid that does not grow any more.
_BLOCKS = 1 << 16
_LOAD_BYTES = 16


@dataclass(frozen=True, slots=True)
class Channels:
    """Memory of ``(outer, channels, inner)`` elements without gaps, none of them 0."""

    outer: int
    channels: int
    inner: int

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.outer * self.channels * self.inner

    def layout_class(self, width: int) -> str:
        """CUDA C++ class that tells the channels of ``width`` neighbours."""
        if self.inner % width == 0:
            return "Same"
        return "Consecutive" if self.inner == 1 and self.channels % width == 0 else "Any"


def plan(
    device: Device, sizes: Channels, input_dtype: dtype, moments: dtype, weight: dtype | None
) -> Callable[..., None]:
    """What normalises elements, to their own type.

    Returns
    -------
    callable
        ``run(stream_handle, eps, in, mean, variance, weight, bias, out)``, all addresses but for ``eps``; weight and
        bias, of one type, may be 0.
    """
    weight_type = (weight or input_dtype).cuda
    parameters = (
        f"double eps, const {input_dtype.cuda}* in, const {moments.cuda}* mean, const {moments.cuda}* variance, "
        f"const {weight_type}* weight, const {weight_type}* bias, {input_dtype.cuda}* out"
    )
    head = statistics_type(input_dtype).cuda
    passed = "eps, in, mean, variance, weight, bias, out"
    return _planned(
        device, sizes, "apply_channels", "batch_normalization", head, parameters, passed, "dPPPPPP", input_dtype.itemsize,
        numbers=1, packed=(0, 5),
    )  # fmt: skip


def plan_backward(
    device: Device,
    sizes: Channels,
    grad: dtype,
    input_dtype: dtype,
    moments: dtype,
    weight: dtype | None,
    *,
    training: bool,
) -> Callable[..., None]:
    """What makes the gradient of the elements, of their type.

    Returns
    -------
    callable
        ``run(stream_handle, eps, share, grad, in, mean, variance, weight, total, along, out)``, all addresses but
        for the first two. Sums are of :func:`.normalization.statistics_type`; without ``training`` they, the input
        and the mean are not read.
    """
    compute_type = statistics_type(input_dtype).cuda
    parameters = (
        f"double eps, double share, const {grad.cuda}* grad, const {input_dtype.cuda}* in, const {moments.cuda}* mean, "
        f"const {moments.cuda}* variance, const {(weight or input_dtype).cuda}* weight, const {compute_type}* total, "
        f"const {compute_type}* along, {input_dtype.cuda}* out"
    )
    head = f"{'true' if training else 'false'}, {compute_type}"
    name = "batch_normalization_backward" if training else "batch_normalization_of_running_backward"
    passed = "eps, share, grad, in, mean, variance, weight, total, along, out"
    return _planned(
        device, sizes, "apply_channels_backward", name, head, parameters, passed, "ddPPPPPPPP",
        max(grad.itemsize, input_dtype.itemsize), numbers=2, packed=(0, 1, 7),
    )  # fmt: skip


def _planned(
    device: Device,
    sizes: Channels,
    function: str,
    name: str,
    head: str,
    parameters: str,
    passed: str,
    codes: str,
    itemsize: int,
    *,
    numbers: int,
    packed: Sequence[int],
) -> Callable[..., None]:
    """``packed`` are the addresses that are read or written in packs, counted after the ``numbers``."""
    far = sizes.count * 2 >= 1 << 31
    index, code = ("long long", "q") if far else ("unsigned int", "I")

    def kernel(width: int) -> tuple[Callable[..., None], int]:
        kernel_name = f"{name}_{sizes.layout_class(width).lower()}_{width}"
        source = (
            f"{includes('channel_normalization.cuh')}"
            f'extern "C" __global__ void {kernel_name}({index} packs, {index} channels, {index} inner, {parameters}) {{\n'
            f"    {function}<{head}, {sizes.layout_class(width)}, {width}>(packs, channels, inner, {passed});\n}}\n"
        )
        launch = launcher(device, "channel_normalization.cu", source, kernel_name, (code, code, code, *codes))
        return launch, sizes.count // width

    width = max(_LOAD_BYTES // itemsize, 1)
    while sizes.count % width:
        width //= 2
    wide_launch, wide_packs = kernel(width)
    low = width * itemsize - 1
    positions = [numbers + position for position in packed]

    def run(stream: Any, *arguments: Any) -> None:
        low_bits = 0
        for position in positions:
            low_bits |= arguments[position]
        launch, packs = kernel(1) if low_bits & low else (wide_launch, wide_packs)
        grid = min(-(-packs // _THREADS), _BLOCKS)
        launch(
            grid, 1, 1, _THREADS, 1, 1, 0, stream, packs, sizes.channels, sizes.inner, *arguments
        )  # fmt: skip

    return run
