"""Norm of the elements of many tensors: see ``cuda/gradient_norms.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plans import includes, launcher
from .tensor_tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
#: Packs of 16 bytes that a thread of a full chunk reads.
_PACKS = 8
#: Threads that add up the partial sums.
_LAST_THREADS = 1024


def _chunk(dtype: dtype) -> int:
    width: int = 16 // dtype.itemsize
    return _THREADS * _PACKS * width


def partial_count(dtype: dtype, counts: Sequence[int]) -> int:
    """Partial sums that tensors of ``counts`` elements need memory for."""
    chunk = _chunk(dtype)
    return sum([-(-count // chunk) for count in counts])


def plan(device: Device, dtype: dtype) -> Callable[..., None]:
    """What computes the 2-norm of tensors of one real floating point type.

    Returns
    -------
    callable
        ``run(stream_handle, addresses, counts, partial, norm)``: ``counts`` are the tensors' elements, which lie
        without gaps and are not all none; ``partial`` is the address of :func:`partial_count` numbers and ``norm``
        that of the result, of float, or of double for double.
    """
    compute_type = "double" if dtype.cuda == "double" else "float"
    itemsize = 8 if compute_type == "double" else 4
    chunk, width = _chunk(dtype), 16 // dtype.itemsize
    tables = Tables(1, chunk)
    header = includes("gradient_norms.cuh")
    squares = launcher(
        device,
        "gradient_norms.cu",
        f'{header}extern "C" __global__ void squares_of_gradients({tables.parameters}, '
        f"{compute_type}* partial) {{\n"
        f"    squares_of_tensors<{dtype.cuda}, {chunk}, {width}>(table, tensors, partial);\n}}\n",
        "squares_of_gradients",
        (*tables.codes, "P"),
    )
    last = launcher(
        device,
        "gradient_norms.cu",
        f'{header}extern "C" __global__ void norm_of_gradients(const {compute_type}* partial, long long count, {compute_type}* norm) {{\n'
        "    norm_of_partials(partial, count, norm);\n}\n",
        "norm_of_gradients",
        ("P", "q", "P"),
    )

    def run(stream: Any, addresses: Sequence[int], counts: Sequence[int], partial: int, norm: int) -> None:
        done = 0
        for grid, table, tensors in tables.launches(addresses, counts):
            squares(grid, 1, 1, _THREADS, 1, 1, 0, stream, table, tensors, partial + done * itemsize)
            done += grid
        last(1, 1, 1, _LAST_THREADS, 1, 1, 0, stream, partial, done, norm)

    return run
