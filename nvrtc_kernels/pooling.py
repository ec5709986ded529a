"""Pooling of images and its derivatives: see ``cuda/pooling.cuh``."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any

from .convolution import THREADS, Windows, grid_of, sum_type
from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

#: Regular windows, or for adaptive ones the sizes of the image and of the result.
Pool = Windows | tuple[tuple[int, int, int], tuple[int, int, int]]


def sizes(pool: Pool) -> tuple[int, int]:
    """Elements of a plane of the image, and of the result."""
    if isinstance(pool, Windows):
        return prod(pool.size), pool.positions
    return prod(pool[0]), prod(pool[1])


def plan_max(device: Device, pool: Pool, planes: int, dtype: dtype) -> Callable[..., None]:
    """What finds the largest elements, and their indices in their plane.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, indices_address, in_address)``, the indices int64.
    """
    launch = _kernel(
        device,
        "max_pool",
        pool,
        dtype,
        "",
        [f"const {dtype.cuda}* in", f"{dtype.cuda}* out", "long long* places"],
    )
    packed, grid = _packed(pool), grid_of(planes * sizes(pool)[1])

    def run(stream: Any, out: int, indices: int, input_address: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, packed, planes, input_address, out, indices)

    return run


def plan_max_backward(device: Device, pool: Pool, planes: int, dtype: dtype) -> Callable[..., None]:
    """What gives each gradient to the element it came from.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, grad_address, places_address)``.
    """
    parameters = [f"const {dtype.cuda}* grad", "const long long* places", f"{dtype.cuda}* out"]
    launch = _kernel(device, "max_pool_backward", pool, dtype, sum_type(dtype), parameters)
    packed, grid = _packed(pool), grid_of(planes * sizes(pool)[0])

    def run(stream: Any, out: int, grad: int, indices: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, packed, planes, grad, indices, out)

    return run


def plan_avg(
    device: Device, pool: Pool, planes: int, dtype: dtype, *, with_padding: bool, fixed: int, backward: bool
) -> Callable[..., None]:
    """What takes means over windows, or gives the gradient of each to all elements of its window.

    Parameters
    ----------
    with_padding
        Whether the padding counts as elements.
    fixed
        What sums are divided by in any case; 0 for the number of elements.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, in_address)``.
    """
    name = "avg_pool_backward" if backward else "avg_pool"
    parameters = ["int with_padding", "int fixed", f"const {dtype.cuda}* in", f"{dtype.cuda}* out"]
    launch = _kernel(device, name, pool, dtype, sum_type(dtype), parameters)
    packed, grid = _packed(pool), grid_of(planes * sizes(pool)[0 if backward else 1])

    def run(stream: Any, out: int, input_address: int) -> None:
        launch(
            grid, 1, 1, THREADS, 1, 1, 0, stream, packed, planes, int(with_padding), fixed, input_address, out
        )

    return run


def _packed(pool: Pool) -> bytes:
    return pool.packed(1) if isinstance(pool, Windows) else struct.pack("=6i", *pool[0], *pool[1])


def _kernel(
    device: Device, function: str, pool: Pool, dtype: dtype, template: str, parameters: list[str]
) -> Callable[..., None]:
    shape = "Regular" if isinstance(pool, Windows) else "Adaptive"
    name = f"{'' if shape == 'Regular' else 'adaptive_'}{function}_{dtype.name}"
    passed = ", ".join(["pool", "planes", *(each.split()[-1] for each in parameters)])
    source = (
        f'{includes("pooling.cuh", dtype)}extern "C" __global__ void {name}({shape} pool, long long planes, '
        f"{', '.join(parameters)}) {{\n    {function}{f'<{template}>' if template else ''}({passed});\n}}\n"
    )
    codes = ["i" if each.startswith("int ") else "P" for each in parameters]
    return launcher(device, "pooling.cu", source, name, (len(_packed(pool)), "q", *codes))
