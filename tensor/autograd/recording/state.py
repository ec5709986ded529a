"""What a tensor that takes part in differentiation knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

    from .node import Edge
    from .node_hooks import HookTable


class _Rare:
    """What few tensors have: leaves, and those whose gradient somebody looks at."""

    __slots__ = ()

    grad: Tensor | None = None
    accumulator: Any = None
    hooks: HookTable | None = None
    post_hooks: HookTable | None = None
    retains = False


class AutogradState(_Rare):
    """Of one tensor; most have none.

    Attributes
    ----------
    requires_grad : bool
        Whether gradients with respect to the tensor are wanted.
    edge : tuple or None
        The node that made the tensor, and which of its outputs it is; ``None`` for a leaf.
    grad : Tensor or None
        The gradient of a leaf.
    accumulator
        Weak reference to a leaf's node in the graph.
    hooks, post_hooks : HookTable or None
        Hooks on the gradient of a leaf, and those that run when it was added to ``grad``.
    retains : bool
        Whether a tensor that is no leaf keeps its gradient in ``grad``.
    origin : str or None
        ``"function"`` for a view that a user's Function made; ``"no_grad"`` or ``"inference_mode"`` for one that
        was made there of a tensor that requires grad. Such views are not written where operations are recorded.
    history : int
        Of a base: how many in-place operations on it or its views were recorded; of a view: how many there
        were when ``edge`` was found.
    """

    __slots__ = ("__dict__", "edge", "history", "origin", "requires_grad")

    requires_grad: bool
    edge: Edge | None
    history: int
    origin: str | None

    @property
    def grad_fn(self) -> Any:
        """The node that made the tensor; ``None`` for a leaf."""
        return None if self.edge is None else self.edge[0]


def new_state(requires_grad: bool = False, edge: Edge | None = None) -> AutogradState:
    """A state of a tensor that has had none.

    The class has no ``__init__``, so that what records an operation, which has no calls to spare, may do the same.
    """
    self = AutogradState()
    self.requires_grad = requires_grad
    self.edge = edge
    self.history = 0
    self.origin = None
    return self


def recorded(node: Any, number: int) -> AutogradState:
    """The state of output ``number`` of ``node``."""
    return new_state(True, (node, number))
