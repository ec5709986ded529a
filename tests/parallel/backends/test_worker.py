"""Operations of a worker run one after another, also where a thread that waits runs one itself."""

from __future__ import annotations

import threading

import pytest

from parallel.backends.worker import Worker
from parallel.groups.works import Work


def test_a_thread_that_begins_late_waits_for_who_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start
    late: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", lambda thread: late.append(thread))
    worker = Worker("late")
    events: list[str] = []
    second_began = threading.Event()

    def first() -> None:
        # The worker's thread begins while the caller carries out the first operation.
        begin(late.pop())
        assert not second_began.wait(0.2)
        events.append("first")

    def second() -> None:
        second_began.set()
        events.append("second")

    works = [Work("first"), Work("second")]
    for work, run in zip(works, (first, second), strict=True):
        worker.submit(work, run)
    for work in works:
        work.wait()
    worker.close()
    assert events == ["first", "second"]
