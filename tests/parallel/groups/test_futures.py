"""Futures: values that come later, from hooks and from works."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tensor
from parallel import (
    Future,
    HashStore,
    all_reduce,
    collect_all,
    destroy_process_group,
    init_process_group,
    wait_all,
)
from tests.parallel.simulated import MACHINES, install


def test_a_value() -> None:
    future: Future[int] = Future()
    seen: list[int] = []
    future.add_done_callback(lambda done: seen.append(done.value()))
    chained = future.then(lambda done: done.value() + 1).then(lambda done: done.value() * 10)
    assert not future.done()
    assert not chained.done()
    with pytest.raises(RuntimeError, match="not there yet"):
        future.value()
    future.set_result(1)
    assert seen == [1]
    assert (future.wait(), future.value(), chained.done(), chained.wait()) == (1, 1, True, 20)
    future.add_done_callback(lambda done: seen.append(2))
    assert seen == [1, 2]
    with pytest.raises(RuntimeError, match="only once"):
        future.set_result(2)


def test_an_error() -> None:
    future: Future[int] = Future()
    chained = future.then(lambda done: done.value())
    future.set_exception(ValueError("the reason"))
    assert future.done()
    for each in (future, chained):
        with pytest.raises(ValueError, match="the reason"):
            each.wait()
    with pytest.raises(TypeError, match="not an Exception"):
        Future().set_exception(3)  # type: ignore[arg-type]
    # The callback is given the future, and may know better.
    assert future.then(lambda done: 5).wait() == 5


def test_a_callback_is_called_once_whoever_asks() -> None:
    future: Future[int] = Future()
    calls: list[str] = []
    kept = future.then(lambda _: calls.append("kept"))
    kept.add_done_callback(lambda _: calls.append("after"))
    # Nobody can ask for this one.
    future.then(lambda _: calls.append("dropped"))
    future.set_result(1)
    kept.wait()
    assert sorted(calls) == ["after", "dropped", "kept"]
    assert calls.index("kept") < calls.index("after")


def test_several() -> None:
    futures: list[Future[int]] = [Future(), Future()]
    every = collect_all(futures)
    seen: list[int] = []
    every.add_done_callback(lambda done: seen.append(len(done.wait())))
    futures[1].set_result(2)
    assert not every.done()
    assert seen == []
    threading.Timer(0.05, futures[0].set_result, (1,)).start()
    assert [each.value() for each in every.wait()] == [1, 2]
    assert every.done()
    assert wait_all(futures) == [1, 2]
    assert collect_all([]).wait() == []
    assert collect_all([]).done()
    for _ in range(100):
        if seen:
            break
        threading.Event().wait(0.01)
    assert seen == [2]


@pytest.mark.parametrize("machine", MACHINES)
def test_streams_wait_for_a_value(machine: dict[str, Any]) -> None:
    install(**machine)
    future: Future[Any] = Future()
    doubled = future.then(lambda done: {"x": done.value()[0] * 2})
    with tensor.cuda.stream(tensor.cuda.Stream()):
        x = tensor.full((1000,), 3.0, device="cuda")
        x.mul_(2)
        future.set_result([x])
        del x
    with tensor.cuda.stream(tensor.cuda.Stream()):
        result = doubled.wait()["x"]
    del future, doubled
    tensor.cuda.synchronize()
    assert result.tolist() == [12.0] * 1000


@pytest.mark.parametrize("machine", MACHINES)
def test_the_future_of_a_work(machine: dict[str, Any]) -> None:
    install(**machine)
    init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    x = tensor.full((100,), 3.0, device="cuda")
    work = all_reduce(x, async_op=True)
    assert work is not None
    # A callback may itself wait for operations of the group.
    future = work.get_future().then(lambda done: all_reduce(done.value()[0], async_op=True).result())  # type: ignore[union-attr]
    (result,) = future.wait()
    assert result is x
    assert (x + 1).tolist() == [4.0] * 100
    destroy_process_group()
