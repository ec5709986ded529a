"""How host arrays of several ranks are combined, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from parallel.groups.reduce_op import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .backend import Array

_HALVES: frozenset[np.dtype[Any]] = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
_FLOATS: frozenset[np.dtype[Any]] = _HALVES | {np.dtype(np.float32), np.dtype(np.float64)}
_COMPLEX: frozenset[np.dtype[Any]] = frozenset({np.dtype(np.complex64), np.dtype(np.complex128)})
_INTEGERS: frozenset[np.dtype[Any]] = frozenset(
    np.dtype(dtype) for dtype in (np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64)
)
DTYPES: frozenset[np.dtype[Any]] = _INTEGERS | _FLOATS | _COMPLEX
"""Dtypes that ranks can send each other."""

# On bools NumPy's add, multiply, minimum and maximum are "or", "and", "and" and "or", as PyTorch's are.
_FUNCTIONS: dict[ReduceOp, np.ufunc] = {
    ReduceOp.SUM: np.add,
    ReduceOp.AVG: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}
_ALLOWED: dict[ReduceOp, frozenset[np.dtype[Any]]] = {
    ReduceOp.SUM: DTYPES,
    ReduceOp.PRODUCT: DTYPES,
    ReduceOp.MIN: _INTEGERS | _FLOATS,
    ReduceOp.MAX: _INTEGERS | _FLOATS,
    ReduceOp.AVG: _FLOATS | _COMPLEX,
    ReduceOp.BAND: _INTEGERS,
    ReduceOp.BOR: _INTEGERS,
    ReduceOp.BXOR: _INTEGERS,
}


@dataclass(frozen=True, slots=True)
class Reduction:
    """Combines arrays of one dtype by one operation. See :func:`reduction`.

    Sums and products of half precision accumulate in float32 and are rounded once. MIN and MAX propagate NaN.
    """

    function: np.ufunc
    in_float32: bool
    divisor: int

    def combine(self, output: Array, arrays: Sequence[Array]) -> None:
        """Let ``output`` be the combination of all ``arrays``, in their order; ``output`` may be one of them."""
        # float16 overflows, and so on, as it does on a device: without a warning.
        with np.errstate(all="ignore"):
            if self.in_float32:
                self._combine_in_float32(output, arrays)
            else:
                self._combine(output, arrays)

    def accumulator(self, array: Array) -> Array:
        """A copy of ``array`` in the accumulate dtype."""
        return array.astype(np.float32) if self.in_float32 else array.copy()

    def accumulate(self, output: Array, first: Array, second: Array) -> None:
        """Let ``output`` be ``first`` and ``second`` combined, all in the accumulate dtype."""
        with np.errstate(all="ignore"):
            self.function(first, second, out=output)

    def finish(self, output: Array, total: Array) -> None:
        """Let ``output`` be what was accumulated in ``total``, which is divided and rounded now."""
        with np.errstate(all="ignore"):
            if self.divisor > 1:
                np.divide(total, total.dtype.type(self.divisor), out=total)
            np.copyto(output, total, casting="same_kind")

    def _combine(self, output: Array, arrays: Sequence[Array]) -> None:
        own = next((index for index, array in enumerate(arrays) if array is output), None)
        if own in (None, 0):
            if own is None:
                np.copyto(output, arrays[0])
            rest = arrays[1:]
        elif own == 1:
            # The order of the operands decides which of two NaNs comes out.
            self.function(arrays[0], output, out=output)
            rest = arrays[2:]
        else:
            total = self.function(arrays[0], arrays[1])
            for array in arrays[2:]:
                self.function(total, array, out=total)
            np.copyto(output, total)
            rest = ()
        for array in rest:
            self.function(output, array, out=output)
        self.finish(output, output)

    def _combine_in_float32(self, output: Array, arrays: Sequence[Array]) -> None:
        total: NDArray[np.float32] = arrays[0].astype(np.float32)
        operand = np.empty_like(total)
        for array in arrays[1:]:
            np.copyto(operand, array)
            self.function(total, operand, out=total)
        self.finish(output, total)


def reduction(op: ReduceOp, dtype: np.dtype[Any], size: int) -> Reduction:
    """The combination of ``size`` ranks' arrays of ``dtype`` by ``op``.

    Raises
    ------
    TypeError
        The type has no such operation: there is no smallest complex number, no average of integers, and no bits of a
        floating point number to combine.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op is a ReduceOp, not {op!r}")
    if dtype not in _ALLOWED[op]:
        names = ", ".join(sorted(one.name for one in _ALLOWED[op]))
        raise TypeError(f"ReduceOp.{op.name} is not for {dtype.name}; it is for {names}")
    in_float32 = dtype in _HALVES and op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)
    return Reduction(_FUNCTIONS[op], in_float32, size if op is ReduceOp.AVG else 1)
