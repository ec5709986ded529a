"""Whether tensors are equal, as Python bools: both wait for CUDA tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.arguments import two_devices
from tensor.core.base import TensorBase
from tensor.operations.definition import operation
from tensor.operations.pointwise.comparisons import eq, isclose

from .logic import all

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


@operation()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements, as a Python bool; on CUDA the host waits.

    Elements are compared in the promoted dtype. NaN equals nothing.

    Raises
    ------
    RuntimeError
        If the devices differ.
    TypeError
        If an argument is not a tensor.

    Examples
    --------
    >>> tensor.equal(tensor.tensor([1, 2]), tensor.tensor([1.0, 2.0]))
    True
    """
    for position, x in enumerate((input, other)):
        if not isinstance(x, TensorBase):
            raise TypeError(f"equal(): argument {position + 1} must be Tensor, not {type(x).__name__}")
    if input._layout.device_state is not other._layout.device_state:
        raise two_devices("equal", input._layout.device, other._layout.device)
    return input._layout.shape == other._layout.shape and bool(all(eq(input.detach(), other.detach())))


@operation()
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether ``abs(input - other) <= atol + rtol * abs(other)`` everywhere, as a Python bool.

    On CUDA the host waits for the device.

    Parameters
    ----------
    input, other : Tensor
        Of one dtype, and of shapes that broadcast.
    rtol, atol : float
        Relative and absolute tolerance, not negative.
    equal_nan : bool
        Whether NaN is close to NaN.

    Raises
    ------
    RuntimeError
        If the dtypes or the devices differ, a tolerance is negative, or the shapes do not broadcast.

    Examples
    --------
    >>> tensor.allclose(tensor.tensor([1.0, 2.0]), tensor.tensor([1.000001, 2.0]))
    True
    """
    return bool(all(isclose(input.detach(), other.detach(), rtol, atol, equal_nan)))
