"""MPI's names of element types and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parallel.groups.reduce_op import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from parallel.backends.backend import Array

#: Types that carry elements unchanged, by bytes of one.
_CARRIERS = {1: "UINT8_T", 2: "UINT16_T", 4: "UINT32_T", 8: "UINT64_T", 16: "C_DOUBLE_COMPLEX"}
_TYPES = {
    "bool": "C_BOOL",
    "uint8": "UINT8_T",
    "int8": "INT8_T",
    "int16": "INT16_T",
    "int32": "INT32_T",
    "int64": "INT64_T",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}
_OPERATIONS = {
    ReduceOp.SUM: "SUM",
    ReduceOp.AVG: "SUM",
    ReduceOp.PRODUCT: "PROD",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}
_LOGICAL = {
    ReduceOp.SUM: "LOR",
    ReduceOp.PRODUCT: "LAND",
    ReduceOp.MIN: "LAND",
    ReduceOp.MAX: "LOR",
    ReduceOp.BAND: "LAND",
    ReduceOp.BOR: "LOR",
    ReduceOp.BXOR: "LXOR",
}
#: Operators of our own, created once: MPI has room for few.
_operators: dict[tuple[ReduceOp, np.dtype[Any]], Any] = {}


def carrier(mpi: Any, array: Array) -> list[Any]:
    """``array`` as mpi4py takes it, with a type of as many bytes. It counts the elements, or those for each rank."""
    return [array.view(np.uint8), getattr(mpi, _CARRIERS[array.itemsize])]


def operation_of(mpi: Any, op: ReduceOp, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """MPI's type of the elements, and its operation."""
    datatype = getattr(mpi, _TYPES[dtype.name])
    if dtype.kind == "b":
        return datatype, getattr(mpi, _LOGICAL[op])
    if op in (ReduceOp.MIN, ReduceOp.MAX) and dtype.kind == "f":
        # MPI's own lose NaN, or not, as the order of the ranks will have it.
        operator = _operators.get((op, dtype))
        if operator is None:
            function = np.minimum if op is ReduceOp.MIN else np.maximum
            operator = _operators[op, dtype] = mpi.Op.Create(_elementwise(function, dtype), commute=True)
        return datatype, operator
    return datatype, getattr(mpi, _OPERATIONS[op])


def combines_on_devices(op: ReduceOp, dtype: np.dtype[Any]) -> bool:
    """Whether MPI combines elements by ``op`` itself: functions of ours, and conversions, are the host's."""
    if dtype.name not in _TYPES or (op is ReduceOp.AVG and dtype.kind not in "fc"):
        return False
    return not (op in (ReduceOp.MIN, ReduceOp.MAX) and dtype.kind == "f")


def _elementwise(function: np.ufunc, dtype: np.dtype[Any]) -> Callable[[Any, Any, Any], None]:
    def combine(operand: Any, combined: Any, datatype: Any) -> None:
        total = np.frombuffer(combined, dtype)
        function(np.frombuffer(operand, dtype), total, out=total)

    return combine
