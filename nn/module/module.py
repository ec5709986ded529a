"""``Module``: the base of all layers and models."""

from __future__ import annotations

from typing import Any, Self

from . import hooks
from .conversions import Conversions
from .hook_registration import HookRegistration
from .hooks import every_module
from .members import Members
from .state import State


class Module(Members, State, Conversions, HookRegistration):
    """Part of a network: something to call, with parameters, buffers and submodules.

    Derive a class, call ``super().__init__()`` first, assign parameters and modules to attributes, and define
    ``forward``.

    Examples
    --------
    >>> class Residual(Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.linear = Linear(size, size)
    ...
    ...     def forward(self, x):
    ...         return x + self.linear(x).relu()
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call computes; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """``forward``, with the hooks before and after it."""
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or every_module
        ):
            return hooks.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What the text of the module says beside its name; for subclasses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        return text_of(self._get_name(), lines, children)

    def _replicate_for_data_parallel(self) -> Self:
        """A module with the same attributes and tables of its own, without parameters."""
        made = self.__new__(type(self))
        own = made.__dict__
        own.update(self.__dict__)
        own["_parameters"] = {}
        own["_buffers"] = self._buffers.copy()
        own["_modules"] = self._modules.copy()
        own["_is_replica"] = True
        return made


def indented(text: str) -> str:
    """``text`` with all lines but the first moved to the right."""
    return text.replace("\n", "\n  ")


def text_of(name: str, extra: list[str], children: list[str]) -> str:
    """Text of a module: on one line where it has no children and little else."""
    if not children and len(extra) <= 1:
        return f"{name}({''.join(extra)})"
    lines = [*extra, *children]
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"
