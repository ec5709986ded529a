"""Casts of parameters are kept from one step of training to the next, where the optimizer's step is part of the program.

The optimizer writes them with the parameters, so that these are read once in a step. Where something else has written to a
parameter, or somebody may do so without being noticed, all of them are cast as they would be: see :mod:`tensor.core.parameter_casts`.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tensor.core.base import empty
from tensor.core.parameter_casts import ParameterCast, can_be_cached, is_trusted, register
from tensor.operations.autocast import cast_together, casting

from .grouping import CastGroup, grouped_casts
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .tape import Ref, Step


def cache_casts(steps: Sequence[Step], inputs: Iterable[int], needed: Iterable[int]) -> list[Step]:
    """``steps`` with casts that are kept in place of those that would be the same but for what an optimizer does.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    inputs : iterable of int
        Buffers that are there before the steps.
    needed : iterable of int
        Buffers that are read after them.
    """
    uses, there = Uses.of(steps, needed), set(inputs)
    result: list[Step] = []
    for position, step in enumerate(steps):
        if not isinstance(step.key[0], CastGroup):
            result.append(step)
            continue
        lasting: list[Step] = []
        others: list[Step] = []
        for cast in step.originals:
            is_lasting = cast.arguments[0].buffer in there and _is_lasting(cast, position, steps, uses)
            (lasting if is_lasting else others).append(cast)
        if not lasting:
            result.append(step)
            continue
        if others:
            result.append(grouped_casts(others) if len(others) > 1 else others[0])
        result.append(_lasting(lasting))
    return result


def _is_lasting(cast: Step, position: int, steps: Sequence[Step], uses: Uses) -> bool:
    """Whether what is cast at ``position`` is a parameter that an optimizer writes once the cast has been read."""
    source, target = cast.arguments[0], cast.result
    writers = uses.writers.get(source.buffer, [])
    readers = uses.readers.get(target.buffer, [])
    return (
        bool(writers)
        and uses.is_passed_on(target.buffer)
        and all(position < each and steps[each].on_host for each in writers)
        and all(each < writers[0] for each in readers)
    )


def _lasting(casts: Sequence[Step]) -> Step:
    sources: list[Ref] = [cast.arguments[0] for cast in casts]
    results: list[Ref] = [cast.result for cast in casts]
    group = CastGroup(
        f"{len(casts)} casts to {results[0].layout.dtype!r}, which the optimizer writes", reads=False
    )
    return replace(
        casts[0],
        key=(group, None),
        run=_CastCache([ref.layout for ref in results], sources[0].layout.dtype),
        arguments=tuple(sources),
        result=results,
        originals=tuple(casts),
    )


class _CastCache:
    """What gives the casts of parameters, which it has of the last call if they are right.

    Parameters
    ----------
    layouts : list of Layout
        Those of the casts.
    source : dtype
        The parameters' dtype.
    """

    def __init__(self, layouts: list[Layout], source: Any) -> None:
        self._layouts = layouts
        self._state: Any = layouts[0].device_state
        self._cast = casting(self._state, layouts, source)
        self._lock = threading.Lock()
        #: The stream that they are right on, what is known of each, and the casts.
        self._last: tuple[Any, list[ParameterCast], list[Tensor]] | None = None

    def __call__(self, *parameters: Tensor) -> list[Tensor]:
        """The casts of ``parameters``."""
        stream, last = self._state.local.stream, self._last
        if (
            last is not None
            and last[0] is stream
            and is_trusted(self._state.runtime)
            and all(map(ParameterCast.is_right, last[1], parameters))
        ):
            return last[2]
        with self._lock:
            if not all(map(can_be_cached, parameters)):
                self._last = None
                return cast_together(parameters, self._layouts[0].dtype)
            targets = last[2] if last is not None and last[0] is stream else list(map(empty, self._layouts))
            self._cast(stream.handle, *[x._address for x in (*targets, *parameters)])
            self._last = stream, register(parameters, targets), targets
            return targets
