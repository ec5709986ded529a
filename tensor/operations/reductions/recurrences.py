"""Linear recurrences along a dimension, by doubling: derivatives of running products are such.

``s[k] = b[k] + a[k] * s[k + 1]`` looks at one later element. Put into itself it looks at two, four, eight ...: after
``log2(n)`` rounds of operations on whole tensors all are reached. Nothing is divided, so that zeros and infinities
are no matter, and all of it can be differentiated again, any number of times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.operations.shapes import slices
from tensor.operations.shapes.joining import cat

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


def recurrence(factors: Tensor, summands: Tensor, dim: int) -> Tensor:
    """``s`` with ``s[k] = summands[k] + factors[k] * s[k + 1]``, and 0 behind the end."""
    length = summands._layout.shape[dim]
    distance = 1
    while distance < length:
        near, far = length - distance, distance
        first = slices.narrow(factors, dim, 0, near)
        reached = slices.narrow(summands, dim, 0, near) + first * slices.narrow(summands, dim, far, near)
        summands = cat([reached, slices.narrow(summands, dim, near, far)], dim)
        # What looks beyond the end finds 0 there, whatever it is multiplied by.
        factors = cat(
            [first * slices.narrow(factors, dim, far, near), slices.narrow(factors, dim, near, far)], dim
        )
        distance *= 2
    return summands


def later_products(input: Tensor, dim: int) -> Tensor:
    """Products of all elements behind each one; 1 for the last."""
    length = input._layout.shape[dim]
    if not length:
        return input
    first = slices.narrow(input, dim, 0, 1)
    result = cat([slices.narrow(input, dim, 1, length - 1), first.new_ones(first.shape)], dim)
    distance = 1
    while distance < length:
        near, far = length - distance, distance
        longer = slices.narrow(result, dim, 0, near) * slices.narrow(result, dim, far, near)
        result = cat([longer, slices.narrow(result, dim, near, far)], dim)
        distance *= 2
    return result


def running_before(running: Tensor, dim: int) -> Tensor:
    """Products of all elements before each one, from the running products; 1 for the first."""
    length = running._layout.shape[dim]
    if not length:
        return running
    first = slices.narrow(running, dim, 0, 1)
    return cat([first.new_ones(first.shape), slices.narrow(running, dim, 0, length - 1)], dim)


def next_elements(input: Tensor, dim: int) -> Tensor:
    """The next element in the place of each; the last one stays."""
    length = input._layout.shape[dim]
    if not length:
        return input
    later, last = slices.narrow(input, dim, 1, length - 1), slices.narrow(input, dim, length - 1, 1)
    return cat([later, last], dim)
