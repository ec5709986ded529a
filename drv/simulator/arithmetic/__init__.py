"""What PTX arithmetic computes, over arrays of lanes."""

from drv.simulator.arithmetic.atomics import atomic
from drv.simulator.arithmetic.operation import DTYPES, UnknownInstruction, VectorOperation
from drv.simulator.arithmetic.resolution import resolve

__all__ = ["DTYPES", "UnknownInstruction", "VectorOperation", "atomic", "resolve"]
