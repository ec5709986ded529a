from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from .machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_with_their_own_streams(any_schedule: MachineMaker) -> None:
    machine = any_schedule(devices=2)

    def work(number: int) -> None:
        machine.use(number % 2)
        stream = machine.stream()
        memory = machine.device_memory(256)
        for step in range(30):
            machine.cuMemsetD8Async(memory, (number + step) % 256, 256, stream)
            back = np.zeros(256, np.uint8)
            machine.cuMemcpyDtoHAsync(back, memory, 256, stream)
            assert (back == (number + step) % 256).all()
        machine.cuStreamDestroy(stream)
        machine.cuMemFree(memory)

    in_threads(8, work)
    machine.cuCtxSynchronize()


def test_a_pipeline_between_threads(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    event, recorded = machine.event(), threading.Event()

    def work(number: int) -> None:
        machine.use(0)
        stream = machine.stream()
        if number == 0:
            for step in range(20):
                machine.mark(stream, step)
            machine.cuEventRecord(event, stream)
            recorded.set()
        else:
            recorded.wait()
            machine.cuStreamWaitEvent(stream, event, 0)
            machine.mark(stream, f"after {number}")
            machine.cuStreamSynchronize(stream)

    in_threads(4, work)
    assert machine.log[:20] == list(range(20))
    assert sorted(machine.log[20:]) == ["after 1", "after 2", "after 3"]


def test_the_per_thread_stream_is_one_per_thread(lazy: Machine) -> None:
    lazy.mark(2, "main")

    def work(number: int) -> None:
        lazy.use(0)
        lazy.mark(2, "thread")
        lazy.cuStreamSynchronize(2)

    in_threads(1, work)
    assert lazy.log == ["thread"]
