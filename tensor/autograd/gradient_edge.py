"""``GradientEdge``: where a gradient enters a node, to be named instead of the tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tensor.core.base import TensorBase

from .recording.node import Node, edge_of

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


class GradientEdge(NamedTuple):
    """An output of a node. :func:`tensor.autograd.backward` and ``grad`` take it in place of the tensor.

    Attributes
    ----------
    node : Node
        The node.
    output_nr : int
        Which of its outputs.
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor; unlike the tensor it keeps no memory.

    Raises
    ------
    RuntimeError
        If the tensor requires no gradient.
    """
    edge = edge_of(tensor) if isinstance(tensor, TensorBase) else None
    if edge is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge of a Tensor that does not require gradients"
        )
    return GradientEdge(*edge)
