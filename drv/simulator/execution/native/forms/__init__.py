"""Arithmetic in LLVM's assembler."""

from .expressions import Emitter, NotNative, Value, constant, llvm_type
from .table import native_form

__all__ = ["Emitter", "NotNative", "Value", "constant", "llvm_type", "native_form"]
