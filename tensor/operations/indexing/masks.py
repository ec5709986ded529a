"""What masks choose: read, overwritten with one number, overwritten with many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels import layouts as strides_of
from tensor.core.arguments import two_devices
from tensor.core.base import TensorBase, check_tensor
from tensor.core.dtypes.scalars import element
from tensor.operations.creation.factories import delivered
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import DROP, KEEP
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.shapes import slices, views

from .advanced_indexing import Indexing
from .gather import nonzero_positions
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
    """A copy of ``input`` with ``value`` where ``mask`` is true: ``where(mask, value, input)``.

    Parameters
    ----------
    mask : Tensor
        Of bools; both tensors are broadcast.
    value : number or Tensor
        A number, or a 0-dim tensor, converted to the dtype of ``input``.

    Returns
    -------
    Tensor
        Row-major, of the broadcast shape and the dtype of ``input``.

    Raises
    ------
    RuntimeError
        If the mask is not of bools, is on another device (unless it is 0-dim) or does not broadcast, ``value`` has
        dimensions, or the dtype of ``input`` cannot hold it: it is too large, or has an imaginary part where ``input``
        is real.
    TypeError
        If ``mask`` is not a tensor.

    Examples
    --------
    >>> scores = tensor.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> scores.masked_fill(tensor.tensor([False, True]), -float("inf"))
    tensor([[1., -inf],
            [3., -inf]])
    """
    return MASKED_FILL(input, _fill(input, value), check_mask("masked_fill", input, mask))


@operation(namespace="")
def masked_fill_(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """:func:`masked_fill` in place: ``input[mask] = value``. Returns ``input``.

    The mask must broadcast to the shape of ``input``; arguments and errors are otherwise those of :func:`masked_fill`.

    Examples
    --------
    >>> x = tensor.tensor([1.0, -2.0, 3.0])
    >>> x.masked_fill_(x < 0, 0)
    tensor([1., 0., 3.])
    """
    return MASKED_FILL.in_place(input, _fill(input, value), check_mask("masked_fill", input, mask))


def _fill(input: Tensor, value: Any) -> Any:
    """A number that ``input`` can hold, or a 0-dim tensor."""
    if isinstance(value, TensorBase):
        return number_of(input, value, "masked_fill_")
    return element(value, input._layout.dtype)


@operation()
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of ``input`` whose elements with a true ``mask`` are replaced by elements of ``source``, in order.

    On CUDA the host waits for the number of true elements.

    Parameters
    ----------
    mask : Tensor
        Of bools; ``input`` and ``mask`` are broadcast.
    source : Tensor
        Of the dtype of ``input``, with at least as many elements as ``mask`` has true ones; its shape does not matter.

    Returns
    -------
    Tensor
        Of the broadcast shape and the dtype of ``input``.

    Raises
    ------
    RuntimeError
        If the mask is not of bools, is on another device or does not broadcast, dtypes differ, or ``source`` has too
        few elements.
    TypeError
        If ``mask`` or ``source`` is not a tensor.

    Examples
    --------
    >>> mask = tensor.tensor([[True, False], [False, True]])
    >>> tensor.zeros(2, 2).masked_scatter(mask, tensor.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    shape = strides_of.broadcast_shapes(input._layout.shape, mask._layout.shape)
    expanded = input if tuple(shape) == tuple(input._layout.shape) else views.expand(input, shape)
    return write(expanded, *_masked("masked_scatter", expanded, mask, source))


@operation(namespace="")
def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """:func:`masked_scatter` in place: ``input[mask] = source.flatten()[:mask.sum()]``. Returns ``input``.

    The mask must broadcast to the shape of ``input``; arguments and errors are otherwise those of
    :func:`masked_scatter`.

    Examples
    --------
    >>> tensor.zeros(3).masked_scatter_(tensor.tensor([True, False, True]), tensor.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    return write_(input, *_masked("masked_scatter", input, mask, source))


def _masked(name: str, input: Tensor, mask: Tensor, source: Tensor) -> tuple[Indexing, Tensor]:
    mask = check_mask(name, input, mask)
    check_tensor(source, name, "source")
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError(
            f"{name}: expected self and source to have same dtypes but got {input._layout.dtype!r} and "
            f"{source._layout.dtype!r}"
        )
    positions = nonzero_positions(views.expand(mask, input._layout.shape))
    count = positions._layout.numel
    if source._layout.numel < count:
        raise RuntimeError(
            f"{name}(): Number of elements of source < number of ones in mask: {source._layout.numel} and {count}"
        )
    return Indexing(name, "flat", (positions,)), slices.narrow(source.reshape(-1), 0, 0, count)


@operation()
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A vector of the elements whose ``mask`` is true, in row-major order: ``input[mask]``.

    On CUDA the host waits for their number.

    Parameters
    ----------
    mask : Tensor
        Of bools; both tensors are broadcast.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    RuntimeError
        If the mask is not of bools, is on another device (unless it is 0-dim) or does not broadcast.
    TypeError
        If ``mask`` is not a tensor.

    Examples
    --------
    >>> x = tensor.tensor([[1, -2], [-3, 4]])
    >>> x.masked_select(x > 0)
    tensor([1, 4])
    """
    mask = check_mask("masked_select", input, mask)
    shape = strides_of.broadcast_shapes(input._layout.shape, mask._layout.shape)
    expanded = views.expand(input, shape)
    positions = nonzero_positions(views.expand(mask, shape))
    return delivered(out, read(expanded, Indexing("masked_select", "flat", (positions,))), "masked_select")


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
