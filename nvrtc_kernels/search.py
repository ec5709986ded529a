"""Where values belong in sorted sequences, by binary search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dtypes import int32, int64
from .plans import NOTHING, Plan, includes, launcher

if TYPE_CHECKING:
    from drv import Device

    from .dtypes import dtype

_THREADS = 256
_MAX_GRID = (1 << 31) - 1


def plan(
    device: Device,
    rows: int,
    n: int,
    m: int,
    dtype: dtype,
    *,
    output: dtype = int64,
    right: bool = False,
    shared: bool = False,
) -> Plan:
    """What finds for every value the index in a sorted sequence before which it belongs.

    Parameters
    ----------
    rows, n
        Shape of the contiguous values and of the output.
    m
        Elements of each sequence: contiguous ``(rows, m)``, or ``(m,)`` when ``shared`` by all rows.
    dtype
        Type of values and sequences, not complex.
    output
        int32 or int64.
    right
        Whether a value belongs after the elements equal to it. NaN is larger than every number.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, output_address, values_address, sequence_address,
        sorter_address=0)``. The sorter has the int64 indices of each sequence's elements in sorted order.

    Raises
    ------
    ValueError
        For a complex type, for an output that is not an integer of 32 or 64 bits, and for sequences whose
        length is not an int32 when the indices are.
    """
    if dtype.is_complex:
        raise ValueError(f"complex numbers have no order; {dtype!r} was given")
    if output not in (int32, int64):
        raise ValueError(f"positions are int32 or int64, {output!r} was given")
    if output is int32 and m >= 1 << 31:
        raise ValueError(f"a position in a sequence of {m} elements is no int32; use int64")
    count = rows * n
    if count == 0:
        return NOTHING
    name = f"search_sorted_{'right' if right else 'left'}"
    source = (
        f"{includes('search.cuh')}"
        f'extern "C" __global__ void {name}(long long count, long long per_row, long long m, long long row_step, '
        f"const {dtype.cuda}* sequence, const long long* sorter, const {dtype.cuda}* values, {output.cuda}* out) {{\n"
        f"    search_rows<{'true' if right else 'false'}>"
        "(count, per_row, m, row_step, sequence, sorter, values, out);\n}\n"
    )
    launch = launcher(device, "search.cu", source, name, "qqqqPPPP")
    grid = min(-(-count // _THREADS), _MAX_GRID)
    row_step = 0 if shared else m

    def run(stream: Any, _: int, out: int, values: int, sequence: int, sorter: int = 0) -> None:
        launch(
            grid, 1, 1, _THREADS, 1, 1, 0, stream,
            count, n, m, row_step, sequence, sorter, values, out,
        )  # fmt: skip

    return Plan(run)
