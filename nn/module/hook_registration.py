"""Registering hooks with one module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import ModuleBase
from .hooks import Hook, RemovableHandle, add

if TYPE_CHECKING:
    from collections.abc import Callable


class HookRegistration(ModuleBase):
    """The methods of a :class:`~nn.Module` that register hooks on its calls.

    Each gives a handle, whose ``remove()`` takes the hook away.
    """

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``. What it returns, if not ``None``, replaces ``args``.

        Parameters
        ----------
        prepend
            Whether it runs before the module's other hooks.
        with_kwargs
            Whether it is called as ``hook(module, args, kwargs)``, and may return a pair to replace both.
        """
        return add(self._forward_pre_hooks, Hook(hook, with_kwargs=with_kwargs), prepend=prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after ``forward``. What it returns, if not ``None``, is the output.

        Parameters
        ----------
        prepend
            Whether it runs before the module's other hooks.
        with_kwargs
            Whether it is called as ``hook(module, args, kwargs, output)``.
        always_call
            Whether it runs although ``forward`` has raised.
        """
        made = Hook(hook, with_kwargs=with_kwargs, always_call=always_call)
        return add(self._forward_hooks, made, prepend=prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the gradients of the module are computed.

        ``grad_output`` is a tuple with the gradient of each output, ``None`` for what is no tensor. What the
        hook returns, if not ``None``, replaces it.
        """
        return add(self._backward_pre_hooks, Hook(hook), prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs have been computed.

        Both are tuples, with ``None`` for what is no tensor; keyword arguments have no place in them. What
        the hook returns, if not ``None``, replaces ``grad_input``.

        Raises
        ------
        RuntimeError
            If the module has hooks of the old kind.
        """
        return self._add_backward_hook(hook, full=True, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The old kind of backward hook, for old scripts: it sees the node of the first output only.

        Raises
        ------
        RuntimeError
            If the module has full backward hooks.
        """
        return self._add_backward_hook(hook, full=False)

    def _add_backward_hook(
        self, hook: Callable[..., Any], *, full: bool, prepend: bool = False
    ) -> RemovableHandle:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        handle = add(self._backward_hooks, Hook(hook), prepend=prepend)
        self._is_full_backward_hook = full
        return handle
