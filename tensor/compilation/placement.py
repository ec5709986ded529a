"""Results that are only copied to parts of a larger tensor are written there at once.

Query, key and value of an attention are often parts of one product's result, whose gradient then consists of theirs: the
kernels of the attention's gradients write to these parts.
"""

from __future__ import annotations

from inspect import unwrap
from typing import TYPE_CHECKING

from tensor.core.plans.copies import COPY
from tensor.operations.attention import attention

from .tape import Ref, Step, refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: What a tape has as the operation.
_GRADIENTS = unwrap(attention.GRADIENTS)
#: What addresses and strides are multiples of, in bytes, so that elements are written as they would be to a new tensor.
_WORD = 16


def place(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` without copies of an attention's gradients to parts of a tensor.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    uses = Uses.of(steps, needed)
    removed: set[int] = set()
    result = []
    for position, step in enumerate(steps):
        if position in removed:
            continue
        if step.key[0] is _GRADIENTS:
            copies = _copies(step, steps, uses)
            if copies is not None and _is_untouched(position, copies, steps, uses):
                removed.update(copies)
                step = _placed(step, [steps[each] for each in copies])
        result.append(step)
    return result


def _copies(step: Step, steps: Sequence[Step], uses: Uses) -> list[int] | None:
    """Where the gradients of query, key and value are copied to parts of a tensor, if that is all that is done to them."""
    outputs = list(refs(step.result))
    if len(outputs) != 3 or any(each.buffer in uses.needed for each in outputs):
        return None
    behind = [uses.readers.get(each.buffer, []) for each in outputs]
    if any(len(each) != 1 for each in behind):
        return None
    copies = [position for (position,) in behind]
    for output, position in zip(outputs, copies, strict=True):
        copy = steps[position]
        if copy.key[0] is not COPY or copy.arguments[1] != output or not _is_aligned(copy.arguments[0]):
            return None
    return copies


def _is_aligned(target: Ref) -> bool:
    layout = target.layout
    steps = [step * layout.itemsize for step in layout.strides[:-1]]
    return layout.strides[-1] == 1 and all(each % _WORD == 0 for each in (target.offset, *steps))


def _is_untouched(position: int, copies: Sequence[int], steps: Sequence[Step], uses: Uses) -> bool:
    """Whether nothing reads or writes what is copied to until all has been copied, so that it may be written before."""
    targets = {steps[each].arguments[0].buffer for each in copies}
    own = {ref.buffer for ref in steps[position].reads()}
    touched = [each for buffer in targets for each in uses.readers[buffer] if each < max(copies)]
    return not targets & own and set(touched) <= set(copies)


def _placed(step: Step, copies: Sequence[Step]) -> Step:
    targets = tuple(copy.arguments[0] for copy in copies)
    return Step(
        (attention.gradients_into,),
        attention.gradients_into,
        (targets, *step.arguments),
        None,
        step.line,
        step.draw,
        {target.buffer for target in targets},
        originals=(step, *copies),
    )
