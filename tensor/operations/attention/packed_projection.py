"""Parts of one product, such as the queries, keys and values that one projection gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import view_of
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import unrecorded
from tensor.operations.creation.factories import zeros
from tensor.operations.shapes.joining import cat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


def unpacked(input: Tensor, count: int) -> tuple[Tensor, ...]:
    """Equal parts of the last dimension, each contiguous: one copy forward, and one backward.

    Views would each give a gradient of the whole size, to be summed.
    """
    layout = input._layout
    shape = (*layout.shape[:-1], layout.shape[-1] // count)
    with unrecorded():
        rows = input.unflatten(-1, (count, shape[-1])).movedim(-2, 0).contiguous()
    part = contiguous[shape, layout.dtype, layout.device_state]
    result = tuple(view_of(rows._storage, part, rows._offset + i * part.nbytes) for i in range(count))
    _SPLIT.record(result, (input,), (), (shape,))
    return result


def _gradient(_: Any, grads: Sequence[Tensor | None], shape: tuple[int, ...]) -> tuple[Tensor]:
    like = next(x for x in grads if x is not None)
    every = [zeros(shape, dtype=like.dtype, device=like.device) if x is None else x for x in grads]
    return (cat(every, -1),)


_SPLIT = BackwardFormula("UnsafeSplitBackward0", "input", joint=Derivative(_gradient, needs=""))
