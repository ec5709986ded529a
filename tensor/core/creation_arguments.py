"""What functions that make tensors are given: sizes, a dtype, a layout, pinned memory, ``out``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes

from .arguments import integers
from .base import check_tensor
from .devices.state import device_state_of
from .memory_format import layout as LayoutName
from .memory_format import strided
from .sparse import SparseOperandError
from .warning import warn_caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

    from .devices.state import DeviceState
    from .layout import Layout

#: Types of Python that may stand where a dtype is expected.
_OF_PYTHON = {
    float: dtypes.float64,
    int: dtypes.int64,
    bool: dtypes.bool_,
    complex: dtypes.complex128,
}


def sizes_of(sizes: tuple[Any, ...], size: Any, function: str, what: str = "size") -> tuple[int, ...]:
    """Sizes that were given one by one, as a sequence, or by name (``size=``).

    Raises
    ------
    TypeError
        If there are none, or some in both places.
    """
    if size is None:
        if not sizes:
            raise TypeError(
                f'{function}() missing 1 required argument: "{what}"; give sizes such as {function}(2, 3) or '
                f"{function}((2, 3))"
            )
        return integers(sizes, function, what)
    if sizes:
        raise TypeError(f"{function}() got sizes twice: {sizes} and {what}={size}")
    return sequence_of_sizes(size, function, what)


def sequence_of_sizes(argument: Any, function: str, what: str = "size") -> tuple[int, ...]:
    """Numbers that must be given as a sequence.

    Raises
    ------
    TypeError
        For one number, or anything else.
    """
    if type(argument) is not tuple and (
        isinstance(argument, (int, str)) or getattr(argument, "ndim", 1) == 0
    ):
        raise TypeError(
            f"{function}(): argument '{what}' must be tuple of ints, not {type(argument).__name__}"
        )
    return integers((argument,), function, what)


def dtype_of_argument(argument: Any, function: str, what: str = "dtype") -> dtype:
    """The dtype that an argument means; ``float``, ``int``, ``bool`` and ``complex`` mean their widest.

    Raises
    ------
    TypeError
        For anything else, NumPy's types included.
    """
    if type(argument) is dtypes.dtype:
        return argument
    result = _OF_PYTHON.get(argument) if isinstance(argument, type) else None
    if result is None:
        raise TypeError(
            f"{function}(): argument '{what}' must be tensor.dtype, not {type(argument).__name__}; got {argument!r}, "
            "expected one such as tensor.float32"
        )
    return result


def check_memory(layout: Any, pin_memory: bool, device_state: DeviceState, function: str) -> None:
    """Check the arguments that say how memory is used.

    Raises
    ------
    TypeError
        If ``layout`` is no layout.
    SparseOperandError
        If it is a sparse one.
    RuntimeError
        If memory of a device is to be pinned.
    """
    if type(layout) is LayoutName and layout is not strided:
        raise SparseOperandError(layout, function)
    if layout is not None and layout is not strided:
        raise TypeError(
            f"{function}(): argument 'layout' must be tensor.layout, not {type(layout).__name__}; expected "
            "tensor.strided"
        )
    if pin_memory and device_state.is_cuda:
        raise RuntimeError(
            f"{function}(): Only dense CPU tensors can be pinned: pin_memory=True makes no sense on {device_state.device}"
        )


def as_out(out: Any, dtype: Any, device: Any, function: str) -> tuple[dtype, Any]:
    """Dtype and device of what a function writes to ``out``: those of ``out``.

    Raises
    ------
    TypeError
        If ``out`` is no tensor.
    RuntimeError
        If another dtype or device is asked for.
    """
    check_tensor(out, function, "out")
    result: Layout = out._layout
    if dtype is not None and dtype_of_argument(dtype, function) is not result.dtype:
        raise RuntimeError(
            f"{function}(): dtype {dtype!r} does not match dtype of out parameter ({result.dtype!r})"
        )
    if device is not None and device_state_of(device) is not result.device_state:
        raise RuntimeError(
            f"{function}(): device {device_state_of(device).device} does not match device of out parameter "
            f"({result.device})"
        )
    return result.dtype, result.device


def shaped(out: Tensor, shape: Sequence[int]) -> Tensor:
    """``out`` with the shape of a result: itself where it has it, with its strides, and else resized.

    Warns
    -----
    UserWarning
        If ``out`` had elements.
    """
    current = tuple(out._layout.shape)
    if current == tuple(shape):
        return out
    if 0 not in current:
        warn_caller(
            f"An output with one or more elements was resized since it had shape {list(current)}, which does not match "
            f"the required output shape {list(shape)}. This behavior is deprecated: give an out with this shape, or an "
            "empty one, such as out.resize_(0)."
        )
    return out.resize_(shape)
