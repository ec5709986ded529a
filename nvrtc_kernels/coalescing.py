"""Many tensors copied behind each other, or summed up, in few launches: see ``cuda/coalescing.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plans import includes, launcher
from .tensor_tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
#: Packs of every source that a thread of a full chunk reads.
_PACKS = 4
#: Types that elements are copied as, by their size: bits stay as they are.
_BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
#: Sources that are added by one launch at most. More are added in several.
MAX_SOURCES = 16


def plan(device: Device, dtype: dtype, sources: int = 1) -> Callable[..., None]:
    """What copies tensors of one type that is not complex, or sums up ``sources`` of them, element by element.

    Returns
    -------
    callable
        ``run(stream_handle, addresses, counts)``: ``addresses`` are for each result its own, then those of its
        sources; ``counts`` are the elements of the results, which lie without gaps, as those of their sources do.
        A result may be the first of its sources.
    """
    if not 1 <= sources <= MAX_SOURCES:
        raise ValueError(f"one launch adds 1 to {MAX_SOURCES} sources, not {sources}")
    element = _BITS[dtype.itemsize] if sources == 1 else dtype.cuda
    width = 16 // dtype.itemsize
    chunk = _THREADS * _PACKS * width
    tables = Tables(sources + 1, chunk)
    name = "copy_tensors" if sources == 1 else "sum_tensors"
    header = includes("coalescing.cuh")
    launch = launcher(
        device,
        "coalescing.cu",
        f'{header}extern "C" __global__ void {name}({tables.parameters}) {{\n'
        f"    sum_sources<{element}, {chunk}, {width}>(table, tensors);\n}}\n",
        name,
        tables.codes,
    )

    return _over_tables(launch, tables)


def plan_casts(device: Device, target: dtype, source: dtype) -> Callable[..., None]:
    """What converts tensors of one floating dtype to another, many of them in few launches.

    Returns
    -------
    callable
        ``run(stream_handle, addresses, counts)``: ``addresses`` are for each tensor its target's, then its source's;
        ``counts`` are the elements, which lie without gaps and in the same order.
    """
    width = 16 // min(target.itemsize, source.itemsize)
    chunk = _THREADS * _PACKS * width
    tables = Tables(2, chunk)
    launch = launcher(
        device,
        "coalescing.cu",
        f'{includes("coalescing.cuh")}extern "C" __global__ void cast_tensors({tables.parameters}) {{\n'
        f"    cast_tensors<{target.cuda}, {source.cuda}, {chunk}, {width}>(table, tensors);\n}}\n",
        "cast_tensors",
        tables.codes,
    )

    return _over_tables(launch, tables)


def _over_tables(launch: Callable[..., None], tables: Tables) -> Callable[..., None]:
    def run(stream: Any, addresses: Sequence[int], counts: Sequence[int]) -> None:
        for grid, table, tensors in tables.launches(addresses, counts):
            launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, table, tensors)

    return run
