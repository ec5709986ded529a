"""Padding, and cropping, at the ends of dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import check_tensor
from tensor.core.constants import device_constant
from tensor.core.layout import contiguous
from tensor.core.memory_format import contiguous_format, suggested
from tensor.core.modes.grad_mode import unrecorded
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import autocasted, operation
from tensor.operations.shapes import slices, views

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor

Ends = tuple[tuple[int, int], ...]


def _inner(x: Tensor, ends: Ends, sizes: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    """The part of ``x`` that padding (to ``sizes``) keeps, and where it begins in the result."""
    starts = []
    for axis, ((left, right), size) in enumerate(zip(ends, sizes, strict=True)):
        argument = x._layout.shape[axis]
        crop, after = max(-left, 0), max(-right, 0)
        if crop or after:
            x = slices.narrow(x, axis, crop, max(argument - crop - after, 0))
        starts.append(max(left, 0))
        assert size == argument + left + right
    return x, tuple(starts)


def constant_pad(x: Tensor, ends: Ends, value: Any) -> Tensor:
    """``x`` with so many elements of ``value`` added at both ends of each dimension, or taken away."""
    sizes = [size + sum(pair) for size, pair in zip(x._layout.shape, ends, strict=True)]
    with unrecorded():
        form = suggested(x._layout)
        if form is contiguous_format:
            result: Tensor = x.new_full(sizes, value)
        else:
            strides = form.layout(contiguous[tuple(sizes), x._layout.dtype, x._layout.device_state]).strides
            result = x.new_empty_strided(sizes, strides).fill_(value)
        inner, starts = _inner(x.detach(), ends, sizes)
        target = result
        for axis, (start, size) in enumerate(zip(starts, inner._layout.shape, strict=True)):
            target = slices.narrow(target, axis, start, size)
        target.copy_(inner)
    # Filling it was its making, not a change.
    result._storage.version = 0
    if x._autograd is not None:
        _PADDED.record((result,), (x,), context=(ends,))
    return result


def _crop(grad: Tensor, ends: Ends) -> Tensor:
    """What is not padding, with zeros where the input was cropped: crops are paddings with negative sizes."""
    return constant_pad(grad, tuple((-left, -right) for left, right in ends), 0)


_PADDED = BackwardFormula("ConstantPadNdBackward0", "input", [Derivative(_crop, needs="")])


def _places(mode: str, size: int, left: int, right: int) -> np.ndarray[Any, Any]:
    """For each element of a padded dimension the one of the input that it shows."""
    at = np.arange(-left, size + right)
    if mode == "replicate":
        return at.clip(0, size - 1)
    if mode == "circular":
        # What is cropped does not come round again.
        first, last = max(-left, 0), size - max(-right, 0)
        period = max(last - first, 1)
        return np.arange(-max(left, 0), last - first + max(right, 0)) % period + first
    return size - 1 - np.abs(np.abs(at) - (size - 1)) if size > 1 else np.zeros_like(at)


def _along(x: Tensor, axis: int, mode: str, left: int, right: int) -> Tensor:
    if not left and not right:
        return x
    size = x._layout.shape[axis]
    key = ("padded indices", mode, size, left, right)
    index = device_constant(x._layout.device_state, key, lambda: _places(mode, size, left, right))
    result: Tensor = x.index_select(axis, index)
    return result


@operation(namespace="nn.functional", method=False)
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """``input`` with elements added at the ends of its last dimensions; negative numbers take some away.

    Parameters
    ----------
    pad
        How many at the beginning and the end of the last dimension, then of the one before, and so on.
    mode : {"constant", "reflect", "replicate", "circular"}
        What is added: ``value``; or elements reflected at the end ones, the end ones again, or those of the other
        end. The last three are for the last one to three dimensions of signals, images and volumes.
    value
        For ``"constant"``, 0 by default.

    Raises
    ------
    RuntimeError
        If there is an odd number of numbers, or more than two for each dimension, or a size would become negative.
    NotImplementedError
        For another mode, or dimensions that a mode is not for.

    Examples
    --------
    >>> nn.functional.pad(tensor.tensor([1, 2]), (1, 2))
    tensor([0, 1, 2, 0, 0])
    >>> nn.functional.pad(tensor.tensor([[1, 2, 3]]), (1, 1), mode="reflect")
    tensor([[2, 1, 2, 3, 2]])
    """
    check_tensor(input, "pad", "input")
    numbers = [int(each) for each in pad]
    shape = input._layout.shape
    if len(numbers) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {len(numbers)} numbers")
    if len(numbers) // 2 > len(shape):
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(numbers)} and input of dimension {len(shape)}"
        )
    pairs = [(numbers[i], numbers[i + 1]) for i in range(0, len(numbers), 2)]
    ends = ((0, 0),) * (len(shape) - len(pairs)) + tuple(reversed(pairs))
    for axis, (size, (left, right)) in enumerate(zip(shape, ends, strict=True)):
        if size + left + right < 0:
            raise RuntimeError(
                f"The input size {size}, plus negative padding {left} and {right}, resulted in a negative output size, "
                f"which is invalid. Check dimension {axis} of your input."
            )
    if mode == "constant":
        return constant_pad(input, ends, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if len(pairs) not in (len(shape) - 1, len(shape) - 2) or not 1 <= len(pairs) <= 3:
        raise NotImplementedError(
            f"Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: got {len(numbers)} numbers for "
            f"an input of {len(shape)} dimensions"
        )
    for axis, (size, (left, right)) in enumerate(zip(shape, ends, strict=True)):
        limit = {"reflect": size - 1, "circular": size, "replicate": max(left, right)}[mode]
        if max(left, right) > 0 and (max(left, right) > limit or not size):
            raise RuntimeError(
                f"Padding size should be {'less than' if mode == 'reflect' else 'at most'} the corresponding input "
                f"dimension, but got: padding ({left}, {right}) at dimension {axis} of input {list(shape)}"
            )
    if mode == "replicate":
        return replication_pad(input, ends)
    # As in PyTorch, autocast knows the reflections of signals and images only.
    if mode == "reflect" and len(pairs) < 3:
        return reflection_pad(input, ends)
    return _extended(input, ends, mode)


@autocasted(Autocast(cpu=FLOAT32))
def reflection_pad(input: Tensor, ends: Ends) -> Tensor:
    """``input`` with elements reflected at the end ones."""
    return _extended(input, ends, "reflect")


@autocasted(Autocast(cpu=FLOAT32))
def replication_pad(input: Tensor, ends: Ends) -> Tensor:
    """``input`` with the end elements again."""
    return _extended(input, ends, "replicate")


def _extended(input: Tensor, ends: Ends, mode: str) -> Tensor:
    x = input
    for axis, (left, right) in enumerate(ends):
        x = _along(x, axis, mode, left, right)
    if x is input:
        return views.alias(input)
    return x if mode == "circular" else x.contiguous(memory_format=suggested(input._layout))
