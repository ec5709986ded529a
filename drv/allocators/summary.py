"""The readable table of an allocator's statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SIZES = (
    ("allocated_bytes", "Allocated memory"),
    ("active_bytes", "Active memory"),
    ("requested_bytes", "Requested memory"),
    ("reserved_bytes", "GPU reserved memory"),
    ("inactive_split_bytes", "Non-releasable memory"),
)
_COUNTS = (
    ("allocation", "Allocations"),
    ("active", "Active allocs"),
    ("segment", "GPU reserved segments"),
    ("inactive_split", "Non-releasable allocs"),
)
_OVERSIZE = (
    ("oversize_allocations", "Oversize allocations"),
    ("oversize_segments", "Oversize GPU segments"),
)
_FIGURES = ("current", "peak", "allocated", "freed")
_WIDTH = 75


def memory_summary(statistics: Mapping[str, int], device: int, *, abbreviated: bool = False) -> str:
    """Table of ``statistics`` (:meth:`~drv.allocators.protocol.Allocator.statistics`).

    Parameters
    ----------
    device : int
        Ordinal of the device, for the title.
    abbreviated : bool
        Whether to leave out the small and the large pool.
    """
    double, single = "=" * _WIDTH, "-" * _WIDTH
    ooms, retries = statistics["num_ooms"], statistics["num_alloc_retries"]
    heading = f"graphroot CUDA memory summary, device ID {device}"
    lines = [
        double,
        f" {'':16} {heading:<57}",
        single,
        f"  {'':9} CUDA OOMs: {ooms:<12d} | {'':6} cudaMalloc retries: {retries:<8d}  ",
        double,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    pools = [("all", "")]
    if not abbreviated:
        pools += [("large_pool", "      from large pool"), ("small_pool", "      from small pool")]
    for metrics, write in ((_SIZES, _format_size), (_COUNTS, _format_count)):
        for key, name in metrics:
            lines.append(single)
            scales = [statistics[f"{key}.all.{figure}"] for figure in _FIGURES]
            for pool, label in pools:
                values = [statistics[f"{key}.{pool}.{figure}"] for figure in _FIGURES]
                lines.append(_row(label or name, values, scales, write))
    for key, name in _OVERSIZE:
        values = [statistics[f"{key}.{figure}"] for figure in _FIGURES]
        lines += [single, _row(name, values, values, _format_count)]
    lines.append(double)
    return "|" + "|\n|".join(lines) + "|\n"


def _row(name: str, values: list[int], scales: list[int], write: Callable[[int, int], str]) -> str:
    cells = " | ".join(write(value, scale) for value, scale in zip(values, scales, strict=True))
    return f" {name:<21} | {cells} "


def _format_size(size: int, scale: int) -> str:
    """``size`` in the unit that suits ``scale``, so that the rows of one metric have one unit."""
    units = ["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"]
    unit, rough = 0, float(scale)
    while rough >= 768 * 1024 and unit < len(units) - 1:
        unit += 1
        size //= 1024
        rough /= 1024
    return f"{size:6d} {units[unit]}"


def _format_count(count: int, scale: int) -> str:
    units = [" ", "K", "M"]
    unit, rough = 0, float(scale)
    while rough >= 750 * 1000 and unit < len(units) - 1:
        unit += 1
        count //= 1000
        rough /= 1000
    return f"{count:7d} {units[unit]} "
