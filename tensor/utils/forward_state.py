"""What a function depends on besides its arguments, noted so that it can run again as it did.

Random numbers, current streams, the current device and autocast are known here. What else has state for each
thread registers a function that notes it::

    def note():
        enabled = is_enabled()
        return lambda: set_enabled_inside_with(enabled)

    register("name", note)
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import drv
from tensor.core.devices.current import restore
from tensor.core.devices.state import cuda_state
from tensor.core.modes import autocast
from tensor.operations.random.generator import default_generator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: Gives a context manager inside which the state is as it was noted.
    Noted = Callable[[], contextlib.AbstractContextManager[Any]]

_notes: dict[str, Callable[[], Noted]] = {}


def register(name: str, note: Callable[[], Noted]) -> None:
    """Have ``note()`` called where state is noted; what it gives makes context managers that put it back.

    A second function of the same ``name`` replaces the first.
    """
    _notes[name] = note


def note(*, random: bool = True) -> Noted:
    """Note the state of this thread, and of the default generators where ``random`` is true."""
    states = [_streams(), *(each() for each in _notes.values())]
    if random:
        states.append(_generators())

    @contextlib.contextmanager
    def noted() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for state in states:
                stack.enter_context(state())
            yield

    return noted


def _streams() -> Noted:
    """The current device, and the current stream of each."""
    if not drv.is_initialized():
        return contextlib.nullcontext
    runtime = drv.runtime()
    selected = runtime.current.selected
    streams = [cuda_state(ordinal).local.stream for ordinal in range(drv.device_count())]

    @contextlib.contextmanager
    def noted() -> Iterator[None]:
        before = [stream.device_state.local.stream for stream in streams]
        device = runtime.current.selected
        restore(runtime, selected)
        for stream in streams:
            stream.device_state.local.stream = stream
        try:
            yield
        finally:
            for stream in before:
                stream.device_state.local.stream = stream
            restore(runtime, device)

    return noted


def _generators() -> Noted:
    """The default generators of all devices."""
    known = drv.is_initialized()
    states = [generator.state_bytes() for generator in _default_generators()]

    @contextlib.contextmanager
    def noted() -> Iterator[None]:
        if drv.is_initialized() and not known:
            raise RuntimeError(
                "CUDA was used for the first time inside a function that has to run again, so that the states of its "
                "generators before are not known: call tensor.cuda.init() earlier, or pass preserve_rng_state=False"
            )
        generators = _default_generators()
        before = [generator.state_bytes() for generator in generators]
        for generator, state in zip(generators, states, strict=True):
            generator.set_state_bytes(state)
        try:
            yield
        finally:
            for generator, state in zip(generators, before, strict=True):
                generator.set_state_bytes(state)

    return noted


def _default_generators() -> list[Any]:
    ordinals = range(drv.device_count()) if drv.is_initialized() else ()
    return [default_generator(), *map(default_generator, ordinals)]


register("autocast", autocast.note)
