"""Matrix products that cuBLAS does not have: those of integers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from drv import prepare

from .kernel_cache import KernelCache
from .program import library_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_TILE = 16
_MAX_ROWS, _MAX_BATCH = 65535, 65535


def plan(
    device: Device,
    dtype: dtype,
    sizes: tuple[int, int, int, int],
    a: Sequence[int],
    b: Sequence[int],
    c: Sequence[int],
) -> Callable[[Any, int, int, int], None]:
    """What launches the product of a batch of integer matrices.

    Parameters
    ----------
    sizes
        Matrices, rows of A, columns of B, columns of A.
    a, b, c
        Strides ``(batch, row, column)`` of A, B and the product, in elements.

    Returns
    -------
    callable
        ``run(stream_handle, a, b, c)`` with addresses.
    """
    count, m, n, k = sizes
    launch = _launcher(device, dtype)
    layouts = [struct.pack("=3q", *strides) for strides in (a, b, c)]
    columns, rows = -(-n // _TILE), min(-(-m // _TILE), _MAX_ROWS)
    steps = [(first, min(count - first, _MAX_BATCH)) for first in range(0, count, _MAX_BATCH)]

    def run(stream: Any, at_a: int, at_b: int, at_c: int) -> None:
        for first, many in steps:
            addresses = [
                start + first * strides[0] * dtype.itemsize
                for start, strides in ((at_a, a), (at_b, b), (at_c, c))
            ]
            launch(columns, rows, many, _TILE, _TILE, 1, 0, stream, m, n, k, *layouts, *addresses)

    return run


def _launcher(device: Device, dtype: dtype) -> Callable[..., None]:
    def make() -> Callable[..., None]:
        source = (
            '#include "integer_product.cuh"\n'
            f'extern "C" __global__ void matmul_{dtype.name}(long long m, long long n, long long k, MatrixStrides ca, '
            f"MatrixStrides cb, MatrixStrides cc, const {dtype.cuda}* a, const {dtype.cuda}* b, {dtype.cuda}* c) {{\n"
            "    integer_product(m, n, k, ca, cb, cc, a, b, c);\n}\n"
        )
        program = library_program(source, "matmul.cu")
        function = KernelCache.of(device.runtime).function(program, f"matmul_{dtype.name}", device)
        return prepare(function, ("q", "q", "q", 24, 24, 24, "P", "P", "P"))

    return device.runtime.cache(("integer product", device.ordinal, dtype), make)
