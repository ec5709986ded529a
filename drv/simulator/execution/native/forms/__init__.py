"""Arithmetic in LLVM's assembler."""

from .expressions import Emitter, NotNative, Value, constant, llvm_type
from .operands import OperandEmitter
from .table import native_form

__all__ = ["Emitter", "NotNative", "OperandEmitter", "Value", "constant", "llvm_type", "native_form"]
