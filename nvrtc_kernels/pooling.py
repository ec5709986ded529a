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


def plan_max(device: Device, pool: Pool, planes: int, kind: dtype) -> Callable[..., None]:
    """What finds the largest elements, and their places in their plane.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, places_address, in_address)``, the places int64.
    """
    launch = _kernel(
        device,
        "max_pool",
        pool,
        kind,
        "",
        [f"const {kind.cuda}* in", f"{kind.cuda}* out", "long long* places"],
    )
    packed, grid = _packed(pool), grid_of(planes * sizes(pool)[1])

    def run(stream: Any, out: int, places: int, given: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, packed, planes, given, out, places)

    return run


def plan_max_backward(device: Device, pool: Pool, planes: int, kind: dtype) -> Callable[..., None]:
    """What gives each gradient to the element it came from.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, grad_address, places_address)``.
    """
    parameters = [f"const {kind.cuda}* grad", "const long long* places", f"{kind.cuda}* out"]
    launch = _kernel(device, "max_pool_backward", pool, kind, sum_type(kind), parameters)
    packed, grid = _packed(pool), grid_of(planes * sizes(pool)[0])

    def run(stream: Any, out: int, grad: int, places: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, packed, planes, grad, places, out)

    return run


def plan_avg(
    device: Device, pool: Pool, planes: int, kind: dtype, *, with_padding: bool, fixed: int, backward: bool
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
        ``run(stream_handle, out_address, given_address)``.
    """
    name = "avg_pool_backward" if backward else "avg_pool"
    parameters = ["int with_padding", "int fixed", f"const {kind.cuda}* given", f"{kind.cuda}* out"]
    launch = _kernel(device, name, pool, kind, sum_type(kind), parameters)
    packed, grid = _packed(pool), grid_of(planes * sizes(pool)[0 if backward else 1])

    def run(stream: Any, out: int, given: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, packed, planes, int(with_padding), fixed, given, out)

    return run


def _packed(pool: Pool) -> bytes:
    return pool.packed(1) if isinstance(pool, Windows) else struct.pack("=6i", *pool[0], *pool[1])


def _kernel(
    device: Device, function: str, pool: Pool, kind: dtype, template: str, parameters: list[str]
) -> Callable[..., None]:
    shape = "Regular" if isinstance(pool, Windows) else "Adaptive"
    name = f"{'' if shape == 'Regular' else 'adaptive_'}{function}_{kind.name}"
    passed = ", ".join(["pool", "planes", *(each.split()[-1] for each in parameters)])
    source = (
        f'{includes("pooling.cuh", kind)}extern "C" __global__ void {name}({shape} pool, long long planes, '
        f"{', '.join(parameters)}) {{\n    {function}{f'<{template}>' if template else ''}({passed});\n}}\n"
    )
    codes = ["i" if each.startswith("int ") else "P" for each in parameters]
    return launcher(device, "pooling.cu", source, name, (len(_packed(pool)), "q", *codes))
