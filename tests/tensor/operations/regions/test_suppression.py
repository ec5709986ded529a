"""Boxes that overlap better ones are suppressed, on both devices as by the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from nvrtc_kernels import regions as kernels
from tensor.operations.regions.suppression import nms


def overlap(a: Any, b: Any) -> float:
    width, height = (max(min(a[k + 2], b[k + 2]) - max(a[k], b[k]), 0.0) for k in (0, 1))
    areas = ((each[2] - each[0]) * (each[3] - each[1]) for each in (a, b))
    return float(width * height / (sum(areas) - width * height))


def by_definition(boxes: Any, scores: Any, threshold: float) -> list[int]:
    left: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        if all(overlap(boxes[index], boxes[other]) <= threshold for other in left):
            left.append(int(index))
    return left


@pytest.mark.parametrize("threshold", [0.1, 0.6])
def test_against_the_definition(threshold: float, checked_device: str) -> None:
    # More than two words of marks, and equal scores, of which the first comes first.
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 30, (140, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(1, 12, (140, 2))], 1)
    scores = np.round(rng.uniform(0, 1, 140), 1)
    result = nms(*(tensor.from_numpy(each).to(checked_device) for each in (boxes, scores)), threshold)
    assert result.dtype is tensor.int64
    assert result.tolist() == by_definition(boxes, scores, threshold)


def test_no_boxes_and_empty_boxes(checked_device: str) -> None:
    assert (
        nms(tensor.ones(0, 4, device=checked_device), tensor.ones(0, device=checked_device), 0.5).tolist()
        == []
    )
    # Boxes without area overlap by 0/0, which is no more than any threshold.
    assert nms(
        tensor.ones(3, 4, device=checked_device), tensor.ones(3, device=checked_device), 0.5
    ).tolist() == [0, 1, 2]


def test_bad_input() -> None:
    for boxes, scores, message in (
        ((2, 3), (2,), "boxes should have 4 elements in dimension 1, got 3"),
        ((4,), (2,), "boxes should be a 2d tensor, got 1D"),
        ((2, 4), (2, 1), "scores should be a 1d tensor, got 2D"),
        ((2, 4), (3,), "got 2 and 3"),
    ):
        with pytest.raises(RuntimeError, match=message):
            nms(tensor.ones(boxes), tensor.ones(scores), 0.5)
    with pytest.raises(RuntimeError, match="same floating-point type"):
        nms(tensor.ones(2, 4), tensor.ones(2, dtype=tensor.float64), 0.5)
    assert kernels.words_of(65) == 130
