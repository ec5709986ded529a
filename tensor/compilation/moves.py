"""Copies of what nobody reads afterwards: the memory takes the name of the copy, and nothing is copied.

Such are gradients that a backward pass leaves at leaves: outside of a recording the engine sees that it holds the only
reference, inside of one the tape has others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tensor.core.plans.copies import COPIED

from .tape import Ref, map_tensors, refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tape import Step


def without_moves(steps: Sequence[Step], needed: set[int]) -> list[Step]:
    """``steps``, in which a copy of memory that only earlier steps read and write is that memory.

    The copy may not be written in place: what reads it before and after that would depend on which of the two is meant.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : set of int
        Buffers that are read after the steps.
    """
    uses = Uses.of(steps, needed)
    whole = {ref for step in steps for ref in refs(step.result)}
    renamed: dict[int, Ref] = {}

    def present(ref: Ref) -> Ref:
        source = renamed.get(ref.buffer)
        return ref if source is None else Ref(source.buffer, ref.layout, ref.offset + source.offset)

    result = []
    for position, step in enumerate(steps):
        if _is_copy(step):
            source: Ref = step.arguments[0]
            passed_on = source.buffer not in uses.needed and uses.is_passed_on(step.result.buffer)
            # Who writes to memory is among its readers.
            if passed_on and source in whole and uses.readers[source.buffer][-1] == position:
                renamed[step.result.buffer] = present(source)
                continue
        if any(ref.buffer in renamed for ref in step.reads()):
            step = replace(step, arguments=map_tensors(present, step.arguments, Ref))
        result.append(step)
    return result


def _is_copy(step: Step) -> bool:
    """Whether a step gives the same elements in the same places."""
    if step.key[0] is not COPIED or type(step.arguments[0]) is not Ref or type(step.result) is not Ref:
        return False
    to, origin = step.key[1:]
    return to is origin and origin.dense
