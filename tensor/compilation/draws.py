"""Random numbers that are drawn while a function is recorded."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensor.operations.random.generator import default_generator

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor.core.devices.state import DeviceState


@dataclass(slots=True)
class Draw:
    """A call that a generator of random numbers served."""

    generator: Any
    device_state: Any
    seed: int
    call: int

    def is_in(self, argument: Any) -> bool:
        """Whether ``argument`` is a record with the draw's numbers as its fields ``seed`` and ``call``."""
        return (
            dataclasses.is_dataclass(argument)
            and getattr(argument, "seed", None) == self.seed
            and getattr(argument, "call", None) == self.call
        )

    def is_at(self, arguments: Sequence[Any], position: int) -> bool:
        """Whether two neighbours, from ``position`` on, are the draw's numbers."""
        numbers = arguments[position : position + 2]
        return all(type(each) is int for each in numbers) and tuple(numbers) == (self.seed, self.call)


class Draws:
    """The draws of a tape.

    A generator may be set back to where it stood earlier on the tape, as checkpoints do that run a function again: the same
    numbers are the same draw. In the end it has to stand behind the last one, as it does after a run.

    Parameters
    ----------
    device_state : DeviceState
        The tape's device.

    Attributes
    ----------
    drawn : list of Draw
        The draws, in order, each once.
    """

    def __init__(self, device_state: DeviceState) -> None:
        self.drawn: list[Draw] = []
        ordinals = range(len(device_state.runtime.devices)) if device_state.is_cuda else ()
        everywhere = [default_generator(), *map(default_generator, ordinals)]
        #: Where generators stood.
        self._begin: dict[Any, tuple[int, int]] = {each: each.position() for each in everywhere}
        self._touched: set[Any] = set()
        self._follows = True

    def note(self, generator: Any, device_state: Any, seed: int, call: int) -> None:
        """Take part in what generators do: see ``tensor.operations.random.generator.observers``."""
        self._touched.add(generator)
        if device_state is not None:
            self._begin.setdefault(generator, (seed, call))
        begin = self._begin.get(generator)
        own = [each for each in self.drawn if each.generator is generator]
        if begin is None or begin[0] != seed or not 0 <= call - begin[1] <= len(own):
            self._follows = False
        elif device_state is not None and call - begin[1] == len(own):
            self.drawn.append(Draw(generator, device_state, seed, call))

    def are_followed_by(self, users: Iterable[Draw | None]) -> bool:
        """Whether a run draws the same, where the draws ``users`` are those that steps take."""
        taken = set(map(id, users))
        ends = (
            (seed, call + sum(each.generator is generator for each in self.drawn))
            for generator, (seed, call) in self._begin.items()
            if generator in self._touched
        )
        stand = [each.position() for each in self._begin if each in self._touched]
        return self._follows and stand == list(ends) and all(id(each) in taken for each in self.drawn)
