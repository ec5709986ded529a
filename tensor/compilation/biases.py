"""Biases of linear maps are spread to rows together: cuBLAS adds the products to what is there.

That is a launch for each of them otherwise. The rows of all that are there when the first is needed are written then; what
they take is bounded, for results are there earlier than they would be.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import coalescing
from tensor.core.base import maker
from tensor.core.plans import planned
from tensor.operations.products.linear import LINEAR

from .grouping import Grouped
from .tape import Launch, Ref, Step, refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Bytes of a result at most: from there on it takes longer than its launch.
_LARGEST = 4 << 20
#: Bytes of all results that are there before they are needed.
_MOST = 32 << 20


def _rows_plan(device_state: Any, dtype: Any) -> Callable[..., None]:
    """``device_state.plans[operation, device_state, dtype]``: see :func:`nvrtc_kernels.coalescing.plan_rows`."""
    return coalescing.plan_rows(device_state.native, dtype)


_ROWS = planned(_rows_plan)


@dataclass(slots=True)
class _Group:
    """Linear maps whose biases are spread at ``start``: positions of their steps."""

    start: int
    positions: list[int] = field(default_factory=list)
    nbytes: int = 0


def spread_biases(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` in which the biases of several linear maps are spread by one step.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    uses = Uses.of(steps, needed)
    makers = {ref.buffer: position for position, step in enumerate(steps) for ref in refs(step.result)}
    open_groups: dict[Any, _Group] = {}
    groups: list[_Group] = []
    for position, step in enumerate(steps):
        if step.key[0] is not LINEAR or type(step.arguments[2]) is not Ref:
            continue
        bias, result = step.arguments[2], step.result
        nbytes = result.layout.nbytes
        if nbytes > _LARGEST or bias.layout.strides != (1,):
            continue
        group = open_groups.get(result.layout.dtype)
        if (
            group is None
            or group.nbytes + nbytes > _MOST
            or makers.get(bias.buffer, -1) >= group.start
            or any(group.start <= writer < position for writer in uses.writers.get(bias.buffer, ()))
        ):
            group = open_groups[result.layout.dtype] = _Group(position)
            groups.append(group)
        group.positions.append(position)
        group.nbytes += nbytes
    before: dict[int, Step] = {}
    result_steps = dict(enumerate(steps))
    for group in groups:
        if len(group.positions) > 1:
            members = [steps[position] for position in group.positions]
            before[group.start] = _spread(members)
            for position, step in zip(group.positions, members, strict=True):
                result_steps[position] = _onto(step)
    return [
        each
        for position, step in result_steps.items()
        for each in ((before[position], step) if position in before else (step,))
    ]


def _spread(steps: Sequence[Step]) -> Step:
    """The step that writes the biases of linear maps to their results."""
    results = [step.result for step in steps]
    layout = results[0].layout
    device_state: Any = layout.device_state
    spread = device_state.plans[_ROWS, device_state, layout.dtype]
    counts = [ref.layout.numel for ref in results]
    widths = [ref.layout.shape[-1] for ref in results]
    count = len(steps)

    def launch(stream: Any, *addresses: int) -> None:
        triples: list[int] = [0] * (3 * count)
        triples[::3], triples[1::3], triples[2::3] = addresses[:count], addresses[count:], widths
        spread(stream, triples, counts)

    return Step(
        (Grouped(f"{count} biases to rows"), None),
        Launch(launch, [maker(ref.layout) for ref in results], (), draws=False, writes=False),
        tuple(step.arguments[2] for step in steps),
        results,
        steps[0].line,
        is_part=True,
    )


def _onto(step: Step) -> Step:
    """A linear map whose result has the bias in it."""
    x, w, _ = step.arguments
    plan: Any = step.run
    return replace(
        step,
        run=plan.onto,
        arguments=(x, w, step.result),
        result=None,
        writes={step.result.buffer},
        originals=step.originals or (step,),
    )
