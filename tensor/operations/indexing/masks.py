"""What masks choose: read, overwritten with one number, overwritten with many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels import layouts as strides_of
from tensor.core.arguments import two_devices
from tensor.core.base import TensorBase, check_tensor
from tensor.operations.creation.factories import delivered
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import DROP, KEEP
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.shapes import slices as parts
from tensor.operations.shapes import views

from .advanced_indexing import Choice
from .gather import true_places
from .recorded_indexing import read, write, write_
from .scatter import number_of

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

#: Of (input, value, mask). PyTorch's results are row-major, so that a view() behind it always works.
MASKED_FILL = Pointwise(
    "masked_fill",
    "c_ ? b : a",
    lambda a, b, c: np.where(c, b, a),
    typed=1,
    masks=1,
    row_major=True,
    derivatives=(
        lambda grad, c: DROP.binary(grad, c),
        lambda grad, c: KEEP.binary(grad, c),
    ),
)


@operation()
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """A copy of ``input`` with ``value``, a number or a 0-dim tensor, where ``mask`` is true; both are broadcast.

    Raises
    ------
    RuntimeError
        If the mask is no tensor of bools, or the value has dimensions or does not convert.
    """
    return MASKED_FILL(input, _fill(input, value), check_mask("masked_fill", input, mask))


@operation(namespace="")
def masked_fill_(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """:func:`masked_fill` in place."""
    return MASKED_FILL.in_place(input, _fill(input, value), check_mask("masked_fill", input, mask))


def _fill(input: Tensor, value: Any) -> Any:
    """A number that ``input`` can hold, or a 0-dim tensor."""
    dtype = input._layout.dtype
    if isinstance(value, TensorBase):
        return number_of(input, value, "masked_fill_")
    if isinstance(value, complex) and not dtype.is_complex:
        raise RuntimeError(f"value cannot be converted to type {dtype!r} without overflow")
    if isinstance(value, float) and not (dtype.is_floating_point or dtype.is_complex):
        return int(value) if dtype.name != "bool" else bool(value)
    return value


@operation()
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of ``input`` with the elements of ``source``, in order, where ``mask`` is true.

    Raises
    ------
    RuntimeError
        If the mask is no tensor of bools or does not broadcast, dtypes differ, or ``source`` has too few
        elements.
    """
    shape = strides_of.broadcast_shapes(input._layout.shape, mask._layout.shape)
    wide = input if tuple(shape) == tuple(input._layout.shape) else views.expand(input, shape)
    return write(wide, *_masked("masked_scatter", wide, mask, source))


@operation(namespace="")
def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """:func:`masked_scatter` in place."""
    return write_(input, *_masked("masked_scatter", input, mask, source))


def _masked(name: str, input: Tensor, mask: Tensor, source: Tensor) -> tuple[Choice, Tensor]:
    mask = check_mask(name, input, mask)
    check_tensor(source, name, "source")
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError(
            f"{name}: expected self and source to have same dtypes but got {input._layout.dtype!r} and "
            f"{source._layout.dtype!r}"
        )
    positions = true_places(views.expand(mask, input._layout.shape))
    count = positions._layout.numel
    if source._layout.numel < count:
        raise RuntimeError(
            f"{name}(): Number of elements of source < number of ones in mask: {source._layout.numel} and {count}"
        )
    return Choice(name, "flat", (positions,)), parts.narrow(source.reshape(-1), 0, 0, count)


@operation()
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A vector of the elements whose ``mask`` is true; both are broadcast. On CUDA the host waits for their number.

    Raises
    ------
    RuntimeError
        If the mask is no tensor of bools, is on another device or does not broadcast.
    """
    mask = check_mask("masked_select", input, mask)
    shape = strides_of.broadcast_shapes(input._layout.shape, mask._layout.shape)
    wide = views.expand(input, shape)
    positions = true_places(views.expand(mask, shape))
    return delivered(out, read(wide, Choice("masked_select", "flat", (positions,))), "masked_select")


def check_mask(name: str, input: Tensor, mask: Any) -> Tensor:
    """``mask``, if it is a tensor of bools on the device of ``input``, or a number of any device."""
    check_tensor(mask, name, "mask")
    if mask._layout.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"{name}(): only supports boolean masks, but got mask with dtype {mask._layout.dtype!r}"
        )
    if mask._layout.device_state is not input._layout.device_state:
        if mask._layout.shape:
            raise two_devices(name, input._layout.device, mask._layout.device)
        moved: Tensor = mask.to(input._layout.device)
        return moved
    return mask  # type: ignore[no-any-return]
