"""Like reductions become one launch: sums for the gradients of biases, and of the weights of normalizations.

Each of them is small beside its launch, and what it gives is read at the end of a backward pass, if at all: they are done
together where the last of them stood. What they read lives on until there, which is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import reduction_groups as kernels
from tensor.operations.normalization import row_normalization as normalization
from tensor.operations.reduction import Reduction
from tensor.operations.scratch import launch_reduction

from .late_groups import Member, group_late, one_launch
from .tape import refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvrtc_kernels.reduction_groups import Task

    from .tape import Step

#: Bytes that one of several reads at most: from there on it takes longer than its launch.
_LARGEST = 4 << 20
#: Bytes that several read at most: they are held until the last one is done.
_MOST_HELD = 32 << 20


def group_reductions(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` with like reductions as one step.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    return group_late(steps, Uses.of(steps, needed), _member_of, kernels.capacity, _MOST_HELD, _together)


def _member_of(step: Step) -> Member | None:
    task = _task_of(step)
    like = None if task is None else task.like()
    if task is None or like is None:
        return None
    reads = list(step.reads())
    if sum({ref.buffer: ref.layout.nbytes for ref in reads}.values()) > _LARGEST:
        return None
    return Member(task, like, reads)


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


def _together(steps: list[Step], tasks: list[Task]) -> Step:
    """One step for reductions."""
    device_state: Any = next(refs(steps[0].result)).layout.device_state
    plan = kernels.plan(device_state.native, tasks)

    def run(_: Any, *addresses: int) -> None:
        launch_reduction(device_state, plan, *addresses)

    names = dict.fromkeys(step.name for step in steps)
    return one_launch(
        f"{len(steps)} of {', '.join(names)}", steps, [list(step.reads()) for step in steps], run
    )
