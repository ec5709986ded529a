"""Variables and derivatives of levels, for tensors that may be batched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.differentiation import grad
from tensor.autograd.levels import Level, settled, variable
from tensor.autograd.pushforward import Pushforward
from tensor.core.fill_plans import filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor

__all__ = ["Level", "Pushforward", "gradients", "settled", "variable"]


def gradients(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    cotangents: Sequence[Any],
    create_graph: bool,
    retain_graph: bool,
) -> list[Tensor]:
    """Gradients of the inputs; zeros for one that no output depends on."""
    roots = [number for number, x in enumerate(outputs) if x.requires_grad]
    found: Sequence[Any] = [None] * len(inputs)
    if roots and inputs:
        found = grad(
            [outputs[number] for number in roots],
            inputs,
            [cotangents[number] for number in roots],
            create_graph=create_graph,
            retain_graph=retain_graph or create_graph,
            allow_unused=True,
        )
    return [
        filled(x._layout.as_contiguous(), 0) if each is None else each
        for each, x in zip(found, inputs, strict=True)
    ]
