"""Ctrl-C or an alarm at any moment of a call that waits: what was queued gives the right numbers, no memory is lost, nothing is written
to memory of the host that the call no longer owns.
"""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from drv.host.interrupts import PAUSE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

pytestmark = pytest.mark.simulator_only

N = 64
#: What waits, for a tensor on the device, one of the host, and an event behind what was queued.
WAITING: dict[str, Callable[[Any, Any, Any], object]] = {
    "cpu": lambda x, host, event: x.cpu(),
    "item": lambda x, host, event: x[3].item(),
    "tolist": lambda x, host, event: x.tolist(),
    "bool": lambda x, host, event: bool(x[1]),
    "copy_ to the host": lambda x, host, event: host.copy_(x),
    "copy_ from the host": lambda x, host, event: x.copy_(host),
    "nonzero": lambda x, host, event: x.nonzero(),
    "text": lambda x, host, event: str(x),
    "synchronize": lambda x, host, event: tensor.cuda.synchronize(),
    "stream": lambda x, host, event: tensor.cuda.current_stream().synchronize(),
    "event": lambda x, host, event: event.synchronize(),
    "empty_cache": lambda x, host, event: tensor.cuda.empty_cache(),
}


def _interrupted(call: Callable[[], object], moment: int, number: int = signal.SIGINT) -> bool:
    """Send a signal at the ``moment``-th Python call inside the driver layer; whether there were as many.

    It is Ctrl-C, or one whose handler raises TimeoutError.
    """
    count = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        if event == "call" and "/drv/" in frame.f_code.co_filename:
            count += 1
            if count == moment:
                sys.setprofile(None)
                signal.raise_signal(number)

    before = sys.getprofile()
    try:
        sys.setprofile(profile)
        call()
        sys.setprofile(None)
        if count >= moment:
            # What was held back comes again, as soon as the machine has a processor for it.
            time.sleep(1000 * PAUSE)
            pytest.fail(f"the signal at call {moment} was lost")
    except (KeyboardInterrupt, TimeoutError):
        pass
    finally:
        sys.setprofile(before)
    return count >= moment


def _check(form: str, schedule: str, step: int, number: int = signal.SIGINT) -> None:
    drv.simulator.install(schedule=schedule, seed=3, check="full", memory="256MiB")
    x, host = tensor.empty(N, device="cuda"), tensor.empty(N)
    source, event = tensor.arange(float(N)).pin_memory(), tensor.cuda.Event()
    expected = tensor.arange(float(N))

    def queue() -> None:
        host.copy_(expected)
        x.copy_(source, non_blocking=True)
        x.mul_(2).div_(2)
        event.record()

    for _ in range(2):
        queue()
        WAITING[form](x, host, event)
    allocated, moment = tensor.cuda.memory_allocated(), 1
    while True:
        queue()
        reached = _interrupted(lambda: WAITING[form](x, host, event), moment, number)
        # The program uses its memory for something else.
        host.fill_(-1)
        tensor.cuda.synchronize()
        assert (host == -1).all(), f"interrupted at call {moment}"
        assert tensor.equal(x.cpu(), expected), f"interrupted at call {moment}: {x.tolist()}"
        assert tensor.cuda.memory_allocated() == allocated, f"interrupted at call {moment}"
        if not reached:
            return
        moment += step


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("form", WAITING)
@pytest.mark.sampled(4)
def test_interrupted_waits(form: str, schedule: str) -> None:
    _check(form, schedule, 61)


def _late(*_: object) -> None:
    raise TimeoutError


# Those that free no memory of the device: nothing holds an alarm back in an allocator or a finalizer.
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("form", ["cpu", "copy_ to the host", "copy_ from the host", "synchronize", "event"])
def test_an_alarm_in_a_wait(form: str, schedule: str) -> None:
    before = signal.signal(signal.SIGALRM, _late)
    try:
        _check(form, schedule, 61, signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.nightly
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("form", WAITING)
def test_interrupted_waits_at_every_call(form: str, schedule: str) -> None:
    _check(form, schedule, 1)
