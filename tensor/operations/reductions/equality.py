"""Whether tensors are equal, as Python bools: both wait for CUDA tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.arguments import two_devices
from tensor.core.base import TensorBase
from tensor.operations.definition import operation
from tensor.operations.pointwise.comparisons import eq, isclose

from .sums import all

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


@operation()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and elements. NaN equals nothing.

    Raises
    ------
    RuntimeError
        If the devices differ.
    TypeError
        If one is no tensor.
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
    """Whether all elements are close; see :func:`tensor.isclose`."""
    return bool(all(isclose(input.detach(), other.detach(), rtol, atol, equal_nan)))
