"""Shapes that several tensors are stretched to."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts
from tensor.core.arguments import integers
from tensor.core.size import Size
from tensor.operations.definition import operation

from . import views

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


@operation(method=False)
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that all ``shapes`` are broadcast to; a number is a shape of one dimension.

    Raises
    ------
    RuntimeError
        If sizes differ and neither is 1, or one is negative.

    Examples
    --------
    >>> tensor.broadcast_shapes((2, 1), (3,))
    tensor.Size([2, 3])
    """
    arguments = [
        (index(shape),) if hasattr(shape, "__index__") else integers((shape,), "broadcast_shapes")
        for shape in shapes
    ]
    for shape in arguments:
        if any(size < 0 for size in shape):
            raise RuntimeError(
                f"broadcast_shapes(): Trying to create tensor with negative dimension: {list(shape)}"
            )
    return Size(layouts.broadcast_shapes(*arguments))


@operation(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of all tensors, given one by one or as a sequence, in the shape that they are broadcast to.

    Raises
    ------
    RuntimeError
        If sizes differ and neither is 1.

    Examples
    --------
    >>> a, b = tensor.broadcast_tensors(tensor.tensor([[1], [2]]), tensor.tensor([3, 4]))
    >>> a
    tensor([[1, 1],
            [2, 2]])
    >>> b
    tensor([[3, 4],
            [3, 4]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = layouts.broadcast_shapes(*(x._layout.shape for x in tensors))
    return tuple(views.expand(x, shape) for x in tensors)
