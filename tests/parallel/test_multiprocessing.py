"""Tensors between processes: by shared memory, which both write and which nobody leaves behind."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from tensor import Tensor, cuda
from tensor.core.host.shared_memory import SharedBlock, remove_abandoned, sharing
from tensor.utils import shared_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

multiprocessing = tensor.multiprocessing
_LONG = 60.0
SHARED = Path("/dev/shm")


@pytest.fixture(params=shared_tensors.STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    """A way of sharing, which leaves nothing in ``/dev/shm``."""
    before = set(_blocks())
    multiprocessing.set_sharing_strategy(request.param)
    yield request.param
    multiprocessing.set_sharing_strategy("file_descriptor")
    gc.collect()
    assert set(_blocks()) <= before


def _blocks() -> list[str]:
    return [path.name for path in SHARED.glob("graphroot-*")]


def _run(target: Any, *arguments: Any, method: str = "fork") -> Any:
    context = multiprocessing.get_context(method)
    process = context.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def _join(process: Any) -> None:
    process.join(_LONG)
    assert process.exitcode == 0


# In place


def test_memory_moves_with_all_its_views(strategy: str) -> None:
    x = tensor.arange(6.0)
    part, turned = x[2:4], x.view(2, 3).t()
    shown = x.numpy()
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared()
    assert part.is_shared()
    assert x.untyped_storage().is_shared()
    part.fill_(9)
    assert x.tolist() == [0, 1, 9, 9, 4, 5]
    assert turned.tolist() == [[0, 9], [1, 4], [9, 5]]
    # An array from before has the former memory.
    assert shown.tolist() == [0, 1, 2, 3, 4, 5]
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address
    assert x.clone().is_shared() is False
    assert (x @ x).item() == 204
    assert tensor.zeros(0).share_memory_().is_shared() is False


def test_modules_share_parameters_and_buffers() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = module[0].weight
    assert module.share_memory() is module
    assert all(each.is_shared() for each in (*module.parameters(), *module.buffers()))
    assert module[0].weight is weight
    module(tensor.ones(3, 2)).sum().backward()
    assert weight.grad is not None


def test_what_is_not_moved(device: drv.Device) -> None:
    there = tensor.ones(2, device="cuda")
    assert there.is_shared()
    assert there.share_memory_() is there
    pinned = tensor.ones(2).pin_memory()
    with pytest.raises(RuntimeError, match="pinned memory .* share a clone"):
        pinned.share_memory_()
    assert pinned.tolist() == [1, 1]
    cuda.synchronize()


# Through pipes and queues


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_message_of_several_views(strategy: str) -> None:
    here, there = multiprocessing.Pipe()
    x = tensor.arange(6.0)
    here.send({"all": x, "part": x[1:3], "other": tensor.ones(2, requires_grad=True)})
    result = there.recv()
    # In one process it is the very same storage, however often it comes.
    assert result["all"].untyped_storage() is x.untyped_storage()
    assert result["part"].untyped_storage() is x.untyped_storage()
    assert result["part"].storage_offset() == 1
    assert result["other"].requires_grad
    result["part"].zero_()
    assert x.tolist() == [0, 0, 0, 3, 4, 5]
    here.send((tensor.zeros(0), tensor.ones((), dtype=tensor.float8_e5m2), nn.Parameter(tensor.ones(1))))
    empty, number, parameter = there.recv()
    assert empty.shape == (0,)
    assert number.item() == 1
    assert type(parameter) is nn.Parameter
    here.send(x.storage())
    assert there.recv().untyped() is x.untyped_storage()


def _double(inbox: Any, outbox: Any) -> None:
    x, part = inbox.get(timeout=_LONG)
    part.mul_(2)
    outbox.put((x, float(x.sum())))
    made = tensor.full((3,), float(os.getpid()))
    outbox.put(made)
    inbox.get(timeout=_LONG)
    assert made[0].item() == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_both_processes_see_writes(strategy: str, method: str) -> None:
    if (strategy, method) == ("file_system", "spawn"):
        pytest.skip("differs from the others in nothing that is not tested there")
    context = multiprocessing.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = _run(_double, inbox, outbox, method=method)
    x = tensor.arange(4.0)
    inbox.put((x, x[2:]))
    back, total = outbox.get(timeout=_LONG)
    assert total == 11
    assert x.tolist() == [0, 1, 4, 6]
    assert back.untyped_storage() is x.untyped_storage()
    made = outbox.get(timeout=_LONG)
    assert made.tolist() == [process.pid] * 3
    made.zero_()
    inbox.put("done")
    _join(process)


def _add_up(x: Tensor, count: int) -> None:
    for _ in range(count):
        x[0] += 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_arguments_of_processes(method: str) -> None:
    x = tensor.zeros(2).share_memory_() if method == "fork" else tensor.zeros(2)
    _join(_run(_add_up, x, 5, method=method))
    assert x.tolist() == [5, 0]


def _squared(x: Tensor) -> Tensor:
    return x * x


def test_pools() -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(_squared, [tensor.full((2,), float(each)) for each in range(4)])
    assert [each.tolist() for each in results] == [[float(i * i)] * 2 for i in range(4)]


def _send_and_end(messages: Any, strategy: str) -> None:
    multiprocessing.set_sharing_strategy(strategy)
    messages.put(tensor.ones(5))


def _send_and_wait(pipe: Any) -> None:
    pipe.send(tensor.ones(5))
    time.sleep(_LONG)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.sampled(4)
def test_a_sender_that_ends_at_once(strategy: str, method: str) -> None:
    messages = multiprocessing.get_context(method).Queue()
    process = _run(_send_and_end, messages, strategy, method=method)
    if strategy == "file_system":
        process.join(_LONG)
    assert messages.get(timeout=_LONG).tolist() == [1] * 5
    _join(process)


def test_a_sender_that_was_killed() -> None:
    here, there = multiprocessing.Pipe()
    process = _run(_send_and_wait, there)
    assert here.poll(_LONG)
    os.kill(process.pid, signal.SIGKILL)
    process.join(_LONG)
    with pytest.raises(RuntimeError, match="the process that sent it has ended.*'file_system'"):
        here.recv()


def test_named_memory_goes_with_its_last_holder() -> None:
    multiprocessing.set_sharing_strategy("file_system")
    try:
        before = set(_blocks())
        x = tensor.ones(3).share_memory_()
        (name,) = set(_blocks()) - before
        assert name.startswith(f"graphroot-{os.getpid()}-")
        here, there = multiprocessing.Pipe()
        here.send(x)
        # Nobody holds it but the message that is under way.
        del x
        gc.collect()
        assert (SHARED / name).exists()
        y = there.recv()
        assert y.tolist() == [1, 1, 1]
        del y
        gc.collect()
        assert not (SHARED / name).exists()
        with pytest.raises(RuntimeError, match="shared memory .* of a tensor is gone"):
            SharedBlock.open(name, 12)
        with pytest.raises(RuntimeError, match="is no name of shared memory"):
            SharedBlock.open("../passwd", 12)
    finally:
        sharing.strategy = "file_descriptor"


def _hold(pipe: Any, strategy: str) -> None:
    sharing.strategy = strategy
    x = tensor.ones(1000).share_memory_()
    pipe.send(x.is_shared())
    time.sleep(_LONG)


def test_nothing_is_left_of_a_killed_process(strategy: str) -> None:
    before = set(_blocks())
    here, there = multiprocessing.Pipe()
    process = _run(_hold, there, strategy)
    assert here.recv()
    left = set(_blocks()) - before
    assert len(left) == (strategy == "file_system")
    os.kill(process.pid, signal.SIGKILL)
    process.join(_LONG)
    # What has a name goes when the next process looks for such.
    remove_abandoned()
    assert set(_blocks()) <= before


# What is refused


def test_tensors_that_are_not_sent(device: drv.Device) -> None:
    here, there = multiprocessing.Pipe()
    with pytest.raises(RuntimeError, match="tensor on cuda:0 cannot be sent .*: send x.cpu"):
        here.send(tensor.ones(2, device="cuda"))
    x = tensor.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        here.send(x * 2)
    here.send((x * 2).detach())
    assert there.recv().tolist() == [2, 2]
    pinned = tensor.ones(2).pin_memory()
    here.send(pinned)
    assert there.recv().tolist() == [1, 1]
    with pytest.raises(ValueError, match="unknown sharing strategy 'mail'; expected one of file_descriptor"):
        multiprocessing.set_sharing_strategy("mail")
    assert multiprocessing.get_sharing_strategy() == "file_descriptor"
    assert multiprocessing.get_all_sharing_strategies() == {"file_descriptor", "file_system"}


def test_no_memory_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensor.core.host.shared_memory.reserve", lambda *_: False)
    before = _blocks()
    x = tensor.ones(3)
    with pytest.raises(RuntimeError, match="no shared memory left for 12 bytes in /dev/shm: make it larger"):
        x.share_memory_()
    assert not x.is_shared()
    assert x.tolist() == [1, 1, 1]
    assert _blocks() == before
