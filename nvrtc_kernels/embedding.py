"""Bags of rows of a table, summed without gathering them: see ``cuda/embedding_bag.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dtypes import float64
from .plans import NOTHING, includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
_MAX_GRID = (1 << 31) - 1
MODES = ("sum", "mean", "max")


def plan(
    device: Device, mode: str, dtype: dtype, bags: int, columns: int, rows: int, count: int, skipped: int
) -> Callable[..., None]:
    """What combines the rows of a contiguous ``(rows, columns)`` table in ``bags`` bags.

    Parameters
    ----------
    mode
        One of :data:`MODES`.
    count
        Positions in all bags together.
    skipped
        Index of positions that count nothing; a negative one for none.

    Returns
    -------
    callable
        ``run(stream_handle, table, indices, starts, factors, out, chosen)``, all addresses; indices and the
        first position of each bag are int64, ``factors`` of each position may be 0 (maxima have none), and
        ``chosen`` is int64: how many positions of each bag counted, or the row of each maximum.
    """
    if not bags or not columns:
        return NOTHING.run
    compute_type = "double" if dtype is float64 else "float"
    name = f"embedding_bag_{mode}"
    pointers = f"const {dtype.cuda}* table, const long long* index, const long long* starts, const {dtype.cuda}* factors"
    call = (
        f"largest_of_bags<{compute_type}>(sizes, table, index, starts, out, chosen)"
        if mode == "max"
        else f"sum_bags<{compute_type}, {'true' if mode == 'mean' else 'false'}>"
        "(sizes, table, index, starts, factors, out, chosen)"
    )
    source = (
        f"{includes('embedding_bag.cuh', dtype)}"
        f'extern "C" __global__ void {name}(long long bags, long long columns, long long rows, long long skipped, '
        f"long long count, {pointers}, {dtype.cuda}* out, long long* chosen) {{\n"
        f"    const Bags sizes{{bags, columns, rows, skipped, count}};\n    {call};\n}}\n"
    )
    launch = launcher(device, "embedding_bag.cu", source, name, "qqqqqPPPPPP")
    grid = min(-(-bags * columns // _THREADS), _MAX_GRID)

    def run(stream: Any, *addresses: int) -> None:
        launch(
            grid, 1, 1, _THREADS, 1, 1, 0, stream, bags, columns, rows, skipped, count, *addresses
        )  # fmt: skip

    return run
