"""Operands of instructions as values: constants, vectors, and registers of other sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import DTYPES

from .expressions import Emitter, NotNative, Value, constant, llvm_type

if TYPE_CHECKING:
    from drv.simulator.ptx.program import Immediate, Operand, Vector


class OperandEmitter(Emitter):
    """Instructions of LLVM over operands of PTX."""

    def use(self, operand: Operand, ptx_type: str) -> Value:
        """An operand as PTX type ``ptx_type``."""
        raise NotImplementedError

    def resized(self, value: Value, dtype: np.dtype[Any]) -> Value:
        """The low bits of a value, or the value with zeros above, as another type."""
        own = value.dtype
        assert own is not None
        if own == dtype:
            return value
        if "b" in (own.kind, dtype.kind):
            raise NotNative("a predicate as a number")
        if own.itemsize == dtype.itemsize:
            return self.bits(value, dtype)
        bits = self.bits(value, np.dtype(f"u{own.itemsize}"))
        return self.bits(self.converted(bits, np.dtype(f"u{dtype.itemsize}")), dtype)

    def immediate(self, operand: Immediate, ptx_type: str) -> Value:
        """A constant of the text."""
        value, dtype = operand.value, DTYPES[ptx_type]
        if ptx_type == "pred":
            return Value("true" if value else "false", dtype)
        if operand.kind == "f64" and dtype == np.float32:
            value = int(np.array([value], np.uint64).view(np.float64).astype(np.float32).view(np.uint32)[0])
        elif operand.kind == "f32" and dtype == np.float64:
            value = int(
                np.array([value & 0xFFFFFFFF], np.uint32)
                .view(np.float32)
                .astype(np.float64)
                .view(np.uint64)[0]
            )
        elif operand.kind == "int" and dtype.kind == "f" and dtype.itemsize > 2:
            return Value(constant(value, dtype), dtype)
        bits = value & ((1 << 8 * dtype.itemsize) - 1)
        if dtype.kind == "f":
            return Value(f"bitcast (i{8 * dtype.itemsize} {bits} to {llvm_type(dtype)})", dtype)
        return Value(str(bits), dtype)

    def packed(self, operand: Vector, dtype: np.dtype[Any]) -> Value:
        """Parts put together, the first lowest."""
        count = len(operand.items)
        size = dtype.itemsize // count
        if dtype.kind != "u" or size * count != dtype.itemsize or count < 2:
            raise NotNative(str(operand))
        ir_type = llvm_type(dtype)
        result = ""
        for position, item in enumerate(operand.items):
            shifted = self.converted(self.use(item, f"u{8 * size}"), dtype).text
            if position:
                shifted = self.emit(f"shl {ir_type} {shifted}, {8 * size * position}")
                result = self.emit(f"or {ir_type} {result}, {shifted}")
            else:
                result = shifted
        return Value(result, dtype)
