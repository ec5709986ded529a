"""Regions of images pooled on the CPU.

What a bin averages is a rectangle of samples, each of which weighs elements along the rows and along the columns: for a region
the result is ``vertical @ image @ horizontal.T``, with a matrix ``(bins, elements)`` for each dimension. Its derivative is the
transposed product.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvrtc_kernels.regions import Regions


def _samples(low: Any, high: Any, bins: int, size: int, regions: Regions) -> Any:
    """Weights ``(bins, size)`` of elements along a dimension of a region, for RoIAlign."""
    scalar = type(low)
    half = scalar(0.5 if regions.sensitive or regions.aligned else 0)
    scale = scalar(regions.scale)
    start = low * scale - half
    length = high * scale - half - start
    if not regions.sensitive and not regions.aligned:
        length = max(length, scalar(1))
    step = length / scalar(bins)
    count = regions.samples or ceil(step)
    weights = np.zeros((bins, size), scalar)
    if count <= 0:
        # Nothing is sampled, and the mean of nothing is 0; of a position-sensitive region it is no number.
        return weights + (scalar("nan") if regions.sensitive else scalar(0))
    bin_numbers = np.repeat(np.arange(bins), count)
    places = np.tile(np.arange(count), bins)
    at = (
        start
        + bin_numbers.astype(scalar) * step
        + (places.astype(scalar) + scalar(0.5)) * step / scalar(count)
    )
    inside = (at >= -1) & (at <= size)
    at, bin_numbers = np.clip(at[inside], 0, size - 1), bin_numbers[inside]
    first = at.astype(np.int64)
    part = at - first.astype(scalar)
    np.add.at(weights, (bin_numbers, first), (1 - part) / scalar(count))
    np.add.at(weights, (bin_numbers, np.minimum(first + 1, size - 1)), part / scalar(count))
    return weights


def _spans(low: Any, high: Any, bins: int, size: int, regions: Regions) -> tuple[Any, Any]:
    """First elements of bins along a dimension of a region, and those behind the last, for RoIPool."""
    scalar = type(low)
    scale = scalar(regions.scale)
    start, end = _rounded(low * scale), _rounded(high * scale)
    length = max(end - start + (0 if regions.sensitive else 1), 1)
    step = scalar(length) / scalar(bins)
    numbers = np.arange(bins).astype(scalar)
    first = np.floor(numbers * step).astype(np.int64) + start
    last = np.ceil((numbers + 1) * step).astype(np.int64) + start
    limit = size - 1 if regions.sensitive else size
    return np.clip(first, 0, limit), np.clip(last, 0, limit)


def _rounded(value: Any) -> int:
    """To the nearest integer, halves away from zero, as C does it."""
    return int(np.copysign(np.floor(np.abs(value) + type(value)(0.5)), value))


def _means(low: Any, high: Any, bins: int, size: int, regions: Regions) -> Any:
    """Weights ``(bins, size)`` of elements along a dimension of a region, for means of rounded regions."""
    weights = np.zeros((bins, size), type(low))
    for number, (first, last) in enumerate(zip(*_spans(low, high, bins, size, regions), strict=True)):
        if last > first:
            weights[number, first:last] = 1 / type(low)(last - first)
    return weights


def _weights(boxes: Any, regions: Regions) -> Iterator[tuple[int, int, Any, Any]]:
    """For each region its number, its image, and weights along the height and along the width."""
    along = _samples if regions.method == "align" else _means
    for number, (image, left, top, right, bottom) in enumerate(boxes):
        vertical = along(top, bottom, regions.rows, regions.height, regions)
        yield number, int(image), vertical, along(left, right, regions.columns, regions.width, regions)


def averaged(images: Any, boxes: Any, regions: Regions) -> Any:
    """Weighted means ``(K, C, rows, columns)`` of regions of ``images`` ``(N, C, H, W)``."""
    out = np.empty((len(boxes), regions.out_channels, regions.rows, regions.columns), images.dtype)
    for number, image, vertical, horizontal in _weights(boxes, regions):
        planes = images[image]
        if regions.sensitive:
            shape = (regions.out_channels, regions.rows, regions.columns, regions.height, regions.width)
            across = np.einsum("cpqhw,qw->cpqh", planes.reshape(shape), horizontal)
            out[number] = np.einsum("cpqh,ph->cpq", across, vertical)
        else:
            out[number] = vertical @ planes @ horizontal.T
    return out


def averaged_backward(grad: Any, boxes: Any, regions: Regions) -> Any:
    """The gradient ``(N, C, H, W)`` of the images, from that of :func:`averaged`."""
    out = np.zeros((regions.images, regions.channels, regions.height, regions.width), grad.dtype)
    for number, image, vertical, horizontal in _weights(boxes, regions):
        if regions.sensitive:
            bins = grad[number][..., None] * vertical[None, :, None]
            out[image] += np.einsum("cpqh,qw->cpqhw", bins, horizontal).reshape(out.shape[1:])
        else:
            out[image] += vertical.T @ grad[number] @ horizontal
    return out


def maxima(images: Any, boxes: Any, regions: Regions) -> tuple[Any, Any]:
    """Largest elements ``(K, C, rows, columns)`` of bins, 0 of empty ones, and where in the plane they are, or -1."""
    shape = (len(boxes), regions.channels, regions.rows, regions.columns)
    out, where = np.zeros(shape, images.dtype), np.full(shape, -1, np.int32)
    for number, (image, left, top, right, bottom) in enumerate(boxes):
        rows = list(zip(*_spans(top, bottom, regions.rows, regions.height, regions), strict=True))
        columns = list(zip(*_spans(left, right, regions.columns, regions.width, regions), strict=True))
        planes = images[int(image)]
        for row, (upper, lower) in enumerate(rows):
            for column, (first, last) in enumerate(columns):
                if lower <= upper or last <= first:
                    continue
                values = planes[:, upper:lower, first:last].reshape(regions.channels, -1)
                place = values.argmax(1)
                out[number, :, row, column] = np.take_along_axis(values, place[:, None], 1)[:, 0]
                down, right_of = np.divmod(place, last - first)
                where[number, :, row, column] = (upper + down) * regions.width + first + right_of
    return out, where


def maxima_backward(grad: Any, where: Any, boxes: Any, regions: Regions) -> Any:
    """The gradient ``(N, C, H, W)`` of the images, from that of the first result of :func:`maxima`."""
    out = np.zeros((regions.images, regions.channels, regions.height * regions.width), grad.dtype)
    regional, channel, row, column = np.nonzero(where >= 0)
    image = boxes[:, 0].astype(np.int64)[regional]
    place = where[regional, channel, row, column]
    np.add.at(out, (image, channel, place), grad[regional, channel, row, column])
    return out.reshape(regions.images, regions.channels, regions.height, regions.width)
