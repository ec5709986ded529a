"""NCCL's names of element types and reductions."""

from __future__ import annotations

import tensor as tensors
from drv.bindings.nccl import ncclDataType_t, ncclRedOp_t
from parallel.groups.reduce_op import ReduceOp

#: NCCL's type of the elements, and how many of it one element is.
TYPES = {
    tensors.uint8: (ncclDataType_t.ncclUint8, 1),
    tensors.int8: (ncclDataType_t.ncclInt8, 1),
    tensors.int32: (ncclDataType_t.ncclInt32, 1),
    tensors.int64: (ncclDataType_t.ncclInt64, 1),
    tensors.float16: (ncclDataType_t.ncclFloat16, 1),
    tensors.bfloat16: (ncclDataType_t.ncclBfloat16, 1),
    tensors.float32: (ncclDataType_t.ncclFloat32, 1),
    tensors.float64: (ncclDataType_t.ncclFloat64, 1),
    tensors.bool: (ncclDataType_t.ncclUint8, 1),
    tensors.complex64: (ncclDataType_t.ncclFloat32, 2),
    tensors.complex128: (ncclDataType_t.ncclFloat64, 2),
}
_OPERATIONS = {
    ReduceOp.SUM: ncclRedOp_t.ncclSum,
    ReduceOp.PRODUCT: ncclRedOp_t.ncclProd,
    ReduceOp.MIN: ncclRedOp_t.ncclMin,
    ReduceOp.MAX: ncclRedOp_t.ncclMax,
    ReduceOp.AVG: ncclRedOp_t.ncclAvg,
}
#: Bools are bytes that are 0 or 1; a sum of bools is true where one of them is.
_OPERATIONS_ON_BOOLS = {
    ReduceOp.SUM: ncclRedOp_t.ncclMax,
    ReduceOp.BOR: ncclRedOp_t.ncclMax,
    ReduceOp.MAX: ncclRedOp_t.ncclMax,
    ReduceOp.PRODUCT: ncclRedOp_t.ncclMin,
    ReduceOp.BAND: ncclRedOp_t.ncclMin,
    ReduceOp.MIN: ncclRedOp_t.ncclMin,
}


def reduction(operation: str, op: ReduceOp, dtype: tensors.dtype) -> ncclRedOp_t:
    """NCCL's name of ``op`` for elements of ``dtype``.

    Raises
    ------
    ValueError
        If NCCL cannot combine them so; ``operation`` is named.
    """
    if dtype is tensors.bool:
        operator = _OPERATIONS_ON_BOOLS.get(op)
    elif dtype.is_complex:
        # Pairs of real numbers, of which only sums can be taken component by component.
        operator = _OPERATIONS[op] if op in (ReduceOp.SUM, ReduceOp.AVG) else None
    elif op is ReduceOp.AVG and not dtype.is_floating_point:
        operator = None
    else:
        operator = _OPERATIONS.get(op)
    if operator is None:
        raise ValueError(
            f"{operation}: Cannot use ReduceOp.{op.name} with NCCL on {dtype}: combine the tensors of all_gather, or "
            "use the backend 'gloo'"
        )
    return operator
