"""A step length along a direction for which the strong Wolfe conditions hold."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor

#: How much of the decrease that the slope promises there must be, and how much of the slope may be left.
_DECREASE, _SLOPE = 1e-4, 0.9


class Point(NamedTuple):
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
    max_evaluations: int,
) -> tuple[Point, int]:
    """A point at which the strong Wolfe conditions hold, or the best one after ``max_evaluations``.

    Parameters
    ----------
    evaluate
        Computes the point at a step length.
    start
        The point at step length 0.
    step
        Step length to try first.
    length
        Largest magnitude in the direction.
    tolerance_change
        Change of a parameter that ends the search.
    max_evaluations
        Maximum of further evaluations.

    Returns
    -------
    (Point, int)
        The point, and the number of evaluations.

    References ---------- Nocedal and Wright, "Numerical Optimization", algorithms 3.5 and 3.6; trial steps are chosen
    as in Schmidt's minFunc, which PyTorch follows as well.
    """

    def too_high(point: Point) -> bool:
        return point.loss > start.loss + _DECREASE * point.step * start.slope

    def flat_enough(point: Point) -> bool:
        return abs(point.slope) <= -_SLOPE * start.slope

    previous, point, evaluations = start, evaluate(step), 0
    while evaluations < max_evaluations:
        if too_high(point) or (evaluations > 1 and point.loss >= previous.loss):
            break
        if flat_enough(point):
            return point, evaluations + 1
        if point.slope >= 0:
            break
        nearest = point.step + 0.01 * (point.step - previous.step)
        next_step = interpolate(previous, point, (nearest, 10 * point.step))
        previous, point = point, evaluate(next_step)
        evaluations += 1
    else:
        previous = start

    # Between the two there is such a point. The better one is `low`; the bracket shrinks until it is good.
    low, high = (previous, point) if previous.loss <= point.loss else (point, previous)
    first, second = previous, point
    stuck = False
    while evaluations < max_evaluations:
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
        evaluations += 1
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
    return low, evaluations + 1


def interpolate(first: Point, second: Point, bounds: tuple[float, float] | None = None) -> float:
    """Step at the minimum of the cubic through two points with their slopes, not beyond the bounds."""
    lower, upper = bounds or (min(first.step, second.step), max(first.step, second.step))
    if first.step > second.step:
        first, second = second, first
    width = second.step - first.step
    if not width:
        return (lower + upper) / 2
    middle = first.slope + second.slope - 3 * (first.loss - second.loss) / (first.step - second.step)
    square = middle**2 - first.slope * second.slope
    divisor = 0.0
    if square >= 0:
        root = sqrt(square)
        divisor = second.slope - first.slope + 2 * root
    if not divisor:
        return (lower + upper) / 2
    minimum = second.step - width * ((second.slope + root - middle) / divisor)
    return min(max(minimum, lower), upper)
