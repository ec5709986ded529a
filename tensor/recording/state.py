"""What a tensor that takes part in differentiation knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tensors import Tensor
    from .node import Edge
    from .node_hooks import HookTable


class AutogradState:
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

    __slots__ = (
        "accumulator",
        "edge",
        "grad",
        "history",
        "hooks",
        "origin",
        "post_hooks",
        "requires_grad",
        "retains",
    )

    edge: Edge | None
    hooks: HookTable | None
    post_hooks: HookTable | None

    def __init__(self, requires_grad: bool = False, edge: Edge | None = None) -> None:
        self.requires_grad = requires_grad
        self.edge = edge
        self.grad: Tensor | None = None
        self.accumulator: Any = None
        self.hooks = None
        self.post_hooks = None
        self.history = 0
        self.retains = False
        self.origin: str | None = None

    @property
    def grad_fn(self) -> Any:
        """The node that made the tensor; ``None`` for a leaf."""
        return None if self.edge is None else self.edge[0]
