"""Hooks on gradients of tensors."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .node import edge_of
from .node_hooks import HookTable, RemovableHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

    from .state import AutogradState

__all__ = ["RemovableHandle", "register_hook", "register_post_accumulate_grad_hook", "retain_grad"]


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call ``hook(gradient)`` whenever a gradient with respect to ``tensor`` has been computed.

    What it returns, if not ``None``, replaces the gradient. The result is a handle, whose ``remove()`` takes the hook
    away.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad; in a backward pass, if the hook returns a tensor of another shape, dtype
        or device.
    TypeError
        If ``hook`` is not callable; in a backward pass, if it returns neither a tensor nor ``None``.
    """
    state = _state(tensor, "cannot register a hook on a tensor that doesn't require gradient")
    if state.edge is None:
        if state.hooks is None:
            state.hooks = HookTable()
        return RemovableHandle.of(state.hooks, hook)
    node, number = edge_of(tensor)
    hooks = node.own_hooks().on_output
    return RemovableHandle.of(hooks.setdefault(number, HookTable()), hook)


def register_post_accumulate_grad_hook(tensor: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call ``hook(tensor)`` whenever a gradient has been added to ``grad`` of ``tensor``, a leaf.

    The result is a handle, whose ``remove()`` takes the hook away.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad, or is not a leaf.
    TypeError
        If ``hook`` is not callable.
    """
    state = _state(tensor, "cannot register a hook on a tensor that doesn't require gradient")
    if state.edge is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if state.post_hooks is None:
        state.post_hooks = HookTable()
    return RemovableHandle.of(state.post_hooks, hook)


def retain_grad(tensor: Tensor) -> None:
    """Keep the gradient of ``tensor``, which is not a leaf, in its ``grad`` too. On a leaf it does nothing.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.
    """
    state = _state(tensor, "can't retain_grad on Tensor that has requires_grad=False")
    if state.edge is None or state.retains:
        return
    keep_gradient(tensor)


def keep_gradient(tensor: Tensor) -> None:
    """Have the node that made ``tensor`` keep its gradient in ``grad``."""
    node, number = edge_of(tensor)
    state: AutogradState = tensor._autograd
    state.retains = True
    # The node must not keep the tensor alive.
    reference: weakref.ref[Tensor] = weakref.ref(tensor)

    def keep(gradient: Tensor) -> None:
        result = reference()
        if result is not None:
            mine: AutogradState = result._autograd
            mine.grad = gradient if mine.grad is None else mine.grad + gradient

    node.own_hooks().retain[number] = keep


def _state(tensor: Tensor, refusal: str) -> AutogradState:
    state: AutogradState | None = tensor._autograd
    if state is None or not state.requires_grad:
        raise RuntimeError(refusal)
    return state
