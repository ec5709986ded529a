"""What matrices a function takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import Category
from tensor.core.base import check_tensor

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


def check_floating(name: str, x: Tensor, *, half: bool = False) -> None:
    """Raise RuntimeError unless elements are real or complex numbers, by default of single or double precision."""
    dtype = x._layout.dtype
    if dtype.category < Category.FLOATING:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {dtype!r}")
    if not half and dtype.itemsize // (2 if dtype.is_complex else 1) < 4:
        raise RuntimeError(
            f"{name}: Low precision dtypes not supported. Got {dtype!r}: convert with .to(tensor.float32)"
        )


def check_matrices(name: str, x: Any, argument: str = "A", *, half: bool = False) -> None:
    """Raise unless ``x`` is a tensor of matrices of floating point or complex numbers."""
    check_tensor(x, name, argument)
    if len(x._layout.shape) < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    check_floating(name, x, half=half)


def check_square(name: str, x: Any, argument: str = "A", *, half: bool = False) -> None:
    """Raise unless ``x`` is a tensor of square matrices of floating point or complex numbers."""
    check_matrices(name, x, argument, half=half)
    check_square_shape(name, x, argument)


def check_square_shape(name: str, x: Tensor, argument: str = "A") -> None:
    """Raise RuntimeError unless the last two dimensions are equal."""
    rows, columns = x._layout.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {rows} by {columns} matrices"
        )


def check_alike(name: str, a: Tensor, b: Any, first: str = "A", second: str = "B") -> None:
    """Raise unless ``b`` is a tensor of the dtype and on the device of ``a``."""
    check_tensor(b, name, second)
    if a._layout.device_state is not b._layout.device_state:
        raise RuntimeError(
            f"{name}: Expected all tensors to be on the same device, but found at least two devices, "
            f"{a._layout.device} and {b._layout.device}!"
        )
    if a._layout.dtype is not b._layout.dtype:
        raise RuntimeError(
            f"{name}: Expected {first} and {second} to have the same dtype, but found {first} of type "
            f"{a._layout.dtype!r} and {second} of type {b._layout.dtype!r} instead"
        )
