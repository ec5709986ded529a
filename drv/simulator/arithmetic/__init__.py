"""What PTX arithmetic computes, over arrays of lanes."""

from .atomics import atomic
from .operation import DTYPES, UnknownInstruction, VectorOperation
from .resolution import resolve

__all__ = ["DTYPES", "UnknownInstruction", "VectorOperation", "atomic", "resolve"]
