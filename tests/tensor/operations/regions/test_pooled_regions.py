"""Pooled regions against loops over their definitions, and their derivatives, on the CPU and on the simulated device."""

from __future__ import annotations

from itertools import product
from math import ceil, floor
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.operations.regions import pooled_regions

BOXES = np.array(
    [
        [0, 1, 1, 11.3, 13.2], [1, -3, -2, 6, 5], [0, 4, 4, 4.2, 4.1], [1, 10, 3, 40, 50], [0, 2.5, 3.5, 9.5, 10.5],
        [1, 30, 30, 34, 38],
    ]
)  # fmt: skip
IMAGES = np.random.default_rng(0).standard_normal((2, 12, 7, 6))
SCALE, ROWS, COLUMNS = 0.5, 3, 2
FUNCTIONS = {
    "align": (pooled_regions.roi_align, pooled_regions.roi_align_backward, (2, True), False),
    "align by elements": (pooled_regions.roi_align, pooled_regions.roi_align_backward, (-1, False), False),
    "sensitive align": (pooled_regions.ps_roi_align, pooled_regions.ps_roi_align_backward, (2,), True),
    "pool": (pooled_regions.roi_pool, pooled_regions.roi_pool_backward, (), False),
    "sensitive pool": (pooled_regions.ps_roi_pool, pooled_regions.ps_roi_pool_backward, (), True),
}


def bilinear(plane: Any, y: float, x: float) -> float:
    """Between the four elements around, of which those outside are the nearest inside."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = floor(y), floor(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = plane[top, left] * (left + 1 - x) + plane[top, right] * (x - left)
    lower = plane[bottom, left] * (left + 1 - x) + plane[bottom, right] * (x - left)
    return float(upper * (top + 1 - y) + lower * (y - top))


def sampled(
    plane: Any, box: Any, row: int, column: int, samples: int, aligned: bool, sensitive: bool
) -> float:
    half = 0.5 if aligned or sensitive else 0.0
    left, top, right, bottom = (edge * SCALE - half for edge in box)
    height, width = bottom - top, right - left
    if not (aligned or sensitive):
        height, width = max(height, 1), max(width, 1)
    down, across = height / ROWS, width / COLUMNS
    rows, columns = (samples, samples) if samples > 0 else (ceil(down), ceil(across))
    values = [
        bilinear(plane, top + (row + (j + 0.5) / rows) * down, left + (column + (i + 0.5) / columns) * across)
        for j, i in product(range(rows), range(columns))
    ]
    return sum(values) / len(values)


def rounded(plane: Any, box: Any, row: int, column: int, sensitive: bool) -> Any:
    """The elements of a bin of rounded corners."""
    left, top, right, bottom = (int(np.copysign(floor(abs(edge * SCALE) + 0.5), edge)) for edge in box)
    extra = 0 if sensitive else 1
    down, across = max(bottom - top + extra, 1) / ROWS, max(right - left + extra, 1) / COLUMNS
    height, width = plane.shape if not sensitive else (plane.shape[0] - 1, plane.shape[1] - 1)
    rows = [top + floor(row * down), top + ceil((row + 1) * down)]
    columns = [left + floor(column * across), left + ceil((column + 1) * across)]
    return plane[slice(*np.clip(rows, 0, height)), slice(*np.clip(columns, 0, width))]


def expected(name: str) -> Any:
    _, _, options, sensitive = FUNCTIONS[name]
    channels = IMAGES.shape[1] // (ROWS * COLUMNS) if sensitive else IMAGES.shape[1]
    out = np.zeros((len(BOXES), channels, ROWS, COLUMNS))
    for index in np.ndindex(out.shape):
        number, channel, row, column = index
        source = (channel * ROWS + row) * COLUMNS + column if sensitive else channel
        plane, box = IMAGES[int(BOXES[number, 0]), source], BOXES[number, 1:]
        if "align" in name:
            out[index] = sampled(
                plane, box, row, column, options[0], "sensitive" not in name and options[1], sensitive
            )
        elif (values := rounded(plane, box, row, column, sensitive)).size:
            out[index] = values.mean() if sensitive else values.max()
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_their_definition(name: str, checked_device: str) -> None:
    forward, backward, options, _ = FUNCTIONS[name]
    x, boxes = (tensor.from_numpy(each).to(checked_device) for each in (IMAGES, BOXES))
    result: Any = forward(x, boxes, SCALE, ROWS, COLUMNS, *options)
    result, *others = result if isinstance(result, tuple) else (result,)
    np.testing.assert_allclose(result.cpu().numpy(), expected(name), rtol=1e-12, atol=1e-12)
    # Maxima aside the results are linear in the images, and the derivative is the transposed map.
    outer = np.random.default_rng(1).standard_normal(result.shape)
    sizes = (*options, *IMAGES.shape) if name == "sensitive align" else (*IMAGES.shape, *options)
    grad = backward(tensor.from_numpy(outer).to(checked_device), boxes, *others, SCALE, ROWS, COLUMNS, *sizes)
    assert (grad.cpu().numpy() * IMAGES).sum() == pytest.approx((outer * expected(name)).sum(), rel=1e-10)


def test_half_precision_sums_in_single(checked_device: str) -> None:
    x = tensor.from_numpy(IMAGES).to(checked_device)
    boxes = tensor.from_numpy(BOXES).to(checked_device)
    exact = pooled_regions.roi_align(x, boxes, SCALE, ROWS, COLUMNS, 2, True)
    half = pooled_regions.roi_align(x.half(), boxes.half(), SCALE, ROWS, COLUMNS, 2, True)
    assert half.dtype is tensor.float16
    np.testing.assert_allclose(half.float().cpu().numpy(), exact.cpu().numpy(), atol=2e-2)


def test_nothing_to_pool(checked_device: str) -> None:
    x, boxes = tensor.ones(2, 3, 4, 4, device=checked_device), tensor.ones(0, 5, device=checked_device)
    assert pooled_regions.roi_align(x, boxes, 1.0, 2, 2, 2, False).shape == (0, 3, 2, 2)
    values, where = pooled_regions.roi_pool(x, boxes, 1.0, 2, 2)
    assert (values.shape, where.shape) == ((0, 3, 2, 2), (0, 3, 2, 2))
    grad = pooled_regions.roi_align_backward(values, boxes, 1.0, 2, 2, 2, 3, 4, 4, 2, False)
    assert grad.tolist() == tensor.zeros(2, 3, 4, 4).tolist()


@pytest.mark.parametrize(
    ("shape", "boxes", "message"),
    [
        ((1, 4, 5, 5), [[0, 0, 0, 1]], r"rois must have shape as Tensor\[K, 5\]"),
        ((4, 5, 5), [[0, 0, 0, 1, 1]], "expected a 4D input"),
        ((1, 4, 5, 5), [[3, 0, 0, 1, 1]], "region 0 is of image 3, and the batch has 1 images"),
        ((1, 5, 5, 5), [[0, 0, 0, 1, 1]], "input channels must be a multiple"),
    ],
)
def test_bad_input(shape: tuple[int, ...], boxes: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        pooled_regions.ps_roi_pool(tensor.ones(shape), tensor.tensor(boxes, dtype=tensor.float32), 1.0, 2, 2)
