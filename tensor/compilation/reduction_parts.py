"""Reductions by their parts: what a device computes of which operands. Losses of elements, moments of channels and their sums are some, too."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels import losses as loss_kernels
from nvrtc_kernels import normalization as norm_kernels
from nvrtc_kernels import reducers
from nvrtc_kernels.reduction_work import collapsed, work_for
from tensor.operations.losses.classification import MEAN
from tensor.operations.losses.loss import Loss
from tensor.operations.normalization.batch_normalization import MOMENTS, SUMS
from tensor.operations.reduction import Reduction

from .element_forms import channel_vector
from .elements import inputs_of
from .tape import Ref, Step, refs

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nvrtc_kernels.layouts import Ints
    from nvrtc_kernels.lookups import Lookup
    from nvrtc_kernels.reducers import Reducer

    from .elements import Element
    from .uses import Uses


@dataclass(slots=True)
class Reduced:
    """A reduction by its parts.

    Attributes
    ----------
    step : Step
        What was recorded.
    reducer : Reducer
        What the device computes.
    shape, axes : tuple of int
        What the operands are broadcast to, and which of its dimensions are reduced.
    operands : tuple of Ref
        The reducer's inputs.
    numbers : tuple
        Its scalars.
    before : list of int
        Positions of the elements that it computes itself, in order.
    copied : set of int
        Those among them whose results others compute, too.
    after : list of list of int
        Positions of the chains that go on with its results.
    shown : list of (Ref, Ref)
        See :class:`.elements.Element`.
    """

    step: Step
    reducer: Reducer
    shape: Ints
    axes: Ints
    operands: tuple[Ref, ...]
    numbers: tuple[Any, ...]
    before: list[int]
    copied: set[int]
    after: list[list[int]]
    shown: list[tuple[Ref, Ref]]

    @property
    def results(self) -> list[Ref]:
        """What it gives."""
        return list(refs(self.step.result))

    @property
    def rows(self) -> int:
        """How many elements each result has."""
        return prod(size for axis, size in enumerate(self.shape) if axis not in self.axes)

    @property
    def is_joined(self) -> bool:
        """Whether something is computed with it."""
        return bool(self.before or self.after)

    def strides(self, ref: Ref, shape: Ints) -> Ints | None:
        """Strides over the reduction's dimensions of ``ref``, which is broadcast to ``shape``; ``None`` if there are none.

        ``shape`` has the elements of a result, in their order.
        """
        rows = tuple(1 if axis in self.axes else size for axis, size in enumerate(self.shape))
        over_rows = [axis for axis, size in enumerate(rows) if size != 1]
        dimensions = [axis for axis, size in enumerate(shape) if size != 1]
        layout, result = ref.layout, [0] * len(rows)
        if [shape[axis] for axis in dimensions] == [rows[axis] for axis in over_rows]:
            strides = strides_of.broadcast_strides(layout.shape, layout.strides, shape)
            for axis, dimension in zip(over_rows, dimensions, strict=True):
                result[axis] = strides[dimension]
            return tuple(result)
        if layout.numel == 1:
            return tuple(result)
        if layout.contiguous and layout.numel == prod(rows) == prod(shape):
            return strides_of.contiguous_strides(rows)
        return None


def is_cut(reduced: Reduced, inputs: Sequence[Ref], lookups: tuple[Lookup, ...] = ()) -> bool:
    """Whether blocks share a row of a reduction of ``inputs``, and another kernel combines what they have."""
    strides = [
        strides_of.broadcast_strides(ref.layout.shape, ref.layout.strides, reduced.shape) for ref in inputs
    ]
    in_order = reduced.reducer.with_indices
    rows = collapsed(reduced.shape, reduced.axes, [], strides, keep_order=in_order, lookups=lookups)
    return work_for(rows, [ref.layout.itemsize for ref in inputs])[0].chunks > 1


def reduced_of(step: Step) -> Reduced | None:
    """``step`` by its parts, if it is a reduction whose kernel is known beforehand."""
    operation, *rest = step.key
    shape: Ints
    shown: list[tuple[Ref, Ref]] = []
    if isinstance(operation, Reduction):
        layout, axes, *_ = rest
        if operation.reducer is None or len(rest) != 3:
            return None
        reducer, shape, operands, numbers = (
            operation.reducer, layout.shape, step.arguments[:1], step.arguments[1:]
        )  # fmt: skip
    elif isinstance(operation, Loss):
        layout, _, reduction, scalars = rest
        shape, axes = layout.shape, tuple(range(len(layout.shape)))
        reducer = operation.reducer(reduction, scalars)
        operands, numbers = step.arguments[:2], tuple(map(float, step.arguments[2:]))
    elif operation is MOMENTS:
        (layout,) = rest
        reducer, shape, axes = reducers.VAR_MEAN, layout.shape, _other_axes(layout.shape)
        operands, numbers = step.arguments, (0.0,)
    elif operation is SUMS:
        layout = rest[1]
        reducer, shape, axes = norm_kernels.BATCH_GRADIENTS, layout.shape, _other_axes(layout.shape)
        grad, input, mean, variance, eps = step.arguments
        shown = [(channel_vector(each, len(shape)), each) for each in (mean, variance)]
        operands, numbers = (grad, input, *(vector for vector, _ in shown)), (eps,)
    elif operation is MEAN:
        layout, is_mean, _ = rest
        reducer = loss_kernels.WEIGHTED_MEAN if is_mean else loss_kernels.WEIGHTED_SUM
        shape, axes = layout.shape, tuple(range(len(layout.shape)))
        operands, numbers = step.arguments, ()
    else:
        return None
    if not all(type(each) is Ref for each in operands) or 0 in shape:
        return None
    if not all(each.layout.device_state.is_cuda for each in operands):
        return None
    return Reduced(step, reducer, shape, tuple(axes), tuple(operands), tuple(numbers), [], set(), [], shown)


def _other_axes(shape: Ints) -> Ints:
    """All dimensions but the second, of channels."""
    return tuple(axis for axis in range(len(shape)) if axis != 1)


def operands_of(reduced: Reduced, elements: Sequence[Element]) -> list[Ref]:
    """What a kernel of a reduction, with these elements before it, reads of all elements."""
    computed = {element.out for element in elements}
    own = [ref for ref in reduced.operands if ref not in computed]
    return list(dict.fromkeys([*inputs_of(elements), *own]))


def written_of(chain: Sequence[Element], there: Collection[int], uses: Uses) -> list[Ref]:
    """What of a chain goes to memory: what is read by others than the steps ``there``, and what is written in place."""
    return [element.out for element in chain if element.writes or is_read_elsewhere(element.out, there, uses)]


def is_read_elsewhere(ref: Ref, there: Collection[int], uses: Uses) -> bool:
    return (
        ref.buffer in uses.needed
        or ref.buffer in uses.writers
        or any(reader not in there for reader in uses.readers.get(ref.buffer, ()))
    )
