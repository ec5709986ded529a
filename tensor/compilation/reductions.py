"""Like reductions become one launch: sums for the gradients of biases, and of the weights of normalizations.

Each of them is small beside its launch, and what it gives is read at the end of a backward pass, if at all: they are done
together where the last of them stood. What they read lives on until there, which is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import reduction_groups as kernels
from tensor.core.base import maker
from tensor.operations.normalization import row_normalization as normalization
from tensor.operations.reduction import Reduction
from tensor.operations.scratch import launch_reduction

from .grouping import Grouped
from .tape import Launch, Step, refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nvrtc_kernels.reduction_groups import Task

#: Bytes that one of several reads at most: from there on it takes longer than its launch.
_LARGEST = 4 << 20
#: Bytes that several read at most: they are held until the last one is done.
_MOST_HELD = 32 << 20


@dataclass(slots=True)
class _Group:
    """Reductions that are one launch so far: positions of their steps."""

    tasks: dict[int, Task] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)


def group_reductions(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` with like reductions as one step.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    uses = Uses.of(steps, needed)
    open_groups: dict[Any, _Group] = {}
    groups: list[_Group] = []
    for position, step in enumerate(steps):
        task = _task_of(step)
        like = None if task is None else task.like()
        if task is None or like is None:
            continue
        bytes_read = {ref.buffer: ref.layout.nbytes for ref in step.reads()}
        if sum(bytes_read.values()) > _LARGEST:
            continue
        group = open_groups.get(like)
        reason = None if group is None else _obstacle(group, bytes_read, position, steps, uses)
        if group is None or reason is not None:
            if group is not None:
                step.notes = [*step.notes, f"not with {steps[max(group.tasks)].name} before it: {reason}"]
            group = open_groups[like] = _Group()
            groups.append(group)
        group.tasks[position] = task
        group.held |= bytes_read
    result: dict[int, Step] = dict(enumerate(steps))
    for group in groups:
        if len(group.tasks) > 1:
            fused = _together(
                {position: steps[position] for position in group.tasks}, list(group.tasks.values())
            )
            for position in group.tasks:
                del result[position]
            result[max(group.tasks)] = fused
    return [result[position] for position in sorted(result)]


def _task_of(step: Step) -> Task | None:
    """What a step asks a device for, if it is a reduction without numbers."""
    operation, *rest = step.key
    if isinstance(operation, Reduction):
        if operation.reducer is None or len(step.arguments) != 1:
            return None
        layout, axes, keepdim = rest
        return operation.task(operation.reducer, [layout], axes, keepdim, layout)
    if operation is normalization.WEIGHT_GRADIENTS:
        grad, layout, dtype, rows = rest
        return normalization.weight_gradients_task(grad, layout, dtype, rows)
    return None


def _obstacle(
    group: _Group, bytes_read: dict[int, int], end: int, steps: Sequence[Step], uses: Uses
) -> str | None:
    """Why the reductions of a group, and one that reads these buffers, cannot all be done at ``end``."""
    if len(group.tasks) == kernels.capacity(next(iter(group.tasks.values()))):
        return "one launch would have too many"
    if sum((group.held | bytes_read).values()) > _MOST_HELD:
        return "what they read would be held for long"
    reasons = (uses.obstacle(steps[position], position, end) for position in group.tasks)
    return next((reason for reason in reasons if reason is not None), None)


def _together(members: dict[int, Step], tasks: list[Task]) -> Step:
    """One step for reductions."""
    steps = list(members.values())
    results = [list(refs(step.result)) for step in steps]
    reads = [list(step.reads()) for step in steps]
    device_state: Any = results[0][0].layout.device_state
    # A launch is given results before operands, and a plan those of one reduction after the other.
    positions, outs, ins = list[int](), 0, sum(map(len, results))
    for produced, taken in zip(results, reads, strict=True):
        positions += [*range(outs, outs + len(produced)), *range(ins, ins + len(taken))]
        outs, ins = outs + len(produced), ins + len(taken)
    names = dict.fromkeys(step.name for step in steps)
    produced_all = [ref for produced in results for ref in produced]
    return Step(
        (Grouped(f"{len(steps)} of {', '.join(names)}"), None),
        Launch(
            _launch(device_state, kernels.plan(device_state.native, tasks), positions),
            [maker(ref.layout) for ref in produced_all],
            (),
            draws=False,
            writes=False,
        ),
        tuple(ref for taken in reads for ref in taken),
        produced_all,
        steps[-1].line,
        notes=list(dict.fromkeys(note for step in steps for note in step.notes)),
        originals=tuple(original for step in steps for original in step.originals or (step,)),
    )


def _launch(device_state: Any, plan: Any, positions: list[int]) -> Callable[..., None]:
    def launch(_: Any, *addresses: int) -> None:
        launch_reduction(device_state, plan, *[addresses[position] for position in positions])

    return launch
