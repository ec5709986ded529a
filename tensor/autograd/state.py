"""What a tensor that takes part in differentiation knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tensors import Tensor


class AutogradState:
    """Of one tensor; most have none.

    Attributes
    ----------
    requires_grad : bool
        Whether gradients with respect to the tensor are wanted.
    grad : Tensor or None
        The gradient of a leaf.
    grad_fn
        The node that made the tensor; ``None`` for a leaf.
    """

    __slots__ = ("grad", "grad_fn", "requires_grad")

    def __init__(self, *, requires_grad: bool = False) -> None:
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self.grad_fn: Any = None
