"""Collectives by way of host memory: on CPU tensors in place, on CUDA tensors through pinned memory."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import tensor
from parallel.backends.host_backend import HostBackend
from parallel.groups.collectives.marshalling import Exchange
from parallel.groups.errors import DistBackendError, DistError
from parallel.groups.reduce_op import ReduceOp
from tests.parallel.simulated import MACHINES, install

from .thread_transport import ThreadWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Elements that a simulated thread block does not cover at once.
SIZE = 1000


@pytest.fixture
def backends() -> Iterator[list[HostBackend]]:
    """A group of three, whose threads are gone at the end."""
    before = set(threading.enumerate())
    result = [HostBackend(each, timedelta(seconds=10)) for each in ThreadWorld(3).transports()]
    yield result
    for each in result:
        each.close()
    assert not set(threading.enumerate()) - before


@pytest.fixture(params=["cpu", *MACHINES])
def device(request: pytest.FixtureRequest) -> str:
    """The CPU, and simulated devices that run what is queued early or late."""
    if request.param == "cpu":
        return "cpu"
    install(**request.param)
    return "cuda"


def _values(device: str, rank: int, size: int = SIZE) -> Any:
    return tensor.arange(size, dtype=tensor.float32, device=device) * (rank + 1)


def _numbers(size: int = SIZE) -> Any:
    return tensor.arange(size, dtype=tensor.float32)


def test_all_reduce(backends: list[HostBackend], device: str) -> None:
    argument = [_values(device, rank) for rank in range(3)]
    works = [each.all_reduce(part, ReduceOp.SUM) for each, part in zip(backends, argument, strict=True)]
    for work, part in zip(works, argument, strict=True):
        assert work.wait()
        assert tensor.equal((part + 1).cpu(), _numbers() * 6 + 1)
        assert work.is_success()
        assert work.result()[0] is part


def test_operations_of_a_group_run_in_order(backends: list[HostBackend], device: str) -> None:
    argument = [_values(device, rank) for rank in range(3)]
    gathered = [tensor.empty(3 * SIZE, device=device) for _ in range(3)]
    works: list[Any] = []
    for rank, backend in enumerate(backends):
        works.append(backend.all_reduce(argument[rank], ReduceOp.MAX))
        works.append(backend.all_gather(gathered[rank], _values(device, rank)))
    for work in works:
        work.wait()
    for rank in range(3):
        assert tensor.equal(argument[rank].cpu(), _numbers() * 3)
        assert tensor.equal(gathered[rank].cpu(), tensor.cat([_numbers() * (each + 1) for each in range(3)]))


def test_reduce_leaves_the_others_alone(backends: list[HostBackend], device: str) -> None:
    argument = [_values(device, rank) for rank in range(3)]
    works = [each.reduce(part, 1, ReduceOp.SUM) for each, part in zip(backends, argument, strict=True)]
    for rank, work in enumerate(works):
        work.wait()
        assert tensor.equal(argument[rank].cpu(), _numbers() * (6 if rank == 1 else rank + 1))


def test_gather_and_scatter(backends: list[HostBackend], device: str) -> None:
    argument = [_values(device, rank) for rank in range(3)]
    flat = tensor.empty(3 * SIZE, device=device)
    works = [each.gather(flat if each.rank == 2 else None, argument[each.rank], 2) for each in backends]
    for work in works:
        work.wait()
    back = [tensor.empty(SIZE, device=device) for _ in range(3)]
    works = [each.scatter(back[each.rank], flat if each.rank == 2 else None, 2) for each in backends]
    for rank, work in enumerate(works):
        work.wait()
        assert tensor.equal(back[rank].cpu(), _numbers() * (rank + 1))


def test_reduce_scatter_and_all_to_all(backends: list[HostBackend], device: str) -> None:
    flat = [_values(device, rank, 9) for rank in range(3)]
    parts = [tensor.empty(3, device=device) for _ in range(3)]
    mixed = [tensor.empty(9, device=device) for _ in range(3)]
    works: list[Any] = []
    for rank, backend in enumerate(backends):
        works.append(backend.reduce_scatter(parts[rank], flat[rank], ReduceOp.SUM))
        # Each rank sends 1, 2 and 6 elements, in turns.
        counts = [(1, 2, 6)[(rank + to) % 3] for to in range(3)]
        works.append(backend.all_to_all(mixed[rank], flat[rank], counts, counts))
    for work in works:
        work.wait()
    assert tensor.equal(tensor.cat(parts).cpu(), _numbers(9) * 6)
    assert mixed[0].tolist() == [0, 0, 2, *[3.0 * each for each in range(6)]]


def test_send_and_recv_wait_for_neither(backends: list[HostBackend], device: str) -> None:
    first, second = backends[:2]
    ours, theirs = _values(device, 0), _values(device, 1)
    got = [tensor.empty(SIZE, device=device) for _ in range(3)]
    works = [
        first.send(ours, 1, 7),
        second.send(theirs, 0, 0),
        first.send(theirs, 1, 8),
        # The tags in another order.
        second.recv(got[0], 0, 8),
        second.recv(got[1], None, 7),
        first.recv(got[2], None, 0),
    ]
    for work in works:
        work.wait()
    assert works[4].source_rank() == 0
    assert works[5].source_rank() == 1
    assert tensor.equal(got[0].cpu(), _numbers() * 2)
    assert tensor.equal(got[1].cpu(), _numbers())
    assert tensor.equal(got[2].cpu(), _numbers() * 2)
    with pytest.raises(DistError, match=r"recv"):
        works[0].source_rank()


@pytest.mark.parametrize("machine", MACHINES)
def test_streams_order_what_comes_before_and_after(
    backends: list[HostBackend], machine: dict[str, Any]
) -> None:
    install(**machine)
    sides = [tensor.cuda.Stream() for _ in range(3)]
    argument, works = [], []
    for backend, side in zip(backends, sides, strict=True):
        with tensor.cuda.stream(side):
            argument.append(_values("cuda", backend.rank))
            argument[-1].mul_(2)
            works.append(backend.all_reduce(argument[-1], ReduceOp.SUM))
    for part, side, work in zip(argument, sides, works, strict=True):
        with tensor.cuda.stream(side):
            work.wait()
            result = part + 1
        side.synchronize()
        assert tensor.equal(result.cpu(), _numbers() * 12 + 1)


def test_memory_freed_before_its_copies_is_not_reused(backends: list[HostBackend]) -> None:
    install(schedule="lazy")
    for _ in range(3):
        works = []
        for backend in backends:
            flat = tensor.empty(3 * SIZE, device="cuda")
            works.append(backend.all_gather(flat, _values("cuda", backend.rank)))
            del flat
            tensor.zeros(SIZE, device="cuda")
        for work in works:
            work.wait()
            assert work.result()[0].sum().item() == float(_numbers().sum().item()) * 6


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("strided", [False, True])
def test_memory_freed_before_it_is_filled_is_not_reused(
    backends: list[HostBackend], machine: dict[str, Any], strided: bool
) -> None:
    install(**machine)
    for _ in range(3):
        works = []
        for backend in backends:
            flat = tensor.zeros((SIZE, 2), device="cuda")
            exchange = Exchange()
            argument = exchange.updated(flat[:, 1] if strided else flat)
            works.append(exchange.finish(backend.all_reduce(argument, ReduceOp.SUM), True))
            del flat, argument, exchange
        # Nobody waits, so that no stream does.
        while not all(each is not None and each.is_settled() for each in works):
            time.sleep(0.001)
        works.clear()
        for _ in range(3):
            assert tensor.ones((SIZE, 2), device="cuda").sum().item() == 2 * SIZE


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_received_comes_after_what_was_queued(
    backends: list[HostBackend], machine: dict[str, Any]
) -> None:
    install(**machine)
    busy = tensor.full((SIZE,), 1.0, device="cuda")
    for _ in range(3):
        busy.mul_(2)
    received = backends[0].recv(busy, 1, 0)
    sent = backends[1].send(tensor.full((SIZE,), 5.0), 0, 0)
    received.wait()
    sent.wait()
    assert busy.tolist() == [5.0] * SIZE


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_the_host_goes_on(backends: list[HostBackend], schedule: str) -> None:
    install(schedule=schedule)
    part = _values("cuda", 0)
    # Nobody else has come, so that the operation cannot be done.
    work = backends[0].all_reduce(part, ReduceOp.SUM)
    assert not work.is_completed()
    for backend in backends[1:]:
        backend.all_reduce(_values("cuda", backend.rank), ReduceOp.SUM)
    work.wait()
    assert tensor.equal(part.cpu(), _numbers() * 6)


def test_several_devices() -> None:
    install(devices=2)
    result = [HostBackend(each, timedelta(seconds=10)) for each in ThreadWorld(2).transports()]
    argument = [_values(f"cuda:{rank}", rank) for rank in range(2)]
    works = [each.all_reduce(part, ReduceOp.SUM) for each, part in zip(result, argument, strict=True)]
    for work, part in zip(works, argument, strict=True):
        work.wait()
        assert tensor.equal(part.cpu(), _numbers() * 3)
    for each in result:
        each.close()


def test_an_operation_that_is_not_called_everywhere_fails_in_time() -> None:
    backend = HostBackend(ThreadWorld(2).transports()[0], timedelta(seconds=0.2))
    part = _values("cpu", 0)
    work = backend.all_reduce(part, ReduceOp.SUM)
    with pytest.raises(DistBackendError, match="Operation timed out"):
        work.wait(timedelta(seconds=0.01))
    with pytest.raises(DistBackendError, match=r"waits for ranks \[1\]"):
        work.wait()
    assert work.is_completed()
    assert not work.is_success()
    assert isinstance(work.exception(), DistBackendError)
    assert tensor.equal(part, _values("cpu", 0))
    backend.close()
    with pytest.raises(DistBackendError, match="destroyed"):
        backend.barrier()


def test_abort_fails_what_is_queued() -> None:
    backend = HostBackend(ThreadWorld(2).transports()[0], timedelta(seconds=60))
    works = [backend.barrier(), backend.barrier(), backend.recv(_values("cpu", 0), 1, 0)]
    backend.abort()
    for work in works:
        with pytest.raises(DistBackendError, match=r"gone|abort"):
            work.wait()
    backend.close()


def test_an_operation_is_a_write(backends: list[HostBackend]) -> None:
    leaf = tensor.ones(3, requires_grad=True)
    part = leaf * 1
    product = part * part
    works = [backends[0].all_reduce(part, ReduceOp.SUM)]
    works += [each.all_reduce(tensor.ones(3), ReduceOp.SUM) for each in backends[1:]]
    for work in works:
        work.wait()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_callbacks_run_once_and_their_errors_end_nothing(backends: list[HostBackend]) -> None:
    seen: list[str] = []

    def barrier() -> list[Any]:
        return [each.barrier() for each in backends]

    first = barrier()
    future = first[0].get_future().then(lambda done: seen.append("asked") or done.value())
    future.wait()
    future.wait()
    assert seen == ["asked"]
    # Nobody waits for this one.
    done = threading.Event()
    second = barrier()
    second[0].get_future().then(lambda _: done.set())
    assert done.wait(10)
    third = barrier()
    third[0].get_future().add_done_callback(lambda _: seen.append("called"))
    for work in third:
        work.wait()
    for work in barrier():
        work.wait()
    assert seen == ["asked", "called"]


def test_a_callback_cannot_wait_for_its_own_thread(backends: list[HostBackend]) -> None:
    error: list[BaseException] = []
    done = threading.Event()
    held = backends[0].barrier()

    def wait_for_the_next(_: Any) -> None:
        try:
            later.wait()
        except DistError as result:
            error.append(result)
        done.set()

    later = backends[0].barrier()
    held.get_future().add_done_callback(wait_for_the_next)
    for each in backends[1:]:
        each.barrier()
        each.barrier()
    assert done.wait(10)
    assert "a callback waits" in str(error[0])
    later.wait()


def test_from_several_threads(backends: list[HostBackend]) -> None:
    """Each thread has its tag; the order between threads is free."""
    failures: list[BaseException] = []

    def rank(backend: HostBackend, tag: int) -> None:
        try:
            for count in range(10):
                part = tensor.full((5,), float(count + 100 * tag))
                other = tensor.empty(5)
                peer = 1 - backend.rank
                works = [backend.send(part, peer, tag), backend.recv(other, peer, tag)]
                for work in works:
                    work.wait()
                assert tensor.equal(part, other)
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=rank, args=(backend, tag)) for backend in backends[:2] for tag in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


def _dtypes() -> list[Any]:
    names = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"]
    return [getattr(tensor, each) for each in names]


@pytest.mark.parametrize("dtype", _dtypes(), ids=str)
def test_dtypes(backends: list[HostBackend], dtype: Any) -> None:
    argument = [tensor.arange(10).to(dtype) * (rank + 1) for rank in range(3)]
    works: list[Any] = [
        each.all_reduce(part, ReduceOp.SUM) for each, part in zip(backends, argument, strict=True)
    ]
    for work, part in zip(works, argument, strict=True):
        work.wait()
        assert part.dtype is dtype
        assert part.tolist() == (tensor.arange(10) * 6).tolist()
