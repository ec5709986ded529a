"""Sequences of several lengths: padded to one shape, or packed step after step without padding.

Packed rows are those of the first step of all sequences, then those of the second step, and so on; longer sequences
come first, so that a step has the first so many of them. Steps of equally many rows are copied at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import empty
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans.fills import filled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tensor.methods.tensor import Tensor


def _runs(sizes: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Steps of equally many rows: the first one, the one after the last, the first row, and rows of each."""
    first = row = 0
    while first < len(sizes):
        count, last = sizes[first], first + 1
        while last < len(sizes) and sizes[last] == count:
            last += 1
        yield first, last, row, count
        row += (last - first) * count
        first = last


def pack(input: Tensor, sizes: Sequence[int]) -> Tensor:
    """Rows of ``(steps, batch, ...)``, so many of each step, one after another. Recorded."""
    shape = input._layout.shape
    with unrecorded():
        result = empty(contiguous[(sum(sizes), *shape[2:]), input._layout.dtype, input._layout.device_state])
        for first, last, row, count in _runs(sizes):
            rows = result[row : row + (last - first) * count]
            rows.view(last - first, count, *shape[2:]).copy_(input[first:last, :count])
    _PACK_BACKWARD.record((result,), (input,), context=(sizes, shape[1], shape[0]))
    return result


def _pack_gradient(_: Any, grad: Tensor, sizes: Sequence[int], batch: int, steps: int) -> tuple[Tensor]:
    return (pad(grad, sizes, batch, steps, 0.0),)


_PACK_BACKWARD = BackwardFormula(
    "PackPaddedSequenceBackward0", "input", joint=Derivative(_pack_gradient, needs="")
)


def pad(data: Tensor, sizes: Sequence[int], batch: int, steps: int, value: Any) -> Tensor:
    """``(steps, batch, ...)`` with packed rows where they were, and ``value`` elsewhere. Recorded."""
    shape = data._layout.shape
    with unrecorded():
        layout = contiguous[(steps, batch, *shape[1:]), data._layout.dtype, data._layout.device_state]
        result = filled(layout, value)
        for first, last, row, count in _runs(sizes):
            rows = data[row : row + (last - first) * count]
            result[first:last, :count].copy_(rows.reshape(last - first, count, *shape[1:]))
    _PAD_BACKWARD.record((result,), (data,), context=(sizes,))
    return result


def _pad_gradient(_: Any, grad: Tensor, sizes: Sequence[int]) -> tuple[Tensor]:
    return (pack(grad, sizes),)


_PAD_BACKWARD = BackwardFormula(
    "PadPackedSequenceBackward0", "data", joint=Derivative(_pad_gradient, needs="")
)


def pad_sequences(sequences: Sequence[Tensor], value: Any, *, batch_first: bool, left: bool) -> Tensor:
    """Sequences of shape ``(steps, ...)`` with ``value`` at their ends, or beginnings. Recorded."""
    first = sequences[0]._layout
    lengths = [each._layout.shape[0] for each in sequences]
    longest = max(lengths)
    shape = (len(sequences), longest) if batch_first else (longest, len(sequences))
    starts = [longest - length if left else 0 for length in lengths]
    positions = tuple(zip(starts, lengths, strict=True))
    with unrecorded():
        result = filled(contiguous[(*shape, *first.shape[1:]), first.dtype, first.device_state], value)
        rows = result if batch_first else result.transpose(0, 1)
        for number, (each, (start, length)) in enumerate(zip(sequences, positions, strict=True)):
            rows[number, start : start + length].copy_(each)
    _SEQUENCE_BACKWARD.record((result,), sequences, (), (positions, batch_first))
    return result


def _sequence_gradients(
    expected: Sequence[bool], grad: Tensor, positions: Sequence[tuple[int, int]], batch_first: bool
) -> tuple[Tensor | None, ...]:
    rows = grad if batch_first else grad.transpose(0, 1)
    return tuple(
        [
            rows[number, start : start + length] if want else None
            for number, (want, (start, length)) in enumerate(zip(expected, positions, strict=True))
        ]
    )


_SEQUENCE_BACKWARD = BackwardFormula(
    "PadSequenceBackward0", "", joint=Derivative(_sequence_gradients, needs="")
)
