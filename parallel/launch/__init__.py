"""Starting ranks as processes: ``python -m parallel.launch`` for scripts, ``parallel.spawn`` for functions."""

from .command_line import main

__all__ = ["main"]
