"""Bytes per second of work that only moves memory.

With a GPU: on the device, timed by events, against PyTorch and the rate of a large copy there. Without: the
CPU forms, on arrays that no cache holds, against PyTorch's on one thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.bench.measure import OURS, Row, libraries, on_gpu, work_times

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

#: Elements of the arrays on a GPU and on the CPU.
ON_GPU, ON_CPU = 1 << 26, 1 << 22
#: Length of the rows of what works on rows.
ROW = 1024
#: Rows of the table whose operands are not contiguous: they need not reach the rate of a copy.
STRIDED = ("strided copy", "transposed copy", "columns' sum")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument("--elements", type=int, default=0, help="elements of an array")


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    gpu = on_gpu()
    device = "cuda" if gpu else "cpu"
    count = options.elements or (ON_GPU if gpu else ON_CPU)
    contenders = libraries(device)
    work = {name: _work(library, device, count) for name, library in contenders.items()}
    copy_rate: float | None = None
    for name, (_, moved) in work[OURS].items():
        if only not in name and name != "copy":
            continue
        calls = {library: result[name][0] for library, result in work.items() if name in result}
        times = work_times(calls, contenders)
        rates = {library: moved / time for library, time in times.items()}
        if name == "copy":
            copy_rate = rates[OURS]
        peers = [rate for library, rate in rates.items() if library != OURS]
        # The CPU forms are NumPy's: there is nothing to reach.
        reach = 0.95 * max(peers) if peers and gpu else None
        if gpu and copy_rate is not None and name not in STRIDED:
            reach = max(reach or 0.0, 0.9 * copy_rate)
        share = f"{rates[OURS] / copy_rate:.0%} of a copy" if copy_rate else ""
        if only in name:
            yield Row(name, "GB/s", rates, better="higher", reach=reach, note=share)


def _work(lib: Any, device: str, count: int) -> dict[str, tuple[Callable[[], object], int]]:
    """The same work of a library with PyTorch's names: what to call, and the bytes that it must move."""
    a, b, c, out = (lib.rand(count, device=device) for _ in range(4))
    half = a.to(lib.float16)
    table, table_out = a.view(-1, ROW), out.view(-1, ROW)
    square = 1 << (count.bit_length() // 2 - 1)
    matrix = a[: square * square].view(square, square)
    turned = out[: square * square].view(square, square)
    item = 4
    result: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (lambda: out.copy_(a), 2 * item * count),
        "add": (lambda: lib.add(a, b, out=out), 3 * item * count),
        "a * b + c": (lambda: lib.addcmul(c, a, b, out=out), 4 * item * count),
        "add a number in place": (lambda: out.add_(1.0), 2 * item * count),
        "cast to half": (lambda: half.copy_(a), 6 * count),
        "compare": (lambda: a < b, 9 * count),
        "sum": (lambda: a.sum(), item * count),
        "rows' sum": (lambda: table.sum(1), item * count),
        "columns' sum": (lambda: table.sum(0), item * count),
        "max": (lambda: a.max(), item * count),
        "cumsum": (lambda: lib.cumsum(table, 1, out=table_out), 2 * item * count),
        "softmax": (lambda: table.softmax(1), 2 * item * count),
        "strided copy": (lambda: out[::2].copy_(a[::2]), item * count),
        "transposed copy": (lambda: turned.copy_(matrix.t()), 2 * item * square * square),
        "index_select of rows": (_selected(lib, table, device), 2 * item * count),
    }
    return result


def _selected(lib: Any, table: Any, device: str) -> Callable[[], object]:
    order = lib.arange(table.shape[0] - 1, -1, -1, device=device)
    return lambda: table.index_select(0, order)
