"""Sums of windows of signals where they overlap: see ``cuda/overlap_add.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .convolution import sum_type
from .plans import NOTHING, includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
#: Blocks per multiprocessor: enough threads to fill it.
_BLOCKS = 16


def plan(
    device: Device,
    signals: int,
    windows: int,
    size: int,
    step: int,
    extent: int,
    steps: tuple[int, int],
    dtype: dtype,
) -> Callable[..., None]:
    """What adds up ``windows`` windows of ``size`` elements, ``step`` apart, for each of some signals.

    Parameters
    ----------
    steps
        Elements from a signal's windows to the next one's, and from a window to the next, in memory.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, frames_address)``: ``out`` has shape ``(signals, extent)`` and is
        contiguous, as each window is. Elements that no window reaches become 0.
    """
    count = signals * extent
    if not count:
        return NOTHING.run
    # Half the range: a thread's last step may go past the end before it stops.
    small = max(count, signals * steps[0] + windows * steps[1] + size, windows * step) < 1 << 30
    index, code = ("int", "i") if small else ("long long", "q")
    name = f"overlap_add_{dtype.name}"
    source = (
        f'{includes("overlap_add.cuh")}extern "C" __global__ void {name}({index} signals, {index} windows, '
        f"{index} size, {index} step, {index} extent, {index} signal_step, {index} window_step, const {dtype.cuda}* frames, {dtype.cuda}* out) {{\n"
        f"    overlap_add<{sum_type(dtype)}>(signals, windows, size, step, extent, signal_step, window_step, frames, out);\n}}\n"
    )
    launch = launcher(device, "overlap_add.cu", source, name, (code,) * 7 + ("P", "P"))
    grid = min(-(-count // _THREADS), device.attribute("MULTIPROCESSOR_COUNT") * _BLOCKS)

    def run(stream: object, out: int, frames: int) -> None:
        launch(
            grid, 1, 1, _THREADS, 1, 1, 0, stream,
            signals, windows, size, step, extent, *steps, frames, out,
        )  # fmt: skip

    return run
