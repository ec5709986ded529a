"""Bags of rows of a table, summed without gathering them, and the gradient of a table whose rows were looked up.

See ``cuda/embedding_bag.cuh`` and ``cuda/embedding_gradient.cuh``.
"""

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
#: Lookups at most for :func:`gradient`, whose blocks keep them in shared memory, and comparisons of a row with an index: there
#: each row looks at all indices, which for more of them takes longer than sorting them.
_MOST_LOOKUPS, _MOST_COMPARISONS = 4096, 1 << 23
#: Lookups at most for :func:`filed_gradient`, and how many of them for each row of the table: those of rows that have more than
#: there are slots (``EMBEDDING_SLOTS``) are looked for among all, which for more of them takes longer than sorting them.
_MOST_FILED, _MOST_FILED_A_ROW = 1 << 15, 4
#: Positions that a row has room for.
SLOTS = 16


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
        f"{includes('embedding_bag.cuh')}"
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


def has_gradient(table: dtype, rows: int, lookups: int) -> bool:
    """Whether :func:`gradient` is what suits a table of so many rows and so many lookups."""
    return table.is_floating_point and lookups <= _MOST_LOOKUPS and rows * lookups <= _MOST_COMPARISONS


def gradient(
    device: Device, table: dtype, rows: int, columns: int, index: dtype, lookups: int, skipped: int
) -> Callable[..., None]:
    """What makes the gradient of a ``(rows, columns)`` table from those of ``lookups`` rows, in one launch.

    Every run gives the same; half precision is rounded once.

    Parameters
    ----------
    table, index
        Types of the table, and of the indices: int64 or int32.
    skipped
        A row that gets no gradient; a negative one for none.

    Returns
    -------
    callable
        ``run(stream_handle, indices, grads, out)``, addresses of what is contiguous. Every row of ``out`` is written.
    """
    if not rows or not columns:
        return NOTHING.run
    compute_type = "double" if table is float64 else "float"
    most = 1 << max(lookups - 1, 31).bit_length()
    pointers = f"const {index.cuda}* indices, const {table.cuda}* grads, {table.cuda}* out"
    source = (
        f"{includes('embedding_gradient.cuh')}"
        'extern "C" __global__ void embedding_gradient('
        f"long long columns, int lookups, long long skipped, {pointers}) {{\n"
        f"    gradient_of_row<{compute_type}, {most}>(columns, lookups, skipped, indices, grads, out);\n}}\n"
    )
    launch = launcher(device, "embedding_gradient.cu", source, "embedding_gradient", "qiqPPP")

    def run(stream: Any, indices: int, grads: int, out: int) -> None:
        launch(rows, 1, 1, _THREADS, 1, 1, 0, stream, columns, lookups, skipped, indices, grads, out)

    return run


def has_filed_gradient(table: dtype, rows: int, lookups: int) -> bool:
    """Whether :func:`filed_gradient` is what suits a table of so many rows and so many lookups."""
    return table.is_floating_point and lookups <= min(_MOST_FILED, _MOST_FILED_A_ROW * rows)


def filed_gradient(
    device: Device, table: dtype, rows: int, columns: int, index: dtype, lookups: int, skipped: int
) -> Callable[..., None]:
    """What makes the gradient of a ``(rows, columns)`` table in two launches, as :func:`gradient` does in one.

    Returns
    -------
    callable
        ``run(stream_handle, indices, grads, counts, slots, out)``, addresses of what is contiguous: ``counts`` are ``rows``
        zeros, and ``slots`` room for ``rows`` times :data:`SLOTS` numbers, all int32.
    """
    if not rows or not columns:
        return NOTHING.run
    compute_type = "double" if table is float64 else "float"
    width = 16 // table.itemsize
    source = (
        f"{includes('embedding_gradient.cuh')}"
        f'extern "C" __global__ void file_embeddings(long long rows, int lookups, long long skipped, '
        f"const {index.cuda}* indices, int* counts, int* slots) {{\n"
        "    file_lookups(rows, lookups, skipped, indices, counts, slots);\n}\n"
    )
    for name, each in (("packs", width), ("elements", 1)):
        source += (
            f'extern "C" __global__ void embedding_gradient_of_{name}(long long rows, long long columns, int lookups, '
            f"const {index.cuda}* indices, const {table.cuda}* grads, const int* counts, const int* slots, "
            f"{table.cuda}* out) {{\n"
            f"    gradient_of_rows<{compute_type}, {each}>"
            "(rows, columns, lookups, indices, grads, counts, slots, out);\n}\n"
        )
    file = "embedding_gradient.cu"
    filing = launcher(device, file, source, "file_embeddings", "qiqPPP")
    packs, elements = (
        launcher(device, file, source, f"embedding_gradient_of_{name}", "qqiPPPPP")
        for name in ("packs", "elements")
    )
    filing_grid, grid = -(-lookups // _THREADS), -(-rows * 32 // _THREADS)

    def run(stream: Any, indices: int, grads: int, counts: int, slots: int, out: int) -> None:
        if lookups:
            filing(
                filing_grid, 1, 1, _THREADS, 1, 1, 0, stream, rows, lookups, skipped, indices, counts, slots
            )
        aligned = columns % width == 0 and (grads | out) % 16 == 0
        launch = packs if aligned else elements
        launch(
            grid, 1, 1, _THREADS, 1, 1, 0, stream, rows, columns, lookups, indices, grads, counts, slots, out
        )

    return run
