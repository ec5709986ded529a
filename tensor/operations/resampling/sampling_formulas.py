"""Sampling at the positions of a grid, and its gradients, in operations that have derivatives themselves."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from tensor.core.modes.grad_mode import unrecorded
from tensor.operations.pointwise.selection import where
from tensor.operations.shapes.joining import cat, stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvrtc_kernels.grid_sampling import Sampling
    from tensor.methods.tensor import Tensor

#: For each dimension the elements that count: their indices, whether these are inside, weights, slopes of the weights.
Neighbours = list[tuple[Any, Any, Any, Any]]


def _reflected(at: Tensor, slope: Tensor, size: int, align_corners: bool) -> tuple[Any, Any]:
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span <= 0:
        return at * 0, slope * 0
    away = at - low
    far = away.abs()
    flips, extra = (far / span).floor(), far.fmod(span)
    odd = flips.fmod(2) != 0
    return where(odd, span - extra, extra) + low, where((away < 0) != odd, -slope, slope)


def _padded(at: Tensor, size: int, sampling: Sampling) -> tuple[Any, Any]:
    """Which position a position outside counts as, and the derivative of that."""
    slope = at.new_ones(at.shape)
    if sampling.padding == "zeros":
        return where(at.abs() < 2147483520.0, at, -100.0), slope
    if sampling.padding == "reflection":
        at, slope = _reflected(at, slope, size, sampling.align_corners)
    inside = (at > 0) & (at < size - 1)
    return where(at > 0, at, 0.0).clamp(max=size - 1), where(inside, slope, 0.0)


def _neighbours(argument: Tensor, size: int, sampling: Sampling) -> Neighbours:
    """Elements along a dimension that count for the positions ``given``, from -1 to 1."""
    speed = (size - 1) / 2 if sampling.align_corners else size / 2
    at: Any = (argument + 1) / 2 * (size - 1) if sampling.align_corners else ((argument + 1) * size - 1) / 2
    with unrecorded():
        plain = at.detach()
        held, slope = (plain, 1.0) if sampling.mode == "bicubic" else _padded(plain, size, sampling)
        first = held.round() if sampling.mode == "nearest" else held.floor()
    if sampling.mode == "nearest":
        one = held.new_ones(held.shape)
        return [(*_inside(first, size), one, one * 0)]
    # The value is `held`; how it changes is said by `slope`. Infinite positions have no derivative.
    moved = at - plain
    part = (held - first) + where(moved == 0, moved, 0.0) * slope
    slope = slope * speed
    if sampling.mode == "bilinear":
        return [(*_inside(first, size), 1 - part, -slope), (*_inside(first + 1, size), part, slope)]
    result = []
    for k in range(4):
        neighbour = _padded(first + (k - 1), size, sampling)[0]
        result.append((*_inside(neighbour, size), *_cubic(part, k, slope)))
    return result


def _cubic(part: Any, k: int, slope: Any) -> tuple[Any, Any]:
    """Weight of the element ``k - 1`` behind the one before a position, and its slope."""
    a = -0.75
    x = part + 1 - k if k < 2 else k - 1 - part
    if k in (1, 2):
        weight, change = ((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x
    else:
        weight, change = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a
    return weight, change * slope if k < 2 else -change * slope


def _inside(at: Tensor, size: int) -> tuple[Any, Any]:
    """Indices that can be read at, and where these are meant."""
    inside = (at >= 0) & (at < size)
    return where(inside, at, 0.0).long(), inside


def taps_of(grid: Tensor, sampling: Sampling) -> Iterator[tuple[Any, Any, Any, list[Any]]]:
    """Combinations of neighbours: index in the plane ``(N, 1, P)``, whether it is inside, weight, slopes as the grid has them."""
    flat = grid.reshape(sampling.items, prod(sampling.out), len(sampling.size))
    # The grid begins with the last dimension.
    neighbours = [
        _neighbours(flat.select(-1, number).unsqueeze(1), size, sampling)
        for number, size in enumerate(reversed(sampling.size))
    ]
    strides = [1]
    for size in reversed(sampling.size[1:]):
        strides.append(strides[-1] * size)
    for chosen in product(*neighbours):
        index = sum(at * stride for (at, *_), stride in zip(chosen, strides, strict=True))
        inside: Any = True
        weight: Any = 1.0
        for _, here, factor, _ in chosen:
            inside, weight = here & inside, weight * factor
        slopes = []
        for axis in range(len(chosen)):
            slope: Any = 1.0
            for other, (_, _, factor, change) in enumerate(chosen):
                slope = slope * (change if other == axis else factor)
            slopes.append(slope)
        yield index, inside, weight, slopes


def _read(image: Any, index: Any, inside: Any) -> Any:
    """Elements ``(N, C, P)`` of flat planes; 0 where nothing is."""
    values = image.gather(2, index.expand(-1, image.shape[1], -1))
    return where(inside, values, 0.0)


def gradients(
    expected: tuple[bool, ...], grad: Tensor, image: Tensor, grid: Tensor, sampling: Sampling
) -> tuple[Any, Any]:
    """Gradients of image and grid."""
    plane: Any = image.flatten(2)
    argument: Any = grad.flatten(2)
    indices, parts = [], []
    sums: list[Any] = [0] * len(sampling.size)
    for index, inside, weight, slopes in taps_of(grid, sampling):
        if expected[0]:
            indices.append(index)
            parts.append(where(inside, argument * weight, 0.0))
        if expected[1]:
            value = (_read(plane, index, inside) * argument).sum(1, keepdim=True)
            sums = [total + value * slope for total, slope in zip(sums, slopes, strict=True)]
    to_image = to_grid = None
    if expected[0]:
        index = cat(indices, 2).expand(-1, plane.shape[1], -1)
        to_image = plane.new_zeros(plane.shape).scatter_add(2, index, cat(parts, 2)).reshape(image.shape)
    if expected[1]:
        to_grid = stack(sums, -1).reshape(grid.shape)
    return to_image, to_grid
