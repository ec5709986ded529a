"""Recording an operation of several inputs whose derivative is one function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.node import Node, attach
from tensor.autograd.recording.saved import freed, restore_all, save, save_output
from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import modes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor


class NeuralNode(Node):
    """A recorded operation.

    ``derivative(wanted, grads, *saved, *context)`` gives a gradient for each input; ``wanted`` says for which
    inputs there is to be one, ``grads`` is the gradient of the first output, or all where there are several.
    """

    __slots__ = ("context", "derivative", "title")

    title: str
    derivative: Callable[..., Any]
    context: tuple[Any, ...]

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return self.title

    def backward(self, *grads: Any) -> Any:
        """Gradients of the inputs."""
        if self.saved is None:
            raise freed(self)
        values = restore_all(self.saved, self)
        wanted = tuple([edge is not None for edge in self.next])
        given = grads if len(self.layouts) > 1 else grads[0]
        return self.derivative(wanted, given, *values, *self.context)


def record(
    results: Sequence[Tensor],
    inputs: Sequence[Any],
    title: str,
    derivative: Callable[..., Any],
    saved: Sequence[Any],
    context: Sequence[Any] = (),
) -> None:
    """Put an operation into the graph where a gradient of one of its inputs is wanted.

    Parameters
    ----------
    results
        What users get of it.
    inputs
        What it was made of, tensors and other things.
    saved
        What the derivative needs: inputs, results, other tensors that no gradient goes through, or ``None``.
    """
    if not modes.recording:
        return
    for x in inputs:
        if isinstance(x, TensorBase) and x._autograd is not None and x._autograd.requires_grad:
            break
    else:
        return
    node = NeuralNode.__new__(NeuralNode)
    node.title, node.derivative, node.context = title, derivative, tuple(context)
    numbers = {id(result): number for number, result in enumerate(results)}
    node.saved = tuple([save_output(x, numbers[id(x)]) if id(x) in numbers else save(x) for x in saved])
    attach(node, inputs, results)
