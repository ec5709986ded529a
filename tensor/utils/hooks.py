"""Tables of hooks, and the handles that take them away again."""

from typing import TYPE_CHECKING

from tensor.autograd.recording.node_hooks import HookTable, RemovableHandle
from tensor.core.names.absent import hints as _hints

__all__ = ["HookTable", "RemovableHandle"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
