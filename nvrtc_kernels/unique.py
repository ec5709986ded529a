"""Runs of equal elements, which are the unique elements where the input is sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plans import Plan, includes, launcher

if TYPE_CHECKING:
    from drv import Device

    from .dtypes import dtype

_THREADS = 256
_MAX_GRID = (1 << 31) - 1
#: Blocks per multiprocessor that the input is cut for.
_BLOCKS = 4


def plan(device: Device, n: int, dtype: dtype, *, counts: bool = False) -> Plan:
    """What lists the runs of equal elements in ``n`` contiguous ones. A NaN is a run of its own.

    Parameters
    ----------
    dtype
        Type of the elements, not complex.
    counts
        Whether to count the elements of each run.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, number_address, values_address, input_address,
        inverse_address=0, places_address=0, counts_address=0)``. The number of runs goes to one int64; an
        element of each to ``values``, and its length to int64 ``counts``, both with room for ``n``, of
        which only as many as there are runs are written. ``inverse``, if not 0, gets the run of each of the
        ``n`` elements as int64: at the element's own index, or, if ``positions`` is not 0, at the int64 index
        that stands there, as a sort gives it. Outputs must not overlap inputs.

    Raises
    ------
    ValueError
        For a complex type.
    """
    if dtype.is_complex:
        raise ValueError(f"complex numbers have no order; {dtype!r} was given")
    chunks = max(min(-(-n // (4 * _THREADS)), device.attribute("MULTIPROCESSOR_COUNT") * _BLOCKS), 1)
    piece = max(-(-n // (chunks * _THREADS)), 1) * _THREADS
    chunks = max(-(-n // piece), 1)
    source = (
        f"{includes('unique.cuh')}"
        f"typedef TeamShape<{_THREADS}, 1, 1, false> Shape;\n\n"
        f'extern "C" __global__ void unique_count(long long n, long long piece, const {dtype.cuda}* in, '
        "long long* totals) {\n    count_runs<Shape>(n, piece, in, totals);\n}\n"
        'extern "C" __global__ void unique_write(long long n, long long piece, const long long* totals, '
        f"const {dtype.cuda}* in, const long long* positions, long long* number, {dtype.cuda}* values, "
        "long long* inverse, long long* starts) {\n"
        "    write_runs<Shape>(n, piece, totals, in, positions, number, values, inverse, starts);\n}\n"
        'extern "C" __global__ void unique_measure(long long n, const long long* number, '
        "const long long* starts, long long* counts) {\n    measure_runs(n, number, starts, counts);\n}\n"
    )
    count = launcher(device, "unique.cu", source, "unique_count", "qqPP")
    write = launcher(device, "unique.cu", source, "unique_write", "qqPPPPPPP")
    measure = launcher(device, "unique.cu", source, "unique_measure", "qPPP")
    starts_at = 8 * chunks
    grid = min(-(-n // _THREADS), _MAX_GRID)

    def run(
        stream: Any,
        scratch: int,
        number: int,
        values: int,
        input_address: int,
        inverse: int = 0,
        positions: int = 0,
        lengths: int = 0,
    ) -> None:
        starts = scratch + starts_at if counts else 0
        count(chunks, 1, 1, _THREADS, 1, 1, 0, stream, n, piece, input_address, scratch)
        write(
            chunks, 1, 1, _THREADS, 1, 1, 0, stream,
            n, piece, scratch, input_address, positions, number, values, inverse, starts,
        )  # fmt: skip
        if counts and n:
            measure(grid, 1, 1, _THREADS, 1, 1, 0, stream, n, number, starts, lengths)

    return Plan(run, starts_at + (8 * n if counts else 0))
