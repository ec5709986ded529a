"""Pooling of images and its derivatives: see ``cuda/pooling.cuh``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from .convolution import THREADS, Three, Windows, grid_of, sum_type
from .plans import bound, includes

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype


@dataclass(frozen=True, slots=True)
class Adaptive:
    """As many windows as asked for, as equal as can be; each attribute has depth, height and width.

    Attributes
    ----------
    size, out : tuple of int
        Of the image and of the result.
    """

    size: Three
    out: Three


@dataclass(frozen=True, slots=True)
class Fractional:
    """Windows of one size at random positions; each attribute has depth, height and width.

    Attributes
    ----------
    size, out : tuple of int
        Of the image and of the result.
    kernel : tuple of int
        Of the windows.
    """

    size: Three
    out: Three
    kernel: Three


Pool = Windows | Adaptive | Fractional


def sizes(pool: Pool) -> tuple[int, int]:
    """Elements of a plane of the image, and of the result."""
    return prod(pool.size), prod(pool.out)


def plan_max(device: Device, pool: Pool, planes: int, dtype: dtype) -> Callable[..., None]:
    """What finds the largest elements, and their indices in their plane.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, indices_address, in_address)``, the indices int64.
    """
    parameters = [f"{dtype.cuda}* out", "long long* positions", f"const {dtype.cuda}* in"]
    call = "max_pool(pool, planes, in, out, positions)"
    return _bound(device, "max_pool", call, pool, dtype, parameters, planes, sizes(pool)[1])


def plan_fractional_max(
    device: Device, pool: Fractional, planes: int, rank: int, dtype: dtype, shares: dtype
) -> Callable[..., None]:
    """:func:`plan_max` for windows at random positions.

    Parameters
    ----------
    rank
        2 for images, 3 for volumes: how many shares of a step each plane has.
    shares
        Type of the shares.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, places_address, in_address, shares_address)``.
    """
    parameters = [
        "int rank", f"{dtype.cuda}* out", "long long* positions", f"const {dtype.cuda}* in", f"const {shares.cuda}* shares",
    ]  # fmt: skip
    name = f"max_pool_by_{shares.name}"
    call = f"fractional_max_pool<{sum_type(shares)}>(pool, planes, rank, in, shares, out, positions)"
    return _bound(device, name, call, pool, dtype, parameters, planes, sizes(pool)[1], rank, others=(shares,))


def plan_max_backward(device: Device, pool: Pool, planes: int, dtype: dtype) -> Callable[..., None]:
    """What gives each gradient to the element it came from.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, grad_address, places_address)``.
    """
    parameters = [f"{dtype.cuda}* out", f"const {dtype.cuda}* grad", "const long long* positions"]
    call = f"max_pool_backward<{sum_type(dtype)}>(pool, planes, grad, positions, out)"
    return _bound(device, "max_pool_backward", call, pool, dtype, parameters, planes, sizes(pool)[0])


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
    parameters = ["int with_padding", "int fixed", f"{dtype.cuda}* out", f"const {dtype.cuda}* given"]
    call = f"{name}<{sum_type(dtype)}>(pool, planes, with_padding, fixed, given, out)"
    area = sizes(pool)[0 if backward else 1]
    return _bound(device, name, call, pool, dtype, parameters, planes, area, int(with_padding), fixed)


def _packed(pool: Pool) -> bytes:
    if isinstance(pool, Windows):
        return pool.packed(1)
    numbers = (*pool.size, *pool.out, *(pool.kernel if isinstance(pool, Fractional) else ()))
    return struct.pack(f"={len(numbers)}i", *numbers)


def _bound(
    device: Device,
    function: str,
    call: str,
    pool: Pool,
    dtype: dtype,
    parameters: list[str],
    planes: int,
    area: int,
    *first: int,
    others: tuple[dtype, ...] = (),
) -> Callable[..., None]:
    """What launches a kernel that makes ``call``, for ``planes`` planes of ``area`` threads each.

    ``first`` are the values of its first ``parameters``, those after the planes; ``others`` are further element types.
    """
    shape = "Regular" if isinstance(pool, Windows) else type(pool).__name__
    name = f"{'' if shape == 'Regular' else f'{shape.lower()}_'}{function}_{dtype.name}"
    source = (
        f'{includes("pooling.cuh", dtype, *others)}extern "C" __global__ void {name}({shape} pool, long long planes, '
        f"{', '.join(parameters)}) {{\n    {call};\n}}\n"
    )
    packed = _packed(pool)
    codes = (len(packed), "q", *("i" if each.startswith("int ") else "P" for each in parameters))
    return bound(
        device, "pooling.cu", source, name, codes, grid_of(planes * area), THREADS, packed, planes, *first
    )
