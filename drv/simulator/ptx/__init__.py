"""PTX, as NVRTC writes it, read into records."""

from .parser import parse
from .program import Function, Instruction, Module, PTXSyntaxError, Variable

__all__ = ["Function", "Instruction", "Module", "PTXSyntaxError", "Variable", "parse"]
