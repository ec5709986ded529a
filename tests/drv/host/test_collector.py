"""Pauses of the cyclic collector may overlap, and leave it as it was."""

from __future__ import annotations

import gc

import pytest

from drv.host import collector


def test_no_collection_runs_in_a_pause() -> None:
    collections: list[str] = []
    note = lambda phase, info: collections.append(phase)  # noqa: E731
    gc.callbacks.append(note)
    try:
        with collector.paused():
            objects = [[position] for position in range(3000)]
            assert not collections
        objects += [[position] for position in range(3000)]
        assert collections
    finally:
        gc.callbacks.remove(note)


def test_the_last_pause_that_ends_turns_it_on() -> None:
    assert gc.isenabled()
    collector.pause()
    collector.pause()
    collector.resume()
    assert not gc.isenabled()
    collector.resume()
    assert gc.isenabled()


def test_a_pause_ends_with_an_exception() -> None:
    with pytest.raises(KeyError), collector.paused():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with collector.paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
