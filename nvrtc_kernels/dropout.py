"""Dropout by the words of a counter-based generator, without a mask in memory: see ``cuda/dropout.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dtypes import float64
from .plans import NOTHING, includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
#: Elements of a thread, one for each word of a block.
_WORDS = 4
#: Blocks per multiprocessor: enough threads to fill it.
_BLOCKS = 16


def plan(device: Device, count: int, inner: int, dtype: dtype) -> Callable[..., None]:
    """What drops of ``count`` contiguous elements, ``inner`` neighbours of which stand or fall together.

    Returns
    -------
    callable
        ``run(stream_handle, seed, call, below, scale, shift, otherwise, in, out)``: an element whose word of the
        call is under ``below`` becomes ``x * scale + shift``, others ``otherwise``. The two last are addresses,
        which may be the same.
    """
    if not count:
        return NOTHING.run
    compute_type = "double" if dtype is float64 else "float"
    head = "Count count, Count seed, Count call, Count below, double scale, double shift, double otherwise"
    functor = f"Dropout<{compute_type}>{{seed, call, below, ({compute_type})scale, ({compute_type})shift, ({compute_type})otherwise}}"
    operands = f"const {dtype.cuda}* in, {dtype.cuda}* out"
    each = inner == 1
    name = "dropout" if each else "dropout_of_features"
    more, function = ("bool wide_access", "elements") if each else ("Count inner", "features")
    source = (
        f"{includes('dropout.cuh', dtype)}"
        f'extern "C" __global__ void {name}({head}, {more}, {operands}) {{\n'
        f"    dropout_{function}<{compute_type}>({functor}, count, {more.split()[1]}, in, out);\n}}\n"
    )
    codes = ("Q", "Q", "Q", "Q", "d", "d", "d", "?" if each else "Q", "P", "P")
    launch = launcher(device, "dropout.cu", source, name, codes)
    threads = -(-count // _WORDS) if each else count
    grid = min(-(-threads // _THREADS), device.attribute("MULTIPROCESSOR_COUNT") * _BLOCKS)
    low = _WORDS * dtype.itemsize - 1

    def run(
        stream: Any, seed: int, call: int, below: int, scale: float, shift: float, otherwise: float,
        input_address: int, out: int,
    ) -> None:  # fmt: skip
        extra = not (input_address | out) & low if each else inner
        launch(
            grid, 1, 1, _THREADS, 1, 1, 0, stream,
            count, seed, call, below, scale, shift, otherwise, extra, input_address, out,
        )  # fmt: skip

    return run
