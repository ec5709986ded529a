"""Maxima of windows put back where they stood."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tensor.core.base import check_tensor
from tensor.core.modes.grad_mode import modes
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.recorder import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


def _numbers(name: str, what: str, given: Any, rank: int) -> list[int]:
    values = [given] * rank if isinstance(given, int) else list(given)
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise ValueError(f"{name}(): {what} must be one integer or {rank}, got {given!r}")
    return values


def _size(
    name: str, shape: Sequence[int], kernel_size: Any, stride: Any, padding: Any, output_size: Any, rank: int
) -> list[int]:
    """Size of the result without items and channels."""
    kernel = _numbers(name, "kernel_size", kernel_size, rank)
    strides = kernel if stride is None else _numbers(name, "stride", stride, rank)
    pads = _numbers(name, "padding", padding, rank)
    default = [
        (size - 1) * step + window - 2 * pad
        for size, step, window, pad in zip(shape[-rank:], strides, kernel, pads, strict=True)
    ]
    if output_size is None:
        found = default
    else:
        found = list(output_size)
        if len(found) == rank + 2:
            found = found[2:]
        if len(found) != rank:
            raise ValueError(
                f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
                f"'{len(found)}'"
            )
        for axis, (size, step, wanted) in enumerate(zip(default, strides, found, strict=True)):
            if not size - step < wanted < size + step:
                raise ValueError(
                    f'invalid output_size "{output_size}" (dim {axis} must be between {size - step} and {size + step})'
                )
    for axis, size in enumerate(found):
        if size < 0:
            raise ValueError(
                f"max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{axis}]={size}"
            )
    return found


def _check(name: str, input: Any, indices: Any, rank: int) -> None:
    for what, given in (("input", input), ("indices", indices)):
        check_tensor(given, name, what)
    shape = input._layout.shape
    if indices._layout.dtype.name != "int64":
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices._layout.dtype!r}")
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Input to max_unpooling should be a {rank + 1}d or {rank + 2}d Tensor, but got a tensor with shape "
            f"{list(shape)}"
        )
    if indices._layout.shape != shape:
        raise RuntimeError(
            f"{name}(): Expected shape of indices to be same as that of the input tensor ({list(shape)}) but got indices "
            f"tensor with shape: {list(indices._layout.shape)}"
        )
    if 0 in shape[1:]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got {list(shape)}"
        )


def _derivative(_: Any, grad: Any, indices: Any, rank: int) -> tuple[Any, None]:
    return grad.flatten(-rank).gather(-1, indices.flatten(-rank)).reshape(indices.shape), None


def _unpool(
    rank: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    name = f"max_unpool{rank}d"
    _check(name, input, indices, rank)
    shape = input._layout.shape
    size = _size(name, shape, kernel_size, stride, padding, output_size, rank)
    recording, modes.recording = modes.recording, False
    try:
        planes = input.new_zeros(*shape[:-rank], prod(size))
        made: Any = planes.scatter_(-1, indices.flatten(-rank), input.detach().flatten(-rank))
        made = made.reshape(*shape[:-rank], *size)
        # Filling it was its making, not a change, and nobody else has it.
        made._storage.version, made._base = 0, None
    finally:
        modes.recording = recording
    record((made,), (input, indices), f"MaxUnpool{max(rank, 2)}DBackward0", _derivative, (indices,), (rank,))
    return made  # type: ignore[no-any-return]


@operation(namespace="nn.functional", method=False)
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Maxima of windows put back where they stood, zeros elsewhere: the partial inverse of :func:`max_pool1d`.

    Parameters
    ----------
    input
        Maxima ``(items, channels, windows)``, or of one item.
    indices
        Their places, int64, as ``max_pool1d(..., return_indices=True)`` gives them. Where two are the same, one of
        the values is taken.
    kernel_size, stride, padding
        As the pooling had them.
    output_size
        Of the result, where several sizes are pooled to the same one.

    Raises
    ------
    ValueError
        For an ``output_size`` that is not pooled to this input.
    RuntimeError
        If shapes do not fit, or an index is outside.
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Maxima of images put back where they stood; see :func:`max_unpool1d`."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Maxima of volumes put back where they stood; see :func:`max_unpool1d`."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)
