"""Kernels run from their PTX, over NumPy arrays of lanes."""

from .grid import Launch, run

__all__ = ["Launch", "run"]
