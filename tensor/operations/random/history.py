"""What differentiation knows of random numbers: they do not depend on their inputs, whose gradients are zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.inplace import attach_in_place
from tensor.autograd.recording.node import Node, attach
from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import modes
from tensor.operations.creation.factories import zeros

if TYPE_CHECKING:
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


class RandomNode(Node):
    """A recorded draw.

    Attributes
    ----------
    title : str
        Name as PyTorch shows it.
    origins : tuple of Layout
        What the inputs look like.
    """

    __slots__ = ("origins", "title")

    title: str
    origins: tuple[Layout, ...]

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return self.title

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def backward(self, *_: Any) -> Any:
        """Zeros for the inputs that want a gradient."""
        return tuple(
            None if edge is None else zeros(origin.shape, dtype=origin.dtype, device=origin.device)
            for edge, origin in zip(self.next, self.origins, strict=True)
        )


def record(drawn: Tensor, title: str, *inputs: Any) -> None:
    """Record that new numbers were drawn with parameters among which are tensors."""
    node = _node(drawn, title, inputs)
    if node is not None:
        attach(node, [each for each in inputs if isinstance(each, TensorBase)], (drawn,))


def record_in_place(written: Tensor, title: str, *inputs: Any) -> None:
    """Record that numbers were written over what was in a tensor."""
    node = _node(written, title, (written, *inputs))
    if node is not None:
        attach_in_place(node, (written, *inputs), written)


def _node(made: Tensor, title: str, inputs: tuple[Any, ...]) -> RandomNode | None:
    """A node if there is something to record."""
    kind = made._layout.dtype
    tensors = [each for each in inputs if isinstance(each, TensorBase)]
    if not modes.recording or not (kind.is_floating_point or kind.is_complex):
        return None
    if not any(each._autograd is not None and each._autograd.requires_grad for each in tensors):
        return None
    node = RandomNode.__new__(RandomNode)
    node.title, node.saved = title, ()
    node.origins = tuple(each._layout for each in tensors)
    return node
