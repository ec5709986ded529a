"""Variables of one differentiation: where its gradients end, and where those of an outer one go on.

``func.grad(f)(x)`` differentiates by a variable of its own that shares the elements of ``x``: a leaf for ``f``, so that
``x.grad`` stays as it is, and yet tied to the history of ``x``, so that an outer differentiation passes through. Since every
differentiation asks for gradients of its own variables, nested ones are not confused: they all read one graph.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

from tensor.core.base import view_of
from tensor.core.modes.grad_mode import modes

from .recording.node import AccumulateGrad, Node, edge_of, place_in_graph
from .recording.state import new_state, recorded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor.methods.tensor import Tensor


class Level:
    """One differentiation, from the call of a function to the end of it."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active = True


class LevelNode(Node):
    """The start of a level's variable, which hands its gradient on to the tensor that the variable stands for."""

    __slots__ = ("level",)

    level: Level

    def __init__(self, level: Level, origin: Tensor) -> None:
        self.level = level
        self.saved = ()
        place_in_graph(self, (origin,), (origin,))

    def name(self) -> str:
        """Name as the nodes of leaves have it."""
        return "AccumulateGrad"

    def backward(self, *grads: Tensor | None) -> Any:
        """The gradient itself."""
        return grads


_Node = TypeVar("_Node", bound=LevelNode)


class _Entered(threading.local):
    """How many levels this thread is inside of whose function must not call ``backward()``."""

    count = 0


entered = _Entered()


class inside:  # noqa: N801 - read as words: ``with inside(level):``
    """While a level's function runs: operations are recorded whatever the mode is outside."""

    __slots__ = ("_before", "_level")

    def __init__(self, level: Level) -> None:
        self._level = level

    def __enter__(self) -> None:
        self._before = modes.recording
        modes.recording = True
        entered.count += 1

    def __exit__(self, *exception: object) -> None:
        modes.recording = self._before
        entered.count -= 1
        self._level.active = False


def variable(origin: Tensor, level: Level) -> Tensor:
    """A leaf that requires grad, of the elements of ``origin``, whose history goes on behind it.

    Raises
    ------
    RuntimeError
        If the dtype is neither floating nor complex.
    """
    result = view_of(origin._storage, origin._layout, origin._offset)
    result.requires_grad_()
    node = LevelNode(level, origin)
    result._autograd.accumulator = lambda: node
    return result


def intermediate(origin: Tensor, level: Level, node_class: type[_Node]) -> tuple[Tensor, _Node]:
    """As :func:`variable`, but a result that may be written in place; and its node."""
    result = view_of(origin._storage, origin._layout, origin._offset)
    node = node_class(level, origin)
    result._autograd = recorded(node, 0)
    return result, node


def nodes_behind(tensors: Iterable[Tensor]) -> Iterable[Node]:
    """Every node that the histories of ``tensors`` consist of, once each."""
    stack = [edge[0] for each in tensors if (edge := edge_of(each)) is not None]
    seen = set(map(id, stack))
    while stack:
        node = stack.pop()
        yield node
        for edge in node.next:
            if edge is not None and id(edge[0]) not in seen:
                seen.add(id(edge[0]))
                stack.append(edge[0])


def concerns_others(tensors: Iterable[Tensor], level: Level) -> bool:
    """Whether a history leads to what another differentiation may ask for: a leaf, or a variable of a level that runs."""
    return any(
        node.level.active and node.level is not level
        if isinstance(node, LevelNode)
        else isinstance(node, AccumulateGrad)
        for node in nodes_behind(tensors)
    )


def settled(result: Tensor, level: Level) -> Tensor:
    """``result`` as it is seen outside the level: without a history that only the level's own variables are behind."""
    state = result._autograd
    if state is None or not state.requires_grad:
        return result
    if not modes.recording or not concerns_others((result,), level):
        return view_of(result._storage, result._layout, result._offset)
    if state.edge is None and state.accumulator is not None and isinstance(state.accumulator(), LevelNode):
        # A variable that the function returned: outside it is no leaf.
        outer = view_of(result._storage, result._layout, result._offset)
        outer._autograd = new_state(True, edge_of(result))
        return outer
    return result
