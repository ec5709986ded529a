"""Other shapes of the same elements in row-major order: a view where the strides allow, else a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts
from tensor.core.arguments import dimension
from tensor.core.creation_arguments import sizes_of
from tensor.operations.creation.copies import contiguous, copy_into_new
from tensor.operations.definition import operation

from . import views

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


@operation()
def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The elements in row-major order as another shape; one size may be -1.

    Parameters
    ----------
    shape
        Sizes, one by one or as a sequence.

    Raises
    ------
    RuntimeError
        If the number of elements differs.
    """
    argument = sizes_of(sizes, shape, "reshape", "shape")
    layout = input._layout
    if not layout.contiguous:
        expected = layouts.infer_size(argument, layout.numel)
        if layouts.view_strides(layout.shape, layout.strides, expected) is None:
            input = copy_into_new(input, layout.as_contiguous(), name="CloneBackward0")
    return views.view(input, argument)


@operation(namespace="")
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.reshape(other.shape)``."""
    return reshape(input, other._layout.shape)


@operation()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` as one; a 0-dim tensor becomes a vector.

    Raises
    ------
    RuntimeError
        If ``start_dim`` comes after ``end_dim``.
    """
    shape = input._layout.shape
    first, last = dimension(start_dim, len(shape)), dimension(end_dim, len(shape))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return reshape(input, 1)
    if first == last:
        return input
    count = 1
    for size in shape[first : last + 1]:
        count *= size
    return reshape(input, (*shape[:first], count, *shape[last + 1 :]))


@operation()
def ravel(input: Tensor) -> Tensor:
    """All elements as a contiguous vector, without a copy where they lie so."""
    return views.view(contiguous(input), -1)
