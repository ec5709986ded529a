"""Hooks on gradients of tensors and on nodes, and their handles."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, Self

from .node import Node, run_hooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..tensors import Tensor
    from .state import AutogradState

_numbers = itertools.count()


class RemovableHandle:
    """What registering a hook gives; ``remove()`` takes the hook away. Also a context manager."""

    __slots__ = ("__weakref__", "_hooks", "id")

    def __init__(self, hooks: dict[int, Any]) -> None:
        self._hooks: dict[int, Any] | None = hooks
        self.id = next(_numbers)

    def remove(self) -> None:
        """Take the hook away. A second call does nothing."""
        if self._hooks is not None:
            self._hooks.pop(self.id, None)
            self._hooks = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call ``hook(gradient)`` whenever a gradient with respect to the tensor has been computed.

    What it returns, if not ``None``, replaces the gradient.

    Raises
    ------
    RuntimeError
        If the tensor requires no gradient.
    """
    state = tensor._autograd
    if state is None or not state.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if state.edge is None:
        if state.hooks is None:
            state.hooks = {}
        handle = RemovableHandle(state.hooks)
        state.hooks[handle.id] = hook
        return handle
    node, number = state.edge

    def on_gradient(grads: list[Any]) -> None:
        if grads[number] is not None:
            grads[number] = run_hooks({0: hook}, grads[number])

    return _add(node, "prehooks", on_gradient)


def register_post_accumulate_grad_hook(tensor: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call ``hook(tensor)`` whenever a gradient has been added to the ``grad`` of a leaf.

    Raises
    ------
    RuntimeError
        If the tensor is no leaf that requires a gradient.
    """
    state = tensor._autograd
    if state is None or not state.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if state.edge is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if state.post_hooks is None:
        state.post_hooks = {}
    handle = RemovableHandle(state.post_hooks)
    state.post_hooks[handle.id] = hook
    return handle


def retain_grad(tensor: Tensor) -> None:
    """Keep the gradient of a tensor that is no leaf in its ``grad`` too.

    Raises
    ------
    RuntimeError
        If the tensor requires no gradient.
    """
    state = tensor._autograd
    if state is None or not state.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if state.edge is None or state.retains:
        return
    state.retains = True
    node, number = state.edge
    # The node must not keep the tensor alive.
    kept: weakref.ref[Tensor] = weakref.ref(tensor)

    def keep(grads: list[Any]) -> None:
        found = kept()
        if found is None or grads[number] is None:
            return
        mine: AutogradState = found._autograd
        mine.grad = grads[number] if mine.grad is None else mine.grad + grads[number]

    _add(node, "prehooks", keep)


def register_node_hook(node: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(grad_inputs, grad_outputs)`` after the node ran; what it returns replaces the former."""
    return _add(node, "hooks", hook)


def register_node_prehook(node: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(grad_outputs)`` before the node runs; what it returns replaces them."""

    def before(grads: list[Any]) -> None:
        changed = hook(tuple(grads))
        if changed is not None:
            grads[:] = changed if isinstance(changed, tuple) else (changed,)

    return _add(node, "prehooks", before)


def _add(node: Node, kind: str, hook: Any) -> RemovableHandle:
    hooks = getattr(node, kind)
    if hooks is None:
        hooks = {}
        setattr(node, kind, hooks)
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle
