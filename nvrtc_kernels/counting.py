"""How many elements fall in each bin: by their value, or by where it lies in a range."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any

from .dtypes import Category, float32, float64
from .layouts import collapse, extent
from .plans import NOTHING, Plan, includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
_MAX_GRID = (1 << 31) - 1
#: Bins that blocks count in shared memory, counters there, and most copies of each bin's.
_FEW_BINS, _COUNTERS, _MOST_COPIES = 4096, 8192, 32
#: Bins up to which counting all elements costs little more than reading them.
MOST_SPARE = _FEW_BINS - 1
#: Blocks per multiprocessor, where each ends with adding up its bins: so many run there at once.
_BLOCKS = 5


def bincount(
    device: Device,
    shape: Sequence[int],
    operand: tuple[Sequence[int], dtype],
    bins: int,
    weights: tuple[Sequence[int], dtype] | None = None,
    *,
    others: bool = False,
) -> Plan:
    """What counts how often each of the values 0 to ``bins - 1`` occurs. Other values fail an assertion.

    Parameters
    ----------
    operand
        Strides and integer type of the elements.
    weights
        Strides and type, float32 or float64, of what is added in place of ones. The order of additions is
        not fixed then, so that the last bits may differ from run to run.
    others
        Whether the last bin counts, without weights, all other values, too.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, output_address, input_address[, weights_address])``: ``bins``
        int64, or numbers of the type of the weights.

    Raises
    ------
    ValueError
        For elements that are no integers and weights of another type.
    """
    if operand[1].category is not Category.INTEGER:
        raise ValueError(f"bincount counts integers, {operand[1]!r} was given; convert to int64 first")
    if weights is not None and weights[1] not in (float32, float64):
        raise ValueError(f"weights are float32 or float64, {weights[1]!r} was given; convert to float64")
    if bins == 0:
        return NOTHING
    if weights is None:
        return _count(device, shape, operand, bins, "OpenBin{bins}" if others else "ValueBin{bins}", "", "")
    geometry, code, count, typed = _geometry(shape, operand[0], weights[0])
    out = weights[1].cuda
    source = _source(operand[1], out) + (
        f'extern "C" __global__ void weigh_bins({typed}, long long bins, const {operand[1].cuda}* in, '
        f"const {out}* weights, {out}* out) {{\n    weigh(geometry, count, ValueBin{{bins}}, in, weights, out);\n}}\n"
    )
    clear = _clear(device, source, bins)
    weigh = launcher(device, "counting.cu", source, "weigh_bins", (len(geometry), code, *"qPPP"))
    grid = min(-(-count // _THREADS), _MAX_GRID)

    def run(stream: Any, _: int, output: int, elements: int, weights_address: int) -> None:
        clear(stream, output)
        if count:
            weigh(
                grid, 1, 1, _THREADS, 1, 1, 0, stream,
                geometry, count, bins, elements, weights_address, output,
            )  # fmt: skip

    return Plan(run)


def histc(device: Device, shape: Sequence[int], operand: tuple[Sequence[int], dtype], bins: int) -> Plan:
    """What counts elements in ``bins`` bins of equal width from ``low`` to ``high``, both included.

    Elements outside and NaNs are not counted. ``high`` must be above ``low``.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, output_address, input_address, low, high)``: ``bins`` int64.

    Raises
    ------
    ValueError
        For a complex type and for no bins.
    """
    if operand[1].is_complex:
        raise ValueError(f"complex numbers have no order; {operand[1]!r} was given")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, {bins} was given")
    # Bins are computed in float for the dtypes that PyTorch computes them in float for, in double for the rest.
    compute = "float" if operand[1].is_floating_point and operand[1].itemsize < 8 else "double"
    number = "int" if bins <= _FEW_BINS else "long long"
    functor = f"RangeBin<{compute}, {number}>"
    limits = f"(static_cast<{number}>(bins), static_cast<{compute}>(low), static_cast<{compute}>(high))"
    return _count(device, shape, operand, bins, functor + limits, ", double low, double high", "dd")


def _count(
    device: Device,
    shape: Sequence[int],
    operand: tuple[Sequence[int], dtype],
    bins: int,
    bin_of: str,
    parameters: str,
    codes: str,
) -> Plan:
    geometry, code, count, typed = _geometry(shape, operand[0])
    few = bins <= _FEW_BINS
    # A power of two.
    copies = min(1 << (_COUNTERS // bins).bit_length() - 1, _MOST_COPIES) if few else 1
    memory = "shared" if few else "global"
    name = f"count_bins_in_{memory}"
    source = _source(operand[1], "unsigned long long") + (
        f'extern "C" __global__ void {name}({typed}, long long bins{parameters}, const {operand[1].cuda}* in, '
        f"unsigned long long* out) {{\n"
        f"    count_in_{memory}(geometry, count, {bin_of}, in, out{f', {copies}' if few else ''});\n}}\n"
    )
    clear = _clear(device, source, bins)
    launch = launcher(device, "counting.cu", source, name, (len(geometry), code, "q", *codes, *"PP"))
    most = device.attribute("MULTIPROCESSOR_COUNT") * _BLOCKS if few else _MAX_GRID
    grid, shared = min(-(-count // _THREADS), most), 4 * (bins + 1) * copies if few else 0

    def run(stream: Any, _: int, output: int, elements: int, *numbers: float) -> None:
        clear(stream, output)
        if count:
            launch(
                grid, 1, 1, _THREADS, 1, 1, shared, stream,
                geometry, count, bins, *numbers, elements, output,
            )  # fmt: skip

    return Plan(run)


def _geometry(shape: Sequence[int], *strides: Sequence[int]) -> tuple[bytes, str, int, str]:
    """The argument that says where elements lie, code and value of their number, and both parameters."""
    count = prod(shape)
    sizes, steps = collapse(shape, *strides) if count else ((1,), ((1,),) * len(strides))
    span = max(2 * count, *(extent(sizes, each)[1] for each in steps))
    index, code = ("int", "i") if span < 1 << 30 else ("long long", "q")
    numbers = [*sizes, *(step for each in steps for step in each)]
    typed = f"Geometry<{len(sizes)}, {len(strides)}, {index}> geometry, {index} count"
    return struct.pack(f"={len(numbers)}{code}", *numbers), code, count, typed


def _source(dtype: dtype, output: str) -> str:
    return (
        f"{includes('counting.cuh')}"
        f'extern "C" __global__ void clear_all_bins(long long bins, {output}* out) {{\n'
        "    clear_bins(bins, out);\n}\n"
    )


def _clear(device: Device, source: str, bins: int) -> Callable[[Any, int], None]:
    launch = launcher(device, "counting.cu", source, "clear_all_bins", "qP")
    grid = min(-(-bins // _THREADS), _MAX_GRID)

    def clear(stream: Any, output: int) -> None:
        launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, bins, output)

    return clear
