"""Tables of hooks, and the handles that take them away again."""

from tensor.autograd.recording.node_hooks import HookTable, RemovableHandle

__all__ = ["HookTable", "RemovableHandle"]
