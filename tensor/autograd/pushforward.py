"""Products of Jacobians with vectors from the right, by two backward passes.

A backward pass is linear in the gradient that it starts from. Its derivative by that gradient, which is again a backward
pass, is therefore the Jacobian itself: exact, with no rule of its own for any operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.modes.grad_mode import recording
from tensor.core.plans.fills import filled

from .differentiation import grad
from .levels import Level, variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


class Pushforward:
    """The Jacobian of ``outputs`` by ``inputs``, as a function of tangents.

    Parameters
    ----------
    outputs : sequence of Tensor
        Results; those that have no history with the inputs have tangents of zeros.
    inputs : sequence of Tensor or GradientEdge
        What they were computed from.
    """

    def __init__(self, outputs: Sequence[Tensor], inputs: Sequence[Any]) -> None:
        self._outputs = outputs
        level = Level()
        level.active = False  # nobody else asks for gradients of the seeds
        self._seeds: list[Any] = [
            variable(filled(x._layout.as_contiguous(), 0), level) if x.requires_grad else None
            for x in outputs
        ]
        self._gradients: Sequence[Any] = [None] * len(inputs)
        roots = [number for number, seed in enumerate(self._seeds) if seed is not None]
        if roots:
            with recording():
                self._gradients = grad(
                    [outputs[number] for number in roots],
                    inputs,
                    [self._seeds[number] for number in roots],
                    create_graph=True,
                    retain_graph=True,
                    allow_unused=True,
                )

    def tangents(
        self, tangents: Sequence[Any], *, create_graph: bool, retain_graph: bool = True
    ) -> list[Tensor]:
        """Tangents of the outputs for those of the inputs; ``None`` stands for zeros.

        Of a tangent that has another dtype than its input the gradient's dtype is taken.
        """
        pairs = [
            (gradient, tangent.to(gradient.dtype))
            for gradient, tangent in zip(self._gradients, tangents, strict=True)
            if gradient is not None and tangent is not None and gradient.requires_grad
        ]
        seeds = [seed for seed in self._seeds if seed is not None]
        output_tangents: list[Any] = [None] * len(seeds)
        if pairs:
            output_tangents = list(
                grad(
                    [gradient for gradient, _ in pairs],
                    seeds,
                    [tangent for _, tangent in pairs],
                    create_graph=create_graph,
                    retain_graph=retain_graph,
                    allow_unused=True,
                )
            )
        by_seed = iter(output_tangents)
        result = []
        for output, seed in zip(self._outputs, self._seeds, strict=True):
            tangent = None if seed is None else next(by_seed)
            result.append(filled(output._layout.as_contiguous(), 0) if tangent is None else tangent)
        return result
