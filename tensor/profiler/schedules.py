"""When a profile records: the actions of its steps."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ProfilerAction(Enum):
    """What a profile does in a step.

    ``NONE``: nothing; ``WARMUP``: nothing is recorded yet; ``RECORD``; ``RECORD_AND_SAVE``: the last recorded step of a
    cycle, after which ``on_trace_ready`` is called.
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """A schedule for ``profile(schedule=...)``: cycles of steps in which nothing is done, warmed up, and recorded.

    Parameters
    ----------
    wait, warmup, active : int
        Steps of a cycle that are left out, warmed up, and recorded. At the end of each cycle ``on_trace_ready`` is called.
    repeat : int
        How many cycles there are; 0 for as many as there are steps.
    skip_first : int
        Steps before the first cycle.
    skip_first_wait : int
        Unless 0, the first cycle has no ``wait`` steps.

    Returns
    -------
    callable
        Gives the action of each step by its number.

    Raises
    ------
    ValueError
        If a number is negative, or there is no active step.
    """
    numbers = {"wait": wait, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
    for name, number in numbers.items():
        if number < 0:
            raise ValueError(f"schedule(): {name} is {number}, expected 0 or more")
    if active < 1:
        raise ValueError(f"schedule(): active is {active}, expected at least 1 step that is recorded")

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"step {step}: steps count from 0")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def always(step: int) -> ProfilerAction:
    """The schedule of a profile that has none: every step is recorded."""
    return ProfilerAction.RECORD
