"""Gradients of the weights and biases of linear maps become one launch: those of half precision that are small.

Such a product keeps few multiprocessors of a device busy, and takes hardly longer than its launch. What it gives is read at the
end of a backward pass, if at all: several are done together where the last of them stood. What they read lives on until there,
which is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import outer_sums as kernels
from tensor.core.base import maker
from tensor.operations.products.linear import OUTER_SUM, OUTER_SUM_AND_SUM

from .grouping import Grouped
from .tape import Launch, Ref, Step, refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Bytes that several read at most: they are held until the last one is done.
_MOST_HELD = 64 << 20


@dataclass(slots=True)
class _Group:
    """Products that are one launch so far, by the positions of their steps."""

    products: dict[int, kernels.OuterSum] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)


def group_outer_sums(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` with gradients of weights as few steps.

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
        product = _product_of(step)
        if product is None:
            continue
        grad, rows = step.arguments
        bytes_read = {ref.buffer: ref.layout.nbytes for ref in (grad, rows)}
        # The least aligned product would have all of a launch copied in small pieces.
        aligned = (product.outputs | product.inputs) % kernels.PIECE == 0
        like = grad.layout.device_state, grad.layout.dtype, next(refs(step.result)).layout.dtype, aligned
        group = open_groups.get(like)
        reason = None if group is None else _obstacle(group, bytes_read, position, steps, uses)
        if group is None or reason is not None:
            if group is not None:
                step.notes = [*step.notes, f"not with {steps[max(group.products)].name} before it: {reason}"]
            group = open_groups[like] = _Group()
            groups.append(group)
        group.products[position] = product
        group.held |= bytes_read
    result: dict[int, Step] = dict(enumerate(steps))
    for group in groups:
        device_state: Any = steps[next(iter(group.products))].arguments[0].layout.device_state
        if len(group.products) > 1 and kernels.pays(device_state.native, list(group.products.values())):
            members = [steps[position] for position in group.products]
            for position in group.products:
                del result[position]
            result[max(group.products)] = _together(members, list(group.products.values()))
    return [result[position] for position in sorted(result)]


def _product_of(step: Step) -> kernels.OuterSum | None:
    """The product that a step asks a device for, if it is one that is better done with others."""
    operation = step.key[0]
    if operation is not OUTER_SUM and operation is not OUTER_SUM_AND_SUM:
        return None
    grad, rows = step.arguments
    outputs = list(refs(step.result))
    if type(grad) is not Ref or type(rows) is not Ref or not outputs or not rows.layout.numel:
        return None
    layout = rows.layout
    product = kernels.OuterSum(
        grad.layout.shape[-1], layout.shape[-1], layout.numel // layout.shape[-1], len(outputs) == 2
    )
    device_state: Any = layout.device_state
    return (
        product
        if kernels.takes(device_state.native, layout.dtype, outputs[0].layout.dtype, product)
        else None
    )


def _obstacle(
    group: _Group, bytes_read: dict[int, int], end: int, steps: Sequence[Step], uses: Uses
) -> str | None:
    """Why the products of a group, and one that reads these buffers, cannot all be done at ``end``."""
    if len(group.products) == kernels.CAPACITY:
        return "one launch would have too many"
    if sum((group.held | bytes_read).values()) > _MOST_HELD:
        return "what they read would be held for long"
    reasons = (uses.obstacle(steps[position], position, end) for position in group.products)
    return next((reason for reason in reasons if reason is not None), None)


def _together(steps: Sequence[Step], products: Sequence[kernels.OuterSum]) -> Step:
    """One step for products."""
    produced = [ref for step in steps for ref in refs(step.result)]
    grad, out = steps[0].arguments[0].layout, produced[0].layout
    run = kernels.plan(grad.device_state.native, grad.dtype, out.dtype, products)
    # A launch is given results before operands, and the kernel those of one product after the other.
    positions, outs, operands = list[int](), 0, len(produced)
    for product in products:
        positions += [*range(outs, outs + 1 + product.sums), operands, operands + 1]
        outs, operands = outs + 1 + product.sums, operands + 2

    def launch(stream: Any, *addresses: int) -> None:
        run(stream, *[addresses[position] for position in positions])

    return Step(
        (Grouped(f"{len(steps)} gradients of weights"), None),
        Launch(launch, [maker(ref.layout) for ref in produced], (), draws=False, writes=False),
        tuple(ref for step in steps for ref in step.arguments),
        produced,
        steps[-1].line,
        notes=list(dict.fromkeys(note for step in steps for note in step.notes)),
        originals=tuple(original for step in steps for original in step.originals or (step,)),
    )
