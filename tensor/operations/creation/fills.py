"""One value in every element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.inplace import attach_in_place, check_in_place
from tensor.autograd.recording.node import Node
from tensor.core.dtypes.scalars import element
from tensor.core.fill_plans import FILL, ZERO
from tensor.core.modes.grad_mode import modes
from tensor.operations.definition import operation

from .copies import copy_

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


@operation()
def fill_(input: Tensor, value: Any) -> Tensor:
    """Write ``value``, a number or a 0-dim tensor, to every element.

    Raises
    ------
    RuntimeError
        If the dtype cannot hold the number, or the tensor ``value`` has dimensions.
    """
    origin = getattr(value, "_layout", None)
    if origin is not None:
        if origin.shape:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {len(origin.shape)} dimensions."
            )
        return copy_(input, value.clone() if value._storage is input._storage else value)
    check_in_place(input)
    layout = input._layout
    layout.place.plans[FILL, layout](input, element(value, layout.dtype))
    input._storage.version += 1
    _recorded(input, FillNode)
    return input


def _recorded(input: Tensor, cls: type[FillNode]) -> None:
    state = input._autograd
    if state is not None and state.requires_grad and modes.recording:
        node = cls.__new__(cls)
        node.saved = ()
        attach_in_place(node, (input,), input)


class FillNode(Node):
    """A recorded fill: what was there before has no influence."""

    __slots__ = ()

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "FillBackward0"

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def backward(self, *grads: Any) -> Any:
        """Zeros."""
        return grads[0].new_zeros(grads[0].shape)


class ZeroNode(FillNode):
    """A recorded fill with 0."""

    __slots__ = ()

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "ZeroBackward0"


@operation()
def zero_(input: Tensor) -> Tensor:
    """Write 0 to every element."""
    check_in_place(input)
    layout = input._layout
    layout.place.plans[ZERO, layout](input)
    input._storage.version += 1
    _recorded(input, ZeroNode)
    return input


@operation(method=False)
def fill(input: Tensor, value: Any) -> Tensor:
    """``value``, a number or a 0-dim tensor, in every element of a new tensor like ``input``."""
    return fill_(input.clone(), value)
