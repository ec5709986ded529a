"""Anomaly mode: nodes remember where they were made, and gradients are looked through for NaN."""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensor.core.modes.grad_mode import no_grad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .node import Node

_PARENT = "parent_"
_STACK = "traceback_"
#: Files of this package, and functions that it has written out.
_OWN = str(Path(__file__).parents[2]) + os.sep, "<tensor "


class _Mode:
    """Of the process, as PyTorch's: passes of all threads are looked at."""

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        self.check_nan = True


class _Running(threading.local):
    """The node that this thread's backward pass runs now."""

    node: Any = None


mode = _Mode()
running = _Running()


def note(metadata: dict[str, Any]) -> None:
    """Keep this thread's stack, and the node that is running where it is one that records another."""
    stack = traceback.extract_stack()
    # The last line shall be the one that called the operation.
    while len(stack) > 1 and stack[-1].filename.startswith(_OWN):
        stack.pop()
    metadata[_STACK] = stack.format()
    if running.node is not None:
        metadata[_PARENT] = running.node


def describe(node: Any) -> str:
    """Where ``node`` was made, and the nodes whose gradients it belongs to."""
    lines: list[str] = []
    seen: set[int] = set()
    while node is not None and id(node) not in seen:
        seen.add(id(node))
        metadata = {} if node.hooks is None else node.metadata
        stack = metadata.get(_STACK)
        if not lines:
            lines.append(f"Error detected in {node.name()}.")
        else:
            lines.append(f"Previous calculation was induced by {node.name()}.")
        if stack is None:
            lines.append(
                "No forward pass information is available: enable anomaly detection during the forward pass too."
            )
        else:
            lines.append("Traceback of forward call that caused the error:")
            lines.append("".join(stack).rstrip("\n"))
        node = metadata.get(_PARENT)
    return "\n".join(lines)


# In backward passes


def report(node: Node) -> None:
    """Warn that ``node`` failed, with the stack of the operation that recorded it."""
    warnings.warn(describe(node), stacklevel=2)


def check_gradients(node: Node, results: Sequence[Any]) -> None:
    """Raise RuntimeError if a gradient that ``node`` gave is NaN somewhere; says where ``node`` was made."""
    for position, result in enumerate(results):
        if result is None:
            continue
        with no_grad():
            value = bool(result.detach().isnan().any())
        if value:
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {position}th output.\n{describe(node)}"
            )
