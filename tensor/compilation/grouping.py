"""Casts of what comes from outside, such as those of parameters under autocast, are made by one launch for each pair of dtypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensor.core.base import maker
from tensor.core.plans.copies import COPIED
from tensor.operations.autocast import casting

from .tape import Launch, Ref, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, eq=False)
class Grouped:
    """Steps that are done in one launch.

    Attributes
    ----------
    name : str
        For people.
    """

    name: str


@dataclass(frozen=True, eq=False)
class CastGroup(Grouped):
    """Casts of tensors to one dtype.

    Attributes
    ----------
    reads : bool
        Whether they read anything, unless something unusual has happened.
    """

    reads: bool = True


def group_casts(steps: Sequence[Step], inputs: Iterable[int]) -> list[Step]:
    """``steps`` with casts of ``inputs``, the buffers that are there before, in groups.

    A group stands where the first of its casts stood: what they read is not written before.
    """
    there = set(inputs)
    groups: dict[Any, list[Step]] = {}
    for step in steps:
        if _is_cast(step) and step.arguments[0].buffer in there:
            to, origin = step.key[1:]
            groups.setdefault((to.device_state, to.dtype, origin.dtype), []).append(step)
        there -= step.writes
    first = {id(members[0]): members for members in groups.values() if len(members) > 1}
    others = {id(step) for members in first.values() for step in members[1:]}
    result = []
    for step in steps:
        if id(step) in first:
            result.append(grouped_casts(first[id(step)]))
        elif id(step) not in others:
            result.append(step)
    return result


def _is_cast(step: Step) -> bool:
    if step.key[0] is not COPIED or type(step.arguments[0]) is not Ref or type(step.result) is not Ref:
        return False
    to, origin = step.key[1:]
    return (
        origin.dense
        and to is origin.with_dtype(to.dtype)
        and to.dtype is not origin.dtype
        and all(each.is_floating_point and not each.is_storage_only for each in (to.dtype, origin.dtype))
        and step.result.offset == 0
    )


def grouped_casts(steps: Sequence[Step]) -> Step:
    """The step that does what ``steps`` do, casts from one dtype to one other."""
    layouts = [step.result.layout for step in steps]
    device_state: Any = layouts[0].device_state
    count = len(steps)
    return Step(
        (CastGroup(f"{count} casts to {layouts[0].dtype!r}"), None),
        Launch(
            casting(device_state, layouts, steps[0].arguments[0].layout.dtype),
            [maker(layout) for layout in layouts],
            (),
            draws=False,
            writes=False,
        ),
        tuple(step.arguments[0] for step in steps),
        [step.result for step in steps],
        steps[0].line,
        originals=tuple(steps),
    )
