"""Starting ranks as processes: ``graphroot launch`` for scripts, ``parallel.spawn`` for functions."""

from .command_line import main

__all__ = ["main"]
