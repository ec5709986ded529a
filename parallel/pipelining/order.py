"""In which order a stage of a pipeline computes the forward and backward passes of micro-batches.

With all forward passes first (Huang et al., "GPipe", 2019) a stage has what it saved of all micro-batches at once. Where each
stage begins with the backward passes as soon as it can (Narayanan et al., "PipeDream", 2019; flushed after each step), stage
``i`` of ``n`` has that of ``n - i`` of them at most. Both take as long.
"""

from __future__ import annotations

from typing import NamedTuple


class Action(NamedTuple):
    """A pass of a micro-batch through a stage."""

    #: Whether it is the forward pass.
    forward: bool
    microbatch: int


def forward_passes(microbatches: int) -> list[Action]:
    """Of a pipeline that is not trained."""
    return [Action(True, each) for each in range(microbatches)]


def all_forward_all_backward(microbatches: int) -> list[Action]:
    """All forward passes, then all backward passes; the same on each stage."""
    return forward_passes(microbatches) + [Action(False, each) for each in range(microbatches)]


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> list[Action]:
    """Forward passes until the first gradient can be there, then a backward and a forward pass in turns."""
    ahead = min(microbatches, stages - stage)
    result = forward_passes(ahead)
    for each in range(microbatches):
        result.append(Action(False, each))
        if each + ahead < microbatches:
            result.append(Action(True, each + ahead))
    return result
