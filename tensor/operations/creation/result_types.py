"""Types of results: tensors with dimensions decide before 0-dim tensors, and these before Python numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import dtype
from nvrtc_kernels.dtypes import promote_types as promoted_types
from tensor.core.base import TensorBase
from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.dtypes import promotion as rules
from tensor.core.dtypes.scalars import dtype_of
from tensor.operations.definition import operation

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_CLASSES = {
    dtypes.bool_: bool,
    dtypes.int64: int,
    dtypes.float64: float,
    dtypes.complex128: complex,
}


@operation(method=False)
def result_type(tensor: Any, other: Any) -> dtype:
    """Type of the result of an arithmetic operation on two tensors or numbers.

    The operand of a stronger category (bool, integer, floating point, complex) decides; of one category, a
    tensor with dimensions decides over a 0-dim tensor, and that over a number.

    Raises
    ------
    TypeError
        For an operand that is neither a tensor nor a number.

    Examples
    --------
    >>> tensor.result_type(tensor.tensor([1, 2]), 1.0)
    tensor.float32
    """
    return rules.promoted((_operand(tensor), _operand(other)))


def _operand(argument: Any) -> Any:
    """A tensor's layout, or the class that a number stands for."""
    return argument._layout if isinstance(argument, TensorBase) else _CLASSES[dtype_of(argument)]


@operation(method=False)
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Smallest type that both convert to without leaving their category.

    The stronger category wins; within integers ``uint8`` with ``int8`` gives ``int16``; ``float16`` with
    ``bfloat16`` gives ``float32``; a complex type is wide enough for the parts of the other type.

    Raises
    ------
    TypeError
        For an argument that is no dtype.

    Examples
    --------
    >>> tensor.promote_types(tensor.int64, tensor.float16)
    tensor.float16
    """
    return promoted_types(
        dtype_of_argument(type1, "promote_types", "type1"),
        dtype_of_argument(type2, "promote_types", "type2"),
    )


@operation(method=False)
def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of type ``from_`` may be written where type ``to`` is: it leaves no category.

    Only a step down is forbidden: complex to real, floating point to integer, anything to bool.

    Raises
    ------
    TypeError
        For an argument that is no dtype.

    Examples
    --------
    >>> tensor.can_cast(tensor.int64, tensor.float32), tensor.can_cast(tensor.float32, tensor.int64)
    (True, False)
    """
    origin, target = dtype_of_argument(from_, "can_cast", "from_"), dtype_of_argument(to, "can_cast", "to")
    return origin.category <= target.category


def cast_for(out: Tensor, output: Tensor, function: str, error: type[Exception] = RuntimeError) -> Tensor:
    """``made`` in the dtype of ``out``, to be written there; raises ``error`` if that cannot hold it."""
    dtype, expected = output._layout.dtype, out._layout.dtype
    if dtype is expected:
        return output
    if not can_cast(dtype, expected):
        raise error(
            f"{function}(): result type {dtype!r} can't be cast to the desired output type {expected!r}"
        )
    result: Tensor = output.to(expected)
    return result
