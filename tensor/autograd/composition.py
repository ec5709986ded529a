"""Gradients of a fused operation by the differentiable operations that it is composed of.

The first derivative of a fused operation is written by hand, for speed. What a recorded backward pass computes has to have
derivatives itself: it differentiates the composition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .differentiation import grad

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def composed_gradients(
    composition: Callable[..., Any],
    mask: Sequence[bool],
    grads: Sequence[Any],
    values: Sequence[Any],
    numbers: Sequence[int | None],
    context: Sequence[Any],
) -> tuple[Any, ...]:
    """Gradients of the inputs that ``mask`` asks for, which have derivatives of any order.

    Parameters
    ----------
    composition
        ``composition(*values, *context)`` gives the outputs, or the only one.
    grads
        Gradients of the outputs; ``None`` for one that no gradient has reached.
    numbers
        For each of ``values`` which input it is; ``None`` for what is none.
    """
    arguments = list(values)
    asked: dict[int, Any] = {}
    for position, (x, number) in enumerate(zip(values, numbers, strict=True)):
        if number is not None and mask[number]:
            # Of one tensor in two places, or one made of another, each place has a gradient of its own.
            own = x.view_as(x) if x.requires_grad else x.detach().requires_grad_()
            arguments[position] = asked[number] = own
    outputs = composition(*arguments, *context)
    if not isinstance(outputs, tuple):
        outputs = (outputs,)
    reached = [
        (output, gradient) for output, gradient in zip(outputs, grads, strict=True) if gradient is not None
    ]
    gradients = grad(
        [output for output, _ in reached],
        list(asked.values()),
        [gradient for _, gradient in reached],
        create_graph=True,
        allow_unused=True,
    )
    by_input = dict(zip(asked, gradients, strict=True))
    return tuple([by_input.get(number) for number in range(len(mask))])
