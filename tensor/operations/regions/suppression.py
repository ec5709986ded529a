"""Non-maximum suppression: of boxes that overlap, the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import regions as kernels
from nvrtc_kernels.dtypes import bool_, int64
from tensor.core.base import check_tensor, empty, wrap
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


def _check(dets: Any, scores: Any) -> None:
    check_tensor(dets, "nms", "dets")
    check_tensor(scores, "nms", "scores")
    boxes, points = dets._layout, scores._layout
    if len(boxes.shape) != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {len(boxes.shape)}D")
    if boxes.shape[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {boxes.shape[1]}")
    if len(points.shape) != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {len(points.shape)}D")
    if boxes.shape[0] != points.shape[0]:
        raise RuntimeError(
            f"boxes and scores should have same number of elements in dimension 0, got {boxes.shape[0]} and {points.shape[0]}"
        )
    if not boxes.dtype.is_floating_point or boxes.dtype is not points.dtype:
        raise RuntimeError(
            f"nms(): dets and scores should have the same floating-point type, got {boxes.dtype!r} and {points.dtype!r}"
        )
    if boxes.device_state is not points.device_state:
        raise RuntimeError(
            f"nms(): dets and scores should be on the same device, got {boxes.device_state.device} and {points.device_state.device}"
        )


def _on_host(corners: Any, threshold: float) -> Any:
    """Which of the boxes, best first, stay."""
    left, top, right, bottom = corners.T
    areas = (right - left) * (bottom - top)
    stays = np.ones(len(corners), bool)
    with np.errstate(all="ignore"):
        for box in range(len(corners)):
            if not stays[box]:
                continue
            rest = slice(box + 1, None)
            width = np.minimum(right[box], right[rest]) - np.maximum(left[box], left[rest])
            height = np.minimum(bottom[box], bottom[rest]) - np.maximum(top[box], top[rest])
            shared = np.maximum(width, 0) * np.maximum(height, 0)
            overlap = shared / (areas[box] + areas[rest] - shared)
            stays[rest] &= ~(overlap.astype(np.float64) > threshold)
    return stays


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Boxes that no better one overlaps by more than a part of their union, best first.

    The host waits for the device, as for every result whose size depends on values.

    Parameters
    ----------
    dets
        Boxes ``(N, 4)``: x and y of the first corner, and of the last.
    scores
        ``(N,)``, of the same dtype; of equal ones the first is the better.
    iou_threshold
        The part.

    Returns
    -------
    Tensor
        Their numbers, int64.

    Raises
    ------
    RuntimeError
        If shapes, dtypes or devices do not fit, or there are too many boxes for the memory that marks them.
    """
    _check(dets, scores)
    count, device_state = dets._layout.shape[0], dets._layout.device_state
    if not count:
        return empty(contiguous[(0,), int64, device_state])
    order: Any = scores.sort(0, True, stable=True)[1]
    boxes: Any = dets[order]
    if not device_state.is_cuda:
        corners = boxes.to(rules.computes_in(boxes.dtype))._host
        stays: Any = wrap(_on_host(corners, float(iou_threshold)))
    else:
        if count > kernels.MOST_BOXES:
            raise RuntimeError(
                f"nms(): at most {kernels.MOST_BOXES} boxes are compared at once, but got {count}"
            )
        key = ("suppression", boxes._layout.dtype)
        run = device_state.plans.get(key)
        if run is None:
            run = device_state.plans[key] = kernels.plan_suppression(device_state.native, boxes._layout.dtype)
        boxes = boxes.contiguous()
        words = empty(contiguous[(kernels.words_of(count),), int64, device_state])
        stays = empty(contiguous[(count,), bool_, device_state])
        stream = device_state.local.stream.handle
        run(stream, count, float(iou_threshold), boxes._address, words._address, stays._address)
    result: Tensor = order[stays]
    return result
