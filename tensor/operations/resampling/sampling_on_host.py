"""Sampling at the positions of a grid, and its derivatives, on NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    #: For each element that counts at a position: its index in the plane, whether it is inside, its weight, and the
    #: slopes of the weight along the dimensions; all ``(N, 1, P)``.
    Neighbours = Iterable[tuple[NDArray[Any], NDArray[Any], NDArray[Any], Sequence[NDArray[Any]]]]


def _read(planes: NDArray[Any], index: NDArray[Any], inside: NDArray[Any]) -> NDArray[Any]:
    """Elements ``(N, C, P)`` of ``planes`` ``(N, C, area)``; 0 where nothing is."""
    result = np.empty((*planes.shape[:2], index.shape[-1]), planes.dtype)
    for item, out, at in zip(planes, result, index[:, 0], strict=True):
        item.take(at, 1, out=out, mode="clip")
    if not inside.all():
        np.copyto(result, 0, where=~inside)
    return result


def sampled(planes: NDArray[Any], neighbours: Neighbours, count: int) -> NDArray[Any]:
    """``planes`` ``(N, C, area)`` read at ``count`` positions: ``(N, C, count)``."""
    result = np.zeros((*planes.shape[:2], count), planes.dtype)
    for index, inside, weight, _ in neighbours:
        values = _read(planes, index, inside)
        values *= weight
        result += values
    return result


def gradients(
    expected: Sequence[bool], grad: NDArray[Any], planes: NDArray[Any], neighbours: Neighbours, rank: int
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Gradients of the planes, and of the grid ``(N, P, rank)``."""
    to_grid = np.zeros((len(planes), grad.shape[-1], rank), planes.dtype) if expected[1] else None
    indices, weights = [], []
    for index, inside, weight, slopes in neighbours:
        if expected[0]:
            indices.append(np.where(inside, index, planes.shape[-1])[:, 0])
            weights.append(weight)
        if to_grid is not None:
            total = np.einsum("ncp,ncp->np", _read(planes, index, inside), grad)
            for axis, slope in enumerate(slopes):
                to_grid[..., axis] += total * slope[:, 0]
    if not expected[0]:
        return None, to_grid
    # What lies outside goes to a column that is dropped.
    to_planes = np.zeros((*planes.shape[:2], planes.shape[-1] + 1), planes.dtype)
    parts = np.concatenate([grad * weight for weight in weights], -1)
    for out, at, part in zip(to_planes, np.concatenate(indices, -1), parts, strict=True):
        order = at.argsort(kind="stable")
        ordered = at[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        out[:, ordered[starts]] = np.add.reduceat(part.take(order, 1), starts, 1)
    return to_planes[..., :-1], to_grid
