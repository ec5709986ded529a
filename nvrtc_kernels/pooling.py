"""Pooling of images and its derivatives: see ``cuda/pooling.cuh``, and ``cuda/pooling_rows.cuh`` for windows that are regular."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from .convolution import THREADS, Three, Windows, grid_of, sum_type
from .plans import bound, includes
from .pointwise_work import divisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype


class Adaptive(NamedTuple):
    """As many windows as asked for, as equal as can be; each attribute has depth, height and width.

    Attributes
    ----------
    size, out : tuple of int
        Of the image and of the result.
    """

    size: Three
    out: Three


class Fractional(NamedTuple):
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

#: Elements of a window that loops are unrolled for; outputs and elements that are counted to.
_MOST_UNROLLED, _MOST_COUNTED = 64, 1 << 31
#: Indices that a thread writes at once.
_INDICES = 2


def sizes(pool: Pool) -> tuple[int, int]:
    """Elements of a plane of the image, and of the result."""
    return prod(pool.size), prod(pool.out)


def plan_max(
    device: Device, pool: Pool, planes: int, dtype: dtype, *, indexed: bool = True
) -> Callable[..., None]:
    """What finds the largest elements, and their indices in their plane.

    Parameters
    ----------
    indexed
        Whether the indices are written.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, indices_address, in_address)``, the indices int64.
    """
    parameters = [f"{dtype.cuda}* out", "long long* positions", f"const {dtype.cuda}* in"]
    if _has_rows(pool, planes):
        width = _INDICES if indexed else 16 // dtype.itemsize
        window = f"Largest<{dtype.cuda}, {width}, {'true' if indexed else 'false'}>(out, positions)"
        name = "max_pool_rows" if indexed else "max_pool_rows_values"
        return _bound_rows(device, name, window, pool, dtype, parameters, planes, width)
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
    if _has_rows(pool, planes, backward=True):
        gradient = f"ToLargest<{sum_type(dtype)}, {dtype.cuda}>{{grad, positions}}"
        return _bound_rows_backward(
            device, "max_pool_backward_rows", gradient, pool, dtype, parameters, planes
        )
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
    if not fixed and isinstance(pool, Windows) and _are_whole(pool, with_padding=with_padding):
        fixed = pool.kernel_elements
    if fixed and _has_rows(pool, planes, backward=backward):
        if backward:
            parameters = ["int divisor", f"{dtype.cuda}* out", f"const {dtype.cuda}* grad"]
            gradient = f"ToAll<{sum_type(dtype)}, {dtype.cuda}>{{grad, divisor}}"
            name = "avg_pool_backward_rows"
            return _bound_rows_backward(device, name, gradient, pool, dtype, parameters, planes, fixed)
        parameters = ["int divisor", f"{dtype.cuda}* out", f"const {dtype.cuda}* in"]
        width = 16 // dtype.itemsize
        window = f"Mean<{sum_type(dtype)}, {dtype.cuda}, {width}>(out, divisor)"
        return _bound_rows(device, "avg_pool_rows", window, pool, dtype, parameters, planes, width, fixed)
    name = "avg_pool_backward" if backward else "avg_pool"
    parameters = ["int with_padding", "int fixed", f"{dtype.cuda}* out", f"const {dtype.cuda}* given"]
    call = f"{name}<{sum_type(dtype)}>(pool, planes, with_padding, fixed, given, out)"
    area = sizes(pool)[0 if backward else 1]
    return _bound(device, name, call, pool, dtype, parameters, planes, area, int(with_padding), fixed)


def _are_whole(pool: Windows, *, with_padding: bool) -> bool:
    """Whether every window has all its elements, those in the padding counted or not."""
    if not with_padding and any(pool.padding):
        return False
    return all(
        (out - 1) * stride + (kernel - 1) * dilation < size + 2 * padding
        for out, stride, kernel, dilation, size, padding in zip(
            pool.out, pool.stride, pool.kernel, pool.dilation, pool.size, pool.padding, strict=True
        )
    )


def _has_rows(pool: Pool, planes: int, *, backward: bool = False) -> bool:
    """Whether windows of this shape have a kernel of their own."""
    return (
        isinstance(pool, Windows)
        and pool.kernel_elements <= _MOST_UNROLLED
        and not (backward and max(pool.dilation) > 1)
        and max(planes, 1) * max(prod(pool.out), prod(pool.size)) < _MOST_COUNTED
    )


def _bound_rows(
    device: Device,
    name: str,
    window: str,
    pool: Pool,
    dtype: dtype,
    parameters: list[str],
    planes: int,
    width: int,
    *first: int,
) -> Callable[..., None]:
    """What launches a kernel that pools rows by ``window``, a C++ expression, ``width`` outputs in a thread.

    ``first`` are values of its first parameters.
    """
    call = f"pool_rows<Shape, {width}>(rows, in, {window})"
    return _shaped(device, name, call, pool, dtype, parameters, planes, pool.out, width, *first)


def _bound_rows_backward(
    device: Device,
    name: str,
    gradient: str,
    pool: Pool,
    dtype: dtype,
    parameters: list[str],
    planes: int,
    *first: int,
) -> Callable[..., None]:
    """What launches a kernel that gives the image its gradient, by a C++ expression; otherwise as :func:`_bound_rows`."""
    width = 16 // dtype.itemsize
    call = f"unpool_rows<Shape, {width}, {sum_type(dtype)}>(rows, {gradient}, out)"
    return _shaped(device, name, call, pool, dtype, parameters, planes, pool.size, width, *first)


def _shaped(
    device: Device,
    name: str,
    call: str,
    pool: Pool,
    dtype: dtype,
    parameters: list[str],
    planes: int,
    counted: Three,
    width: int,
    *first: int,
) -> Callable[..., None]:
    """What launches a kernel that knows the shape of windows, for groups of ``width`` in the rows of ``counted``."""
    assert isinstance(pool, Windows)
    numbers = {each: getattr(pool, each) for each in ("kernel", "stride", "padding", "dilation")}
    shape = "".join(
        f"    __device__ static constexpr int {each}(int axis) {{ "
        f"return axis == 0 ? {values[0]} : axis == 1 ? {values[1]} : {values[2]}; }}\n"
        for each, values in numbers.items()
    )
    kernel = f"{name}_{dtype.name}"
    source = (
        f"{includes('pooling_rows.cuh')}struct Shape {{\n{shape}}};\n"
        f'extern "C" __global__ void {kernel}(PooledRows rows, {", ".join(parameters)}) {{\n    {call};\n}}\n'
    )
    depth, height, columns = counted
    groups = -(-columns // width)
    count = planes * depth * height * groups
    divisors = [number for size in (groups, height, depth) for number in (size, *divisor(size))]
    packed = struct.pack("=10I6i", *divisors, count, *pool.size, *pool.out)
    codes = (len(packed), *("i" if each.startswith("int ") else "P" for each in parameters))
    return bound(device, "pooling.cu", source, kernel, codes, grid_of(count), THREADS, packed, *first)


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
        f'{includes("pooling.cuh")}extern "C" __global__ void {name}({shape} pool, long long planes, '
        f"{', '.join(parameters)}) {{\n    {call};\n}}\n"
    )
    packed = _packed(pool)
    codes = (len(packed), "q", *("i" if each.startswith("int ") else "P" for each in parameters))
    return bound(
        device, "pooling.cu", source, name, codes, grid_of(planes * area), THREADS, packed, planes, *first
    )
