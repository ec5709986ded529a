"""Nodes of recorded pointwise operations, and their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tensor.autograd.recording.node import Node
from tensor.autograd.recording.saved import freed, restore_all, save_output
from tensor.core.base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor


class Form(NamedTuple):
    """What the nodes of an operation have in common that want gradients of the same operands.

    Attributes
    ----------
    shown
        Name as PyTorch shows it.
    kept
        What is saved: operands by position, ``None`` for the result.
    steps
        For each operand its derivative, with the indices of what it needs in ``kept``; ``None`` if not wanted.
    """

    shown: str
    kept: tuple[int | None, ...]
    steps: tuple[tuple[Callable[..., Any], tuple[int, ...]] | None, ...]


class OperationNode(Node):
    """A recorded pointwise operation."""

    __slots__ = ("form",)

    form: Form

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return self.form.shown

    def keep_output(self, result: Tensor) -> None:
        """Keep ``result`` where the derivatives need it."""
        if None in self.form.kept and self.saved is not None:
            self.saved = tuple(
                [
                    save_output(result) if position is None else entry
                    for position, entry in zip(self.form.kept, self.saved, strict=True)
                ]
            )

    def backward(self, *grads: Any) -> Any:
        """Gradients of the operands."""
        if self.saved is None:
            raise freed(self)
        values = restore_all(self.saved, self)
        results: list[Any] = []
        for step in self.form.steps:
            if step is None:
                results.append(None)
                continue
            function, needs = step
            found = function(grads[0], *[values[index] for index in needs])
            if found._layout.dtype.is_complex:
                found = _of_kind(found, self, len(results))
            results.append(found)
        return tuple(results)


def node_name(name: str) -> str:
    """``Log1PBackward0`` for ``log1p``: the parts of a name, and what follows digits, begin with capitals."""
    parts = "".join(part.capitalize() for part in name.split("_"))
    return re.sub(r"(\d)([a-z])", lambda found: found[1] + found[2].upper(), parts) + "Backward0"


def numbered(name: str, tensors: int = 1, numbers: int = 0) -> Callable[..., str]:
    """Names of nodes that differ by whether the last operand is a tensor or a number."""
    found = f"{name}Backward{tensors}", f"{name}Backward{numbers}"
    return lambda *operands: found[not isinstance(operands[-1], TensorBase)]


def _of_kind(gradient: Tensor, node: Node, position: int) -> Tensor:
    """A complex gradient, or its real part where the operand is real."""
    edge = node.next[position]
    if edge is None or edge[0].layouts[edge[1]].dtype.is_complex:
        return gradient
    return gradient.real
