"""Variables and derivatives of levels, of tensors that may be batched.

A graph is recorded of whole batches. A variable inside ``vmap`` is therefore made for each sample of each level, also of a
tensor that is the same for all: the gradient of all samples' results by it has each sample's own gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd import levels as autograd_levels
from tensor.autograd.differentiation import grad
from tensor.autograd.pushforward import Pushforward as _Pushforward
from tensor.core.plans.fills import filled
from tensor.operations.shapes.joining import stack
from tensor.operations.shapes.slices import select

from .batched import Batched, VmapLevel, batched, dressed, levels, spread, stripped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tensor.autograd.levels import Level
    from tensor.methods.tensor import Tensor

__all__ = ["Pushforward", "concerns_others", "gradients", "settled", "variable"]


def variable(origin: Tensor, level: Level) -> Tensor:
    """A variable of ``level`` for each sample; see :func:`tensor.autograd.levels.variable`."""
    value, present = stripped(origin)
    if not levels.stack:
        return autograd_levels.variable(value, level)
    own = autograd_levels.variable(spread(value, present, levels.stack), level)
    return dressed(own, levels.stack)


def settled(result: Tensor, level: Level) -> Tensor:
    """See :func:`tensor.autograd.levels.settled`."""
    value, present = stripped(result)
    return dressed(autograd_levels.settled(value, level), present)


def concerns_others(tensors: Iterable[Tensor], level: Level) -> bool:
    """See :func:`tensor.autograd.levels.concerns_others`."""
    return autograd_levels.concerns_others([stripped(each)[0] for each in tensors], level)


def _foreign(tensors: Sequence[Any], known: Sequence[Sequence[VmapLevel]]) -> VmapLevel | None:
    """The innermost level of ``tensors`` that the recorded computation does not have."""
    have = {id(level) for each in known for level in each}
    own_levels = [
        level
        for each in tensors
        if isinstance(each, Batched)
        for level in stripped(each)[1]
        if id(level) not in have
    ]
    return max(own_levels, key=lambda level: level.depth, default=None)


def _one_by_one(
    compute: Callable[[list[Any]], list[Tensor]], tensors: Sequence[Any], level: VmapLevel
) -> list[Tensor]:
    """``compute`` for each sample of a level that the recorded computation does not have."""
    rows = []
    for number in range(level.size):
        part = [
            select(each.value, 0, number) if isinstance(each, Batched) and each.level is level else each
            for each in tensors
        ]
        rows.append(compute(part))
    return [batched(stack(list(column), 0), level) for column in zip(*rows, strict=True)]


def gradients(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    cotangents: Sequence[Any],
    create_graph: bool,
    retain_graph: bool,
) -> list[Tensor]:
    """Gradients of the inputs; zeros for one that no output depends on.

    A cotangent of ``None`` stands for 1, in every sample.
    """
    values = [stripped(x) for x in outputs]
    leaves = [stripped(x) for x in inputs]
    foreign = _foreign(cotangents, [present for _, present in (*values, *leaves)])
    if foreign is not None:
        return _one_by_one(
            lambda part: gradients(outputs, inputs, part, create_graph, True), cotangents, foreign
        )
    roots, starts = [], []
    for (value, present), cotangent in zip(values, cotangents, strict=True):
        if not value.requires_grad:
            continue
        roots.append(value)
        if cotangent is None:
            starts.append(filled(value._layout.as_contiguous(), 1) if present else None)
        else:
            own, have = stripped(cotangent)
            starts.append(spread(own, have, present))
    grads: Sequence[Any] = [None] * len(inputs)
    if roots and inputs:
        grads = grad(
            roots,
            [value for value, _ in leaves],
            starts,
            create_graph=create_graph,
            retain_graph=retain_graph or create_graph,
            allow_unused=True,
        )
    return [
        dressed(filled(value._layout.as_contiguous(), 0) if each is None else each, present)
        for each, (value, present) in zip(grads, leaves, strict=True)
    ]


class Pushforward:
    """See :class:`tensor.autograd.pushforward.Pushforward`."""

    def __init__(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
        self._outputs = [stripped(x) for x in outputs]
        self._inputs = [stripped(x) for x in inputs]
        self._of_batches = _Pushforward(
            [value for value, _ in self._outputs], [value for value, _ in self._inputs]
        )

    def tangents(self, tangents: Sequence[Any], *, create_graph: bool) -> list[Tensor]:
        """Tangents of the outputs for those of the inputs; ``None`` stands for zeros."""
        foreign = _foreign(tangents, [present for _, present in (*self._outputs, *self._inputs)])
        if foreign is not None:
            return _one_by_one(lambda part: self.tangents(part, create_graph=create_graph), tangents, foreign)
        whole: list[Any] = []
        for tangent, (_, present) in zip(tangents, self._inputs, strict=True):
            if tangent is None:
                whole.append(None)
            else:
                own, have = stripped(tangent)
                whole.append(spread(own, have, present))
        output_tangents = self._of_batches.tangents(whole, create_graph=create_graph)
        return [
            dressed(each, present) for each, (_, present) in zip(output_tangents, self._outputs, strict=True)
        ]
