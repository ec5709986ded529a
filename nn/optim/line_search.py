"""A step length along a direction for which the strong Wolfe conditions hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor

#: How much of the decrease that the slope promises there must be, and how much of the slope may be left.
_DECREASE, _SLOPE = 1e-4, 0.9


@dataclass(frozen=True, slots=True)
class Point:
    """A point on the line.

    Attributes
    ----------
    step : float
        How far it is along the direction.
    loss : float
        The objective there.
    gradient : Tensor
        Its gradient.
    slope : float
        Its derivative along the direction.
    """

    step: float
    loss: float
    gradient: Tensor
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    step: float,
    length: float,
    tolerance_change: float,
    most: int,
) -> tuple[Point, int]:
    """A point that fulfils the conditions, or the best that was found in time.

    Parameters
    ----------
    evaluate
        Computes the point at a step.
    start
        The point at step 0.
    step
        The first to be tried.
    length
        Greatest element of the direction.
    tolerance_change
        Change of a parameter that matters no more.
    most
        How many further points are evaluated.

    Returns
    -------
    (Point, int)
        The point, and how many were evaluated.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", algorithms 3.5 and 3.6; the choices of trial steps are those of
    Schmidt's minFunc, which PyTorch follows as well.
    """

    def too_high(point: Point) -> bool:
        return point.loss > start.loss + _DECREASE * point.step * start.slope

    def flat_enough(point: Point) -> bool:
        return abs(point.slope) <= -_SLOPE * start.slope

    former, point, tried = start, evaluate(step), 0
    while tried < most:
        if too_high(point) or (tried > 1 and point.loss >= former.loss):
            break
        if flat_enough(point):
            return point, tried + 1
        if point.slope >= 0:
            break
        nearest = point.step + 0.01 * (point.step - former.step)
        following = interpolate(former, point, (nearest, 10 * point.step))
        former, point = point, evaluate(following)
        tried += 1
    else:
        former = start

    # Between the two there is such a point. The better one is `low`; the bracket shrinks until it is good.
    low, high = (former, point) if former.loss <= point.loss else (point, former)
    first, second = former, point
    stuck = False
    while tried < most:
        left, right = sorted((low.step, high.step))
        if (right - left) * length < tolerance_change:
            break
        step = interpolate(first, second)
        margin = 0.1 * (right - left)
        near = min(right - step, step - left) < margin
        if near and (stuck or step >= right or step <= left):
            # Twice so close to an end, or beyond it, makes no progress.
            step = right - margin if abs(step - right) < abs(step - left) else left + margin
            near = False
        stuck = near
        point = evaluate(step)
        tried += 1
        keeps_first = low is first
        if too_high(point) or point.loss >= low.loss:
            high = point
            first, second = (low, high) if keeps_first else (high, low)
            low, high = (first, second) if first.loss <= second.loss else (second, first)
            continue
        done = flat_enough(point)
        if not done and point.slope * (high.step - low.step) >= 0:
            high = low
        low = point
        first, second = (low, high) if keeps_first else (high, low)
        if done:
            break
    return low, tried + 1


def interpolate(first: Point, second: Point, bounds: tuple[float, float] | None = None) -> float:
    """Step at the minimum of the cubic through two points with their slopes, not beyond the bounds."""
    least, greatest = bounds or (min(first.step, second.step), max(first.step, second.step))
    if first.step > second.step:
        first, second = second, first
    width = second.step - first.step
    if not width:
        return (least + greatest) / 2
    middle = first.slope + second.slope - 3 * (first.loss - second.loss) / (first.step - second.step)
    square = middle**2 - first.slope * second.slope
    divisor = 0.0
    if square >= 0:
        root = sqrt(square)
        divisor = second.slope - first.slope + 2 * root
    if not divisor:
        return (least + greatest) / 2
    found = second.step - width * ((second.slope + root - middle) / divisor)
    return min(max(found, least), greatest)
