"""Hooks of modules: their tables, and how a call runs them.

A module has a table for each kind of hook; one table holds those that all modules run, with their roles.
:func:`call` is what a module with any hook does when it is called; without hooks a call is ``forward``.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from tensor import Tensor
from tensor.utils.hooks import HookTable, RemovableHandle

from .backward_hooks import BackwardHooks, register_on_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from .module import Module

__all__ = [
    "Hook",
    "HookTable",
    "RemovableHandle",
    "add",
    "call",
    "every_module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
    "registered",
]

#: Kinds of hooks that run for every module.
FORWARD_PRE, FORWARD, BACKWARD_PRE, BACKWARD, FULL_BACKWARD = (
    "forward_pre",
    "forward",
    "backward_pre",
    "backward",
    "full_backward",
)
PARAMETER, BUFFER, MODULE = "parameter", "buffer", "module"


class Hook(NamedTuple):
    """A hook, and how to call it.

    Attributes
    ----------
    function
        What the user registered.
    role
        What it is called for, if every module runs it.
    with_kwargs
        Whether it is called with the keyword arguments of ``forward`` too.
    always_call
        Whether it runs although ``forward`` has raised.
    """

    function: Callable[..., Any]
    role: str = ""
    with_kwargs: bool = False
    always_call: bool = False


#: Hooks that every module runs.
every_module = HookTable()


def add(table: HookTable, hook: Hook, *, prepend: bool = False) -> RemovableHandle:
    """Register ``hook``, before the others in the table if ``prepend``."""
    if not callable(hook.function):
        raise TypeError(f"a hook must be callable, got {type(hook.function).__name__}")
    handle = RemovableHandle(table)
    others = list(table.items()) if prepend else ()
    if prepend:
        table.clear()
    table[handle.id] = hook
    table.update(others)
    return handle


def _of_every_module(role: str) -> list[Hook]:
    return [hook for hook in every_module.values() if hook.role == role] if every_module else []


def registered(owner: Module, role: str, name: str, value: Any) -> Any:
    """``value``, or the replacement that a hook on the registration of parameters, buffers or modules returns."""
    for hook in _of_every_module(role):
        changed = hook.function(owner, name, value)
        if changed is not None:
            value = changed
    return value


def call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What calling a module with hooks does.

    Hooks that every module runs come before the module's own. If ``forward`` or a hook raises, the forward
    hooks registered with ``always_call`` that have not run yet still do, and what they raise is a warning.
    """
    after: list[Hook] = [*_of_every_module(FORWARD), *module._forward_hooks.values()]
    done = 0
    result: Any = None
    try:
        args, kwargs = _before(module, args, kwargs)
        around = _backward_hooks(module)
        if around is not None:
            args = around.watch_inputs(args)
        result = module.forward(*args, **kwargs)
        for hook in after:
            done += 1
            changed = _after(module, hook, args, kwargs, result)
            if changed is not None:
                result = changed
        if around is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                    f"received {type(result)}",
                    stacklevel=3,
                )
            result = around.watch_outputs(result)
    except BaseException:
        # Also where a checkpoint has what it needs, and stops the module.
        for hook in after[done:]:
            if not hook.always_call:
                continue
            try:
                changed = _after(module, hook, args, kwargs, result)
                if changed is not None:
                    result = changed
            except Exception as error:
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception that was silenced as another "
                    f"error was raised in forward: {error}",
                    stacklevel=3,
                )
        raise
    old = [hook.function for hook in _of_every_module(BACKWARD)]
    if module._is_full_backward_hook is False:
        old += [hook.function for hook in module._backward_hooks.values()]
    if old:
        register_on_output(module, result, old)
    return result


def _before(
    module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for hook in [*_of_every_module(FORWARD_PRE), *module._forward_pre_hooks.values()]:
        if not hook.with_kwargs:
            changed = hook.function(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
            continue
        changed = hook.function(module, args, kwargs)
        if changed is None:
            continue
        if not isinstance(changed, tuple) or len(changed) != 2:
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
            )
        args, kwargs = changed
    return args, kwargs


def _after(module: Module, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    if hook.with_kwargs:
        return hook.function(module, args, kwargs, result)
    return hook.function(module, args, result)


def _backward_hooks(module: Module) -> BackwardHooks | None:
    """The full hooks on the backward pass of this call, if there are any."""
    before = [hook.function for hook in _of_every_module(BACKWARD_PRE)]
    before += [hook.function for hook in module._backward_pre_hooks.values()]
    after = [hook.function for hook in _of_every_module(FULL_BACKWARD)]
    if module._is_full_backward_hook:
        after += [hook.function for hook in module._backward_hooks.values()]
    return BackwardHooks(module, before, after) if before or after else None


# Hooks of every module


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when a parameter is registered; what it returns replaces it.

    It is called for every module; None leaves the object as it is.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` removes the hook.

    Raises
    ------
    TypeError
        If ``hook`` is not callable.
    """
    return add(every_module, Hook(hook, PARAMETER))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a buffer is registered; what it returns replaces it.

    It is called for every module; None leaves the object as it is.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` removes the hook.

    Raises
    ------
    TypeError
        If ``hook`` is not callable.
    """
    return add(every_module, Hook(hook, BUFFER))


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when a module is registered; what it returns replaces it.

    It is called for every module; None leaves the object as it is.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` removes the hook.

    Raises
    ------
    TypeError
        If ``hook`` is not callable.
    """
    return add(every_module, Hook(hook, MODULE))


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before ``forward`` of every module, before the module's own hooks.

    What it returns, if not ``None``, replaces ``args``.
    """
    return add(every_module, Hook(hook, FORWARD_PRE))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after ``forward`` of every module, before the module's own hooks.

    Parameters
    ----------
    hook, with_kwargs, always_call
        See :meth:`~nn.Module.register_forward_hook`.
    """
    return add(every_module, Hook(hook, FORWARD, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the gradients of every module are computed.

    ``grad_output`` is a tuple of gradients; what the hook returns takes its place unless it is None.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` removes the hook.

    Raises
    ------
    TypeError
        If ``hook`` is not callable.
    """
    return add(every_module, Hook(hook, BACKWARD_PRE))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` when the gradients of every module's inputs have been computed.

    Raises
    ------
    RuntimeError
        If there are deprecated, non-full backward hooks.
    """
    if _of_every_module(BACKWARD):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    return add(every_module, Hook(hook, FULL_BACKWARD))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Deprecated, for old scripts: call ``hook`` as one of ``Module.register_backward_hook``, for every module.

    Raises
    ------
    RuntimeError
        If there are full backward hooks.
    """
    if _of_every_module(FULL_BACKWARD):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    return add(every_module, Hook(hook, BACKWARD))
