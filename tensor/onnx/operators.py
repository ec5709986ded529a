"""Names of ``torch.onnx.operators``: shapes as tensors, for models that were written to be exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvrtc_kernels import dtypes
from tensor.core.names.absent import hints as _hints
from tensor.operations.creation.construction import tensor as _tensor

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """The shape of ``x``, of any shape and dtype, as an int64 tensor ``(x.ndim,)`` on the CPU.

    >>> tensor.onnx.operators.shape_as_tensor(tensor.zeros(2, 3))
    tensor([2, 3])
    """
    return _tensor([*x.shape], dtype=dtypes.int64)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """``x`` reshaped to the sizes in the 1-D integer tensor ``shape``, one of which may be -1.

    Raises
    ------
    RuntimeError
        If ``x`` cannot have that shape.
    """
    return x.reshape([int(size) for size in shape.tolist()])


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
