"""Gradients of the weights and biases of linear maps become one launch: those of half precision that are small.

Such a product keeps few multiprocessors of a device busy, and takes hardly longer than its launch. What it gives is read at the
end of a backward pass, if at all: several are done together where the last of them stood. What they read lives on until there,
which is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import outer_sums as kernels
from tensor.operations.products.linear import OUTER_SUM, OUTER_SUM_AND_SUM

from .late_groups import Member, group_late, one_launch
from .tape import Ref, refs
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .tape import Step

#: Bytes that several read at most: they are held until the last one is done.
_MOST_HELD = 64 << 20


def group_outer_sums(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` with gradients of weights as few steps.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    return group_late(
        steps, Uses.of(steps, needed), _member_of, lambda _: kernels.CAPACITY, _MOST_HELD, _together
    )


def _member_of(step: Step) -> Member | None:
    product = _product_of(step)
    if product is None:
        return None
    grad, rows = step.arguments
    # The least aligned product would have all of a launch copied in small pieces.
    aligned = (product.outputs | product.inputs) % kernels.PIECE == 0
    like = grad.layout.device_state, grad.layout.dtype, next(refs(step.result)).layout.dtype, aligned
    return Member(product, like, (grad, rows))


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


def _together(steps: list[Step], products: list[kernels.OuterSum]) -> Step | None:
    """One step for products, if it takes less time than they do."""
    grad, out = steps[0].arguments[0].layout, next(refs(steps[0].result)).layout
    device_state: Any = grad.device_state
    if not kernels.pays(device_state.native, products):
        return None
    run = kernels.plan(device_state.native, grad.dtype, out.dtype, products)
    return one_launch(f"{len(steps)} gradients of weights", steps, [step.arguments for step in steps], run)
