"""The threads that share work on the host."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from drv.host import threads as host_threads


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool of its own for each test, of as many threads on every machine."""
    monkeypatch.setattr(host_threads, "thread_count", lambda: 3)
    monkeypatch.setattr(host_threads, "_threads", host_threads._Threads())


def test_every_piece_is_done_once() -> None:
    for pieces in (0, 1, 2, 3, 50):
        done: list[int] = []
        host_threads.share(done.append, pieces)
        assert sorted(done) == list(range(pieces))


def test_several_threads_work_at_once() -> None:
    meeting = threading.Barrier(3)
    host_threads.share(lambda _: (meeting.wait(10), None)[1], 3)


def test_what_a_piece_raises() -> None:
    def work(piece: int) -> None:
        if piece == 7:
            raise ValueError("piece 7")

    with pytest.raises(ValueError, match="piece 7"):
        host_threads.share(work, 20)


def test_pieces_that_share_work_themselves() -> None:
    done: list[int] = []
    with ThreadPoolExecutor(4) as several:
        for _ in several.map(
            lambda _: host_threads.share(lambda _: host_threads.share(done.append, 5), 4), range(8)
        ):
            pass
    assert len(done) == 160


def test_one_piece_starts_no_thread() -> None:
    host_threads.share(lambda _: None, 1)
    assert host_threads._threads.pool is None


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_starts_its_own() -> None:
    host_threads.share(lambda _: None, 4)
    child = os.fork()
    if not child:
        done: list[int] = []
        try:
            host_threads.share(done.append, 4)
        finally:
            os._exit(0 if sorted(done) == [0, 1, 2, 3] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_environment_limits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    for argument, expected in (("", 8), ("3", 3), ("100", 8), ("0", 8), ("2,1", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", argument)
        assert host_threads.thread_count() == expected


def test_the_number_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(host_threads._Chosen, "count", None)
    monkeypatch.setattr(host_threads, "_threads", host_threads._Threads())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for count in (3, 1, 5):
        host_threads.set_thread_count(count)
        assert host_threads.thread_count() == count
        meeting = threading.Barrier(count)
        host_threads.share(lambda _, meeting=meeting: (meeting.wait(10), None)[1], count)


def test_threads_of_an_earlier_number_end() -> None:
    host_threads.share(lambda _: None, 3)
    pool = host_threads._threads.pool
    assert pool is not None
    workers = list(pool._threads)
    host_threads.set_thread_count(2)
    del pool
    for worker in workers:
        worker.join(10)
        assert not worker.is_alive()
    host_threads._Chosen.count = None
