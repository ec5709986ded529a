"""``fill_uninitialized_memory``: what :func:`~tensor.use_deterministic_algorithms` does to new memory."""

from __future__ import annotations

import sys
from types import ModuleType

from tensor.core.modes.determinism import determinism


class _Settings(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether ``empty`` and its like, and ``resize_``, fill new memory in deterministic mode; True at first.

        With NaN, the largest integer or True. Assigning anything but a bool raises RuntimeError.
        """
        return determinism.fill_memory

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(f"fill_uninitialized_memory: expected a bool, but got {type(mode).__name__}")
        determinism.fill_memory = mode
        determinism.set(determinism.required, determinism.warn_only)


# Assigning to a module's attribute calls a setter only if the module's class has it.
sys.modules[__name__].__class__ = _Settings
