"""Dropout by the words of a counter-based generator, without a mask in memory: see ``cuda/dropout.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import host_loops
from .dtypes import float64
from .plans import NOTHING, includes, launcher
from .program import library_program

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
        f"{includes('dropout.cuh')}"
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


def plan_on_host(count: int, inner: int, dtype: dtype) -> Callable[..., None] | None:
    """What drops of contiguous elements on the CPU as a native loop, the same ones.

    Returns
    -------
    callable or None
        ``run(out, in, seed, call, below, scale, shift, otherwise)``, as that of :func:`plan`; ``None`` where there is no such
        loop.
    """
    if inner != 1 or dtype.is_complex or dtype.is_storage_only or not host_loops.worth(count):
        return None
    compute_type = "double" if dtype is float64 else "float"
    lanes = range(_WORDS)
    text = f"""{includes("dropout.cuh")}
struct Numbers {{
    {dtype.cuda} item[{_WORDS}];
}};

extern "C" __device__ Numbers {host_loops.ELEMENT}(
    long long block, {", ".join(f"{dtype.cuda} in{lane}" for lane in lanes)},
    Count seed, Count call, Count below, double scale, double shift, double otherwise) {{
    const Dropout<{compute_type}> dropout = {{
        seed, call, below, ({compute_type})scale, ({compute_type})shift, ({compute_type})otherwise}};
    const Words4 words = philox(seed, call, block);
    return {{{{{", ".join(f"to_element<{dtype.cuda}>(dropout(to_compute(in{lane}), words.word[{lane}]))" for lane in lanes)}}}}};
}}
"""
    program = library_program(text, "dropout.cu", *host_loops.RELOCATABLE, "--fmad=false")
    results = tuple((lane * dtype.itemsize, dtype) for lane in lanes)
    scalars = ("Q", "Q", "Q", "d", "d", "d")
    signature = host_loops.Signature(results, (dtype,) * _WORDS, scalars, counted=True, pack=_WORDS)
    return host_loops.plan_packs(program, signature, count)
