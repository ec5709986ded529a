"""What differentiation knows of random numbers: they do not depend on their inputs, whose gradients are zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import Category
from tensor.autograd.recording.inplace import attach_in_place
from tensor.autograd.recording.recorder import mask_of, operation_node
from tensor.autograd.recording.recorder import record as enter
from tensor.core.base import TensorBase
from tensor.operations.creation.factories import zeros

if TYPE_CHECKING:
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def record(drawn: Tensor, name: str, *inputs: Any) -> None:
    """Record that new numbers were drawn with parameters among which are tensors."""
    tensors = [each for each in inputs if isinstance(each, TensorBase)]
    if drawn._layout.dtype.category >= Category.FLOATING:
        enter((drawn,), tensors, name, _zeros, (), (tuple([each._layout for each in tensors]),))


def record_in_place(written: Tensor, name: str, *inputs: Any) -> None:
    """Record that numbers were written over what was in a tensor."""
    tensors = [each for each in (written, *inputs) if isinstance(each, TensorBase)]
    if written._layout.dtype.category >= Category.FLOATING and mask_of(tensors) is not None:
        node = operation_node((written,), name, _zeros, (), (tuple([each._layout for each in tensors]),))
        attach_in_place(node, tensors, written)


def _zeros(mask: tuple[bool, ...], _: Any, origins: tuple[Layout, ...]) -> tuple[Tensor | None, ...]:
    """Zeros for the inputs whose gradients are asked for."""
    return tuple(
        [
            zeros(origin.shape, dtype=origin.dtype, device=origin.device) if asked else None
            for asked, origin in zip(mask, origins, strict=True)
        ]
    )
