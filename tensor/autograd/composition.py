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
    inputs: Sequence[Any],
    context: Sequence[Any],
) -> tuple[Any, ...]:
    """Gradients of the ``inputs`` that ``mask`` asks for, which have derivatives of any order.

    ``composition(*inputs, *context)`` gives the outputs, or the only one, whose gradients are ``grads``; ``None`` for an
    output that no gradient has reached.
    """
    # Of one tensor in two places, or one made of another, each place has a gradient of its own.
    own = [x.view_as(x) if asked else x for x, asked in zip(inputs, mask, strict=True)]
    outputs = composition(*own, *context)
    if not isinstance(outputs, tuple):
        outputs = (outputs,)
    reached = [
        (output, argument) for output, argument in zip(outputs, grads, strict=True) if argument is not None
    ]
    gradients = iter(
        grad(
            [output for output, _ in reached],
            [x for x, asked in zip(own, mask, strict=True) if asked],
            [argument for _, argument in reached],
            create_graph=True,
            allow_unused=True,
        )
    )
    return tuple([next(gradients) if asked else None for asked in mask])
