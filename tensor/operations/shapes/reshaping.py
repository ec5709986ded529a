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
    """The elements in row-major order as another shape: a view where the strides allow it, else a copy.

    Parameters
    ----------
    sizes : int
        Sizes, one by one or as a sequence. One may be -1, for what is left of the number of elements.
    shape : sequence of int, optional
        The sizes by name.

    Raises
    ------
    RuntimeError
        If the number of elements differs.

    Examples
    --------
    >>> tensor.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
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
    """``input.reshape(other.shape)``: a view where the strides allow it, else a copy.

    Raises
    ------
    RuntimeError
        If the numbers of elements differ.

    Examples
    --------
    >>> tensor.arange(4).reshape_as(tensor.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return reshape(input, other._layout.shape)


@operation()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim``, both included, as one; a view where the strides allow it.

    Parameters
    ----------
    start_dim, end_dim : int
        Dimensions, negative ones counted from the end. A 0-dim tensor becomes a vector.

    Raises
    ------
    RuntimeError
        If ``start_dim`` comes after ``end_dim``.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.flatten(tensor.zeros(2, 3, 4)).shape
    tensor.Size([24])
    >>> tensor.flatten(tensor.zeros(2, 3, 4), start_dim=1).shape
    tensor.Size([2, 12])
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
    """All elements in row-major order as a vector: a view of a contiguous tensor, else a copy.

    Examples
    --------
    >>> tensor.ravel(tensor.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return views.view(contiguous(input), -1)
