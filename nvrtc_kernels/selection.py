"""Selection from the rows of a contiguous ``(rows, n)`` array: the largest ones, an element of some rank, medians.

The few first ones of rows, of which there are many or which are not long, are found by a warp for each row. Other
rows of up to 2048 elements are sorted in shared memory, of which only the result is written. In longer
ones the element of a rank is found by radix select, 8 bits for each pass over them, by as many blocks as fill the device.
The order is that of :mod:`.sort`: -0.0 equals 0.0, NaN is larger than every number.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from . import sort
from .plans import NOTHING, Plan, includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
_ITEMS = 4
_MAX_GRID = (1 << 31) - 1
#: Most elements of a row, and least length of one, that warps select with a row each; and fewest long rows for each
#: multiprocessor.
_FEW, _LEAST, _MANY = 32, 256, 32
_WARPS, _WORD = _THREADS // 32, 16
#: Packs of a row that a lane of a warp remembers.
_MOST_PACKS = 16


def topk(device: Device, rows: int, n: int, k: int, dtype: dtype, *, largest: bool = True) -> Plan:
    """What takes the ``k`` largest (smallest) elements of every row, in sorted order.

    Of equal elements the first ones are taken, and written in the order they have in the row.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, values_address, indices_address, input_address)``: values and
        int64 indices are contiguous ``(rows, k)``.

    Raises
    ------
    ValueError
        For a complex type, a ``k`` below 0 or above ``n``, and rows too long to count in 32 bits.
    """
    sort.check(n, dtype)
    if not 0 <= k <= n:
        raise ValueError(f"k must be from 0 to the {n} elements of a row, {k} was given")
    if rows * k == 0:
        return NOTHING
    if (
        k <= _FEW
        and n >= _LEAST
        and (n <= sort.SHORT or rows >= _MANY * device.properties.multi_processor_count)
    ):
        return _first(device, rows, n, k, dtype, descending=largest)
    if n <= sort.SHORT:
        return _short(sort.short(device, rows, n, dtype, descending=largest), 0, k)
    search = _Search(device, rows, n, dtype, k - 1, descending=largest)
    bits, state = search.bits, f"Selected<{search.bits}>"
    source = search.source + (
        f'extern "C" __global__ void select_chunks(Chunks c, const {bits}* in, const {state}* selected, '
        "unsigned long long* totals) {\n    count_selected<KeyOrder>(c, in, selected, totals);\n}\n"
        f'extern "C" __global__ void select_all(Chunks c, unsigned k, const {bits}* in, const {state}* selected, '
        f"const unsigned long long* totals, {bits}* values, long long* positions) {{\n"
        f"    take_all_selected<KeyOrder, {_ITEMS}>(c, k, in, selected, totals, values, positions);\n}}\n"
    )
    chunked, grid = search.chunked, search.grid
    count = launcher(device, "selection.cu", source, "select_chunks", (len(chunked), *"PPP"))
    take = launcher(device, "selection.cu", source, "select_all", (len(chunked), *"IPPPPP"))
    find = search.finder(source)
    if k <= sort.SHORT:
        tile = sort.short(device, rows, k, dtype, descending=largest)
        order_bytes = 0

        def put_in_order(stream: Any, _: int, *addresses: int) -> None:
            tile(stream, 0, k, *addresses)
    else:
        put_in_order, order_bytes = sort.long(device, rows, k, dtype, descending=largest)
    # Totals of chunks, the selected elements and their positions, and what sorting them needs.
    totals_at = search.scratch_bytes
    values_at = totals_at + sort.aligned(8 * rows * search.chunks)
    positions_at = values_at + sort.aligned(rows * k * dtype.itemsize)
    order_at = positions_at + sort.aligned(8 * rows * k)

    def run(stream: Any, scratch: int, values: int, indices: int, input_address: int) -> None:
        totals, selected, positions = scratch + totals_at, scratch + values_at, scratch + positions_at
        find(stream, scratch, input_address, 0)
        count(grid, 1, 1, _THREADS, 1, 1, 0, stream, chunked, input_address, scratch, totals)
        take(
            grid,
            1,
            1,
            _THREADS,
            1,
            1,
            0,
            stream,
            chunked,
            k,
            input_address,
            scratch,
            totals,
            selected,
            positions,
        )
        put_in_order(stream, scratch + order_at, selected, positions, values, indices)

    return Plan(run, order_at + order_bytes)


def kth(device: Device, rows: int, n: int, k: int, dtype: dtype) -> Plan:
    """What takes the ``k``-th smallest element of every row, counted from 1.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, values_address, indices_address, input_address)``: one value
        and one int64 index for each row, an index of an element equal to the value.

    Raises
    ------
    ValueError
        For a complex type, a ``k`` below 1 or above ``n``, and rows too long to count in 32 bits.
    """
    sort.check(n, dtype)
    if not 1 <= k <= n:
        raise ValueError(f"k must be from 1 to the {n} elements of a row, {k} was given")
    if rows == 0:
        return NOTHING
    if n <= sort.SHORT:
        return _short(sort.short(device, rows, n, dtype, descending=False), k - 1, 1)
    return _one(device, rows, n, dtype, k - 1, "range")


def median(device: Device, rows: int, n: int, dtype: dtype, *, skip_nan: bool = False) -> Plan:
    """What takes the median of every row: the lower one of two.

    A row with a NaN has a NaN as its median; with ``skip_nan`` NaNs are left out, unless there is nothing
    else. Returns and raises as :func:`kth` does; rows must not be empty.
    """
    sort.check(n, dtype)
    if n == 0:
        raise ValueError("rows without elements have no median; n must be at least 1")
    if rows == 0:
        return NOTHING
    pick = "range" if not dtype.is_floating_point else "nan_median" if skip_nan else "median"
    rank = (n - 1) // 2
    if n <= sort.SHORT:
        return _short(sort.short(device, rows, n, dtype, descending=False, pick=pick), rank, 1)
    return _one(device, rows, n, dtype, rank, pick)


def _first(device: Device, rows: int, n: int, k: int, dtype: dtype, *, descending: bool) -> Plan:
    """The first few of every row: a warp has a row."""
    bits = sort.BITS[dtype.itemsize]
    if dtype.is_floating_point and dtype.itemsize <= 4:
        ordered = f"OrderedFloats<{dtype.cuda}, {bits}, {'true' if descending else 'false'}>"
    else:
        ordered = f"OrderedKeys<KeyOrder, {sort.BITS[max(dtype.itemsize, 4)]}>"
    grid = min(-(-rows // _WARPS), _MAX_GRID)

    def kernel(width: int) -> Callable[..., None]:
        name = f"topk_rows_of_{8 * dtype.itemsize}_bits"
        packs = -(-n // (32 * width))
        source = (
            f"{includes('elements.cuh')}"
            f"{sort.order(dtype, descending=descending, header='first_of_rows.cuh')}typedef {ordered} Row;\n\n"
            f'extern "C" __global__ void __launch_bounds__({_THREADS}, 4) {name}(long long rows, unsigned n, '
            f"unsigned count, const {bits}* in, {bits}* values, long long* indices) {{\n"
            f"    first_of_rows<Row, {width}, {packs if packs <= _MOST_PACKS else 0}>"
            "(rows, n, count, in, values, indices);\n}\n"
        )
        return launcher(device, "first_of_rows.cu", source, name, "qIIPPP")

    width = gcd(_WORD // dtype.itemsize, n)
    if 32 * width > n:
        # Lanes without an element tell nothing of the row: of bytes all would be collected for more than 16.
        width //= 2
    aligned, unaligned = kernel(width), None

    def run(stream: Any, _: int, values: int, indices: int, input_address: int) -> None:
        nonlocal unaligned
        launch = aligned
        if input_address % (width * dtype.itemsize):
            unaligned = launch = unaligned or kernel(1)
        launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, rows, n, k, input_address, values, indices)

    return Plan(run)


def _short(launch: Callable[..., None], first: int, count: int) -> Plan:
    def run(stream: Any, _: int, values: int, indices: int, input_address: int) -> None:
        launch(stream, first, count, input_address, 0, values, indices)

    return Plan(run)


def _one(device: Device, rows: int, n: int, dtype: dtype, rank: int, pick: str) -> Plan:
    search = _Search(device, rows, n, dtype, rank, descending=False, pick=pick)
    bits = search.bits
    source = search.source + (
        f'extern "C" __global__ void select_place(Chunks c, const {bits}* in, const Selected<{bits}>* selected, '
        "long long* positions) {\n    find_selected<KeyOrder>(c, in, selected, positions);\n}\n"
        f'extern "C" __global__ void select_value(long long rows, unsigned n, const {bits}* in, '
        f"const long long* positions, {bits}* values) {{\n    take_selected(rows, n, in, positions, values);\n}}\n"
    )
    chunked, grid = search.chunked, search.grid
    select = launcher(device, "selection.cu", source, "select_place", (len(chunked), *"PPP"))
    value = launcher(device, "selection.cu", source, "select_value", "qIPPP")
    value_grid = min(-(-rows // _THREADS), _MAX_GRID)
    find = search.finder(source)

    def run(stream: Any, scratch: int, values: int, indices: int, input_address: int) -> None:
        find(stream, scratch, input_address, indices)
        select(grid, 1, 1, _THREADS, 1, 1, 0, stream, chunked, input_address, scratch, indices)
        value(value_grid, 1, 1, _THREADS, 1, 1, 0, stream, rows, n, input_address, indices, values)

    return Plan(run, search.scratch_bytes)


class _Search:
    """The kernels that find the key of a rank in every row. Their result lies at the start of the scratch."""

    def __init__(
        self,
        device: Device,
        rows: int,
        n: int,
        dtype: dtype,
        rank: int,
        *,
        descending: bool = False,
        pick: str = "range",
    ) -> None:
        self.device, self.rows, self.n, self.dtype, self.rank = device, rows, n, dtype, rank
        self.descending, self.pick = descending, pick
        self.bits = sort.BITS[dtype.itemsize]
        self.chunked, self.grid, self.chunks = sort.cut(device, rows, n)
        self.counts_at = sort.aligned(16 * rows)
        self.nans_at = self.counts_at + sort.aligned(1024 * rows)
        self.scratch_bytes = self.nans_at + sort.aligned(4 * rows)
        self.source = self._source()

    def _source(self) -> str:
        bits, state = self.bits, f"Selected<{self.bits}>"
        skip_nan = "true" if self.pick == "nan_median" else "false"
        return (
            sort.order(self.dtype, descending=self.descending, header="selection.cuh")
            + 'extern "C" __global__ void select_begin(long long rows, unsigned n, unsigned rank, '
            f"{state}* selected, unsigned* counts, unsigned* nans, long long* positions) {{\n"
            "    select_start(rows, n, rank, selected, counts, nans, positions);\n}\n"
            f'extern "C" __global__ void select_nans(Chunks c, const {bits}* in, unsigned* nans) {{\n'
            "    count_nans<KeyOrder>(c, in, nans);\n}\n"
            f'extern "C" __global__ void select_count_digits(Chunks c, int shift, const {bits}* in, '
            f"const {state}* selected, unsigned* counts) {{\n"
            "    select_count<KeyOrder>(c, shift, in, selected, counts);\n}\n"
            'extern "C" __global__ void select_next_digit(Chunks c, int shift, const unsigned* nans, '
            f"unsigned* counts, {state}* selected) {{\n"
            f"    select_digit<KeyOrder, {skip_nan}>(c, shift, nans, counts, selected);\n}}\n"
        )

    def finder(self, source: str) -> Callable[..., None]:
        """``find(stream, scratch, input_address, positions)``; ``positions``, if not 0, are set to ``n``."""
        chunked, grid, rows, n, rank = self.chunked, self.grid, self.rows, self.n, self.rank
        counts_at, nans_at = self.counts_at, self.nans_at
        begin = launcher(self.device, "selection.cu", source, "select_begin", "qIIPPPP")
        nans = launcher(self.device, "selection.cu", source, "select_nans", (len(chunked), *"PP"))
        count = launcher(self.device, "selection.cu", source, "select_count_digits", (len(chunked), *"iPPP"))
        digit = launcher(self.device, "selection.cu", source, "select_next_digit", (len(chunked), *"iPPP"))
        depends_on_nans = self.pick != "range"
        row_grid = min(rows, _MAX_GRID)
        shifts = range(8 * self.dtype.itemsize - 8, -1, -8)

        def find(stream: Any, scratch: int, input_address: int, positions: int) -> None:
            counts, nan_counts = scratch + counts_at, scratch + nans_at if depends_on_nans else 0
            begin(
                row_grid, 1, 1, _THREADS, 1, 1, 0, stream,
                rows, n, rank, scratch, counts, nan_counts, positions,
            )  # fmt: skip
            if depends_on_nans:
                nans(grid, 1, 1, _THREADS, 1, 1, 0, stream, chunked, input_address, nan_counts)
            for shift in shifts:
                count(grid, 1, 1, _THREADS, 1, 1, 0, stream, chunked, shift, input_address, scratch, counts)
                digit(row_grid, 1, 1, _THREADS, 1, 1, 0, stream, chunked, shift, nan_counts, counts, scratch)
                nan_counts = 0

        return find
