"""Any nesting of contexts and settings, with exceptions, against what a simple model says."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drv
from tensor import cuda

DEVICES, STREAMS = 3, 3


@dataclass(frozen=True)
class Current:
    """The current device, and the number of each device's current stream; -1 is the default one."""

    device: int = 0
    streams: tuple[int, ...] = (-1,) * DEVICES

    def on(self, device: int, stream: int) -> Current:
        streams = list(self.streams)
        streams[device] = stream
        return replace(self, device=device, streams=tuple(streams))


@dataclass
class Program:
    """What one thread does: a setting or a context, and what happens inside it."""

    kind: str
    device: int
    stream: int
    fails: bool
    body: list[Program] = field(default_factory=list)


def programs() -> st.SearchStrategy[list[Program]]:
    kinds = st.sampled_from(
        ["set_device", "set_stream", "device", "no device", "stream", "no stream", "with stream"]
    )
    leaf = st.builds(Program, kinds, st.integers(0, DEVICES - 1), st.integers(0, STREAMS - 1), st.just(False))
    return st.recursive(
        st.lists(leaf, max_size=3),
        lambda bodies: st.lists(
            st.builds(
                Program,
                kinds,
                st.integers(0, DEVICES - 1),
                st.integers(0, STREAMS - 1),
                st.booleans(),
                bodies,
            ),
            max_size=3,
        ),
        max_leaves=12,
    )


class BodyError(Exception):
    """Raised inside a context."""


def check(now: Current, streams: list[list[cuda.Stream]]) -> None:
    assert cuda.current_device() == now.device
    for device, number in enumerate(now.streams):
        expected = cuda.default_stream(device) if number < 0 else streams[device][number]
        assert cuda.current_stream(device) == expected


def run(steps: list[Program], now: Current, streams: list[list[cuda.Stream]]) -> Current:
    """Run the steps; returns what is current after them."""
    for step in steps:
        stream = streams[step.device][step.stream]
        if step.kind == "set_device":
            cuda.set_device(step.device)
            now = replace(now, device=step.device)
        elif step.kind == "set_stream":
            cuda.set_stream(stream)
            now = now.on(step.device, step.stream)
        else:
            now = enter(step, stream, now, streams)
        check(now, streams)
    return now


def enter(step: Program, stream: cuda.Stream, now: Current, streams: list[list[cuda.Stream]]) -> Current:
    contexts: dict[str, tuple[Any, Current]] = {
        "device": (cuda.device(step.device), replace(now, device=step.device)),
        "no device": (cuda.device(None), now),
        "stream": (cuda.stream(stream), now.on(step.device, step.stream)),
        "no stream": (cuda.stream(None), now),
        "with stream": (stream, now.on(step.device, step.stream)),
    }
    context, inside = contexts[step.kind]
    try:
        with context:
            check(inside, streams)
            after = run(step.body, inside, streams)
            if step.fails:
                raise BodyError
    except BodyError:
        pass
    if step.kind.startswith("no "):
        return after
    # A device context restores the device; a stream context also the streams of both devices.
    restored = replace(after, device=now.device)
    if step.kind != "device":
        for device in (step.device, now.device):
            restored = replace(restored.on(device, now.streams[device]), device=now.device)
    return restored


@pytest.mark.simulator_only
@settings(max_examples=60)
@given(programs(), programs())
def test_every_thread_finds_what_it_had(first: list[Program], second: list[Program]) -> None:
    with drv.simulator.installed(devices=DEVICES):
        streams = [[cuda.Stream(device) for _ in range(STREAMS)] for device in range(DEVICES)]
        failed: list[BaseException] = []

        def work(steps: list[Program]) -> None:
            try:
                run(steps, Current(), streams)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(steps,)) for steps in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
