"""Steps far apart that are done together where the last of them stood, as long as nothing in between stands against it.

What such steps give is read late, if at all, and each is small beside its launch. What they read lives on until the last of them,
which is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tensor.core.base import maker

from .grouping import Grouped
from .tape import Launch, Step, refs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .tape import Ref
    from .uses import Uses


class Member(NamedTuple):
    """What a step asks for, if it is better done with others.

    Attributes
    ----------
    task
        What a launch is told of it.
    like
        Equal for steps that one launch can do.
    reads : sequence of Ref
        What is held until the launch.
    """

    task: Any
    like: Any
    reads: Sequence[Ref]


@dataclass(slots=True)
class _Group:
    """Steps that are one launch so far: their tasks, by position, and bytes that they hold, by buffer."""

    tasks: dict[int, Any] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)


def group_late(
    steps: Sequence[Step],
    uses: Uses,
    member_of: Callable[[Step], Member | None],
    capacity: Callable[[Any], int],
    most_held: int,
    together: Callable[[list[Step], list[Any]], Step | None],
) -> list[Step]:
    """``steps`` with those that can be done together as one step.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    uses : Uses
        Of their buffers.
    member_of : callable
        What a step asks for; ``None`` for one that stays.
    capacity : callable
        How many tasks a launch takes of those like a task.
    most_held : int
        Bytes that the steps of a group read at most.
    together : callable
        One step for several and their tasks; ``None`` where they are quicker apart.
    """
    open_groups: dict[Any, _Group] = {}
    groups: list[_Group] = []
    for position, step in enumerate(steps):
        member = member_of(step)
        if member is None:
            continue
        bytes_read = {ref.buffer: ref.layout.nbytes for ref in member.reads}
        group = open_groups.get(member.like)
        reason = None
        if group is not None:
            # A task like those of the group, which are as many as a launch takes.
            full = len(group.tasks) == capacity(next(iter(group.tasks.values())))
            reason = _obstacle(group, bytes_read, position, steps, uses, most_held, full=full)
        if group is None or reason is not None:
            if group is not None:
                step.notes = [*step.notes, f"not with {steps[max(group.tasks)].name} before it: {reason}"]
            group = open_groups[member.like] = _Group()
            groups.append(group)
        group.tasks[position] = member.task
        group.held |= bytes_read
    result: dict[int, Step] = dict(enumerate(steps))
    for group in groups:
        if len(group.tasks) > 1:
            one = together([steps[position] for position in group.tasks], list(group.tasks.values()))
            if one is not None:
                for position in group.tasks:
                    del result[position]
                result[max(group.tasks)] = one
    return [result[position] for position in sorted(result)]


def _obstacle(
    group: _Group,
    bytes_read: dict[int, int],
    end: int,
    steps: Sequence[Step],
    uses: Uses,
    most_held: int,
    *,
    full: bool,
) -> str | None:
    """Why the steps of a group, and one that reads these buffers, cannot all be done at ``end``."""
    if full:
        return "one launch would have too many"
    if sum((group.held | bytes_read).values()) > most_held:
        return "what they read would be held for long"
    reasons = (uses.obstacle(steps[position], position, end) for position in group.tasks)
    return next((reason for reason in reasons if reason is not None), None)


def one_launch(
    name: str, steps: Sequence[Step], reads: Sequence[Sequence[Ref]], run: Callable[..., None]
) -> Step:
    """The step that does what ``steps`` do by ``run(stream, *addresses)``: of results and of what is read, step by step.

    A launch is given the results of all steps before what they read.
    """
    results = [list(refs(step.result)) for step in steps]
    positions, outs, ins = list[int](), 0, sum(map(len, results))
    for produced, taken in zip(results, reads, strict=True):
        positions += [*range(outs, outs + len(produced)), *range(ins, ins + len(taken))]
        outs, ins = outs + len(produced), ins + len(taken)

    def launch(stream: Any, *addresses: int) -> None:
        run(stream, *[addresses[position] for position in positions])

    everything = [ref for produced in results for ref in produced]
    return Step(
        (Grouped(name), None),
        Launch(launch, [maker(ref.layout) for ref in everything], (), draws=False, writes=False),
        tuple(ref for taken in reads for ref in taken),
        everything,
        steps[-1].line,
        notes=list(dict.fromkeys(note for step in steps for note in step.notes)),
        originals=tuple(original for step in steps for original in step.originals or (step,)),
    )
