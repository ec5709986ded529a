"""``NcclBackend`` on simulated devices, with a stand-in for NCCL; ranks are threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import drv
import tensor
from parallel.backends.nccl.backend import NcclBackend
from parallel.groups.errors import DistBackendError
from parallel.groups.reduce_op import ReduceOp
from parallel.groups.stores.store import HashStore
from tests.parallel.threads import together
from tests.tensor.driver_calls import counted

from .fake_nccl import FakeNccl
from .test_nccl_on_devices import every_operation

pytestmark = pytest.mark.simulator_only


class Ranks:
    """Backends of several ranks, one for each simulated device, and threads that use them."""

    def __init__(self, size: int, timeout: float = 20.0, **options: Any) -> None:
        drv.simulator.install(devices=size, **{"check": "race", **options})
        self.runtime = drv.runtime()
        self.library: FakeNccl = self.runtime.cache(("library", "nccl"), lambda: FakeNccl(self.runtime))
        self.size = size
        store = HashStore()
        self.backends = [
            NcclBackend(store, rank, size, tensor.device("cuda", rank), timedelta(seconds=timeout))
            for rank in range(size)
        ]

    def run(self, function: Callable[[int, NcclBackend], Any], *, close: bool = True) -> list[Any]:
        """``function(rank, backend)`` in a thread for each rank; the first error is raised."""

        def call(rank: int) -> Any:
            tensor.cuda.set_device(rank)
            result = function(rank, self.backends[rank])
            if close:
                self.backends[rank].close()
            return result

        return together(call, self.size)

    def names(self, rank: int) -> list[str]:
        """What the rank called, but the start and the end of communicators."""
        return [name for by, name in self.library.calls if by == rank and not name.startswith("ncclComm")]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    deadline = time.monotonic() + 5
    while any(thread.name.startswith("NCCL") for thread in threading.enumerate()):
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.01)


def _numbers(rank: int, *shape: int, dtype: tensor.dtype = tensor.float32) -> tensor.Tensor:
    count = tensor.Size(shape).numel()
    return (tensor.arange(count, device="cuda").reshape(shape) + 10 * rank).to(dtype)


def _collectives(rank: int, backend: NcclBackend) -> dict[str, Any]:
    size = backend.size
    result: dict[str, Any] = {}
    for op in (ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.AVG):
        summed = _numbers(rank, 2, 3)
        backend.all_reduce(summed, op).wait()
        result[op.name] = summed.tolist()
    reduced = _numbers(rank, 3)
    backend.reduce(reduced, 1, ReduceOp.SUM).wait()
    result["reduce"] = reduced.tolist()
    sent = _numbers(rank, 3)
    backend.broadcast(sent, 1).wait()
    result["broadcast"] = sent.tolist()
    gathered = tensor.empty(size, 2, device="cuda")
    backend.all_gather(gathered, _numbers(rank, 2)).wait()
    result["all_gather"] = gathered.tolist()
    part = tensor.empty(2, device="cuda")
    backend.reduce_scatter(part, _numbers(rank, size, 2), ReduceOp.SUM).wait()
    result["reduce_scatter"] = part.tolist()
    together = tensor.empty(size, 2, device="cuda") if rank == 1 else None
    backend.gather(together, _numbers(rank, 2), 1).wait()
    result["gather"] = None if together is None else together.tolist()
    parts = _numbers(rank, size, 2) if rank == 1 else None
    backend.scatter(part, parts, 1).wait()
    result["scatter"] = part.tolist()
    # Rank r sends r + s elements to rank s.
    counts = [rank + other for other in range(size)]
    received = tensor.empty(sum(counts), device="cuda")
    backend.all_to_all(received, _numbers(rank, sum(counts)), counts, counts).wait()
    result["all_to_all"] = received.tolist()
    backend.barrier().wait()
    return result


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_collectives(schedule: str) -> None:
    ranks = Ranks(3, schedule=schedule)
    results = ranks.run(_collectives)
    base = [[0, 1, 2], [3, 4, 5]]
    for rank, result in enumerate(results):
        assert result["SUM"] == result["SUM"] == [[3 * x + 30 for x in row] for row in base]
        assert result["PRODUCT"] == [[x * (x + 10) * (x + 20) for x in row] for row in base]
        assert result["MIN"] == base
        assert result["MAX"] == [[x + 20 for x in row] for row in base]
        assert result["AVG"] == [[x + 10 for x in row] for row in base]
        assert result["reduce"] == ([30, 33, 36] if rank == 1 else [10 * rank + x for x in range(3)])
        assert result["broadcast"] == [10, 11, 12]
        assert result["all_gather"] == [[0, 1], [10, 11], [20, 21]]
        assert result["reduce_scatter"] == [30 + 6 * rank, 33 + 6 * rank]
        assert result["gather"] == ([[0, 1], [10, 11], [20, 21]] if rank == 1 else None)
        assert result["scatter"] == [10 + 2 * rank, 11 + 2 * rank]
        expected = []
        for other in range(3):
            start = 10 * other + sum(other + to for to in range(rank))
            expected += list(range(start, start + other + rank))
        assert result["all_to_all"] == expected
    assert ranks.library.violations == []
    assert ranks.names(0) == [
        *["ncclAllReduce"] * 5,
        "ncclReduce",
        "ncclBroadcast",
        "ncclAllGather",
        "ncclReduceScatter",
        "ncclSend",
        "ncclRecv",
        *["ncclSend", "ncclRecv"] * 2,
        "ncclAllReduce",
    ]
    ends = [name for by, name in ranks.library.calls if by == 0][-2:]
    assert ends == ["ncclCommFinalize", "ncclCommDestroy"]


_TYPED = [
    (tensor.uint8, ReduceOp.SUM),
    (tensor.int8, ReduceOp.MIN),
    (tensor.int16, ReduceOp.SUM),
    (tensor.int16, ReduceOp.PRODUCT),
    (tensor.int32, ReduceOp.MAX),
    (tensor.int64, ReduceOp.SUM),
    (tensor.float16, ReduceOp.AVG),
    (tensor.bfloat16, ReduceOp.SUM),
    (tensor.float64, ReduceOp.AVG),
    (tensor.complex64, ReduceOp.AVG),
    (tensor.complex128, ReduceOp.SUM),
    (tensor.bool, ReduceOp.SUM),
    (tensor.bool, ReduceOp.BAND),
    (tensor.bool, ReduceOp.PRODUCT),
    (tensor.bool, ReduceOp.BOR),
]


def _of_type(rank: int, dtype: tensor.dtype, count: int = 6) -> tensor.Tensor:
    values = tensor.arange(count) + 3 * rank
    if dtype is tensor.bool:
        return (values % 3 == rank).clone()
    if dtype.is_complex:
        return tensor.complex(values.double(), values.double() * 2 - 1).to(dtype)
    if dtype is tensor.int16:
        return (values * 5000).to(dtype)
    return values.to(dtype)


def _combined(op: ReduceOp, first: tensor.Tensor, second: tensor.Tensor) -> tensor.Tensor:
    if first.dtype is tensor.bool:
        return first & second if op in (ReduceOp.BAND, ReduceOp.PRODUCT) else first | second
    if op is ReduceOp.PRODUCT:
        return first * second
    if op in (ReduceOp.MIN, ReduceOp.MAX):
        return (tensor.minimum if op is ReduceOp.MIN else tensor.maximum)(first, second)
    return (first + second) / 2 if op is ReduceOp.AVG else first + second


def test_types() -> None:
    ranks = Ranks(2)

    def use(rank: int, backend: NcclBackend) -> None:
        for dtype, op in _TYPED:
            expected = _combined(op, _of_type(0, dtype), _of_type(1, dtype))
            argument = _of_type(rank, dtype).cuda()
            version = argument._version
            backend.all_reduce(argument, op).wait()
            assert argument._version > version
            assert argument.dtype is dtype
            assert argument.tolist() == expected.tolist(), (dtype, op)
            part = tensor.zeros(3, dtype=dtype, device="cuda")
            backend.reduce_scatter(part, _of_type(rank, dtype).cuda(), op).wait()
            assert part.tolist() == expected[3 * rank : 3 * rank + 3].tolist(), (dtype, op)
            argument = _of_type(rank, dtype).cuda()
            backend.reduce(argument, 0, op).wait()
            assert argument.tolist() == (_of_type(1, dtype) if rank else expected).tolist(), (dtype, op)
            whole = tensor.zeros(12, dtype=dtype, device="cuda")
            backend.all_gather(whole, _of_type(rank, dtype).cuda()).wait()
            assert whole.tolist() == [*_of_type(0, dtype).tolist(), *_of_type(1, dtype).tolist()]

    ranks.run(use)
    assert ranks.library.violations == []


def test_what_gpus_are_tested_with() -> None:
    ranks = Ranks(2, schedule="random")
    ranks.run(lambda rank, backend: every_operation(rank, 2, backend))
    assert ranks.library.violations == []


def test_what_nccl_cannot_combine_is_refused() -> None:
    ranks = Ranks(1)
    backend = ranks.backends[0]
    for op, dtype in [
        (ReduceOp.BAND, tensor.int32),
        (ReduceOp.BXOR, tensor.bool),
        (ReduceOp.AVG, tensor.bool),
        (ReduceOp.AVG, tensor.int64),
        (ReduceOp.PRODUCT, tensor.complex64),
        (ReduceOp.MAX, tensor.complex128),
    ]:
        argument = tensor.zeros(2, dtype=dtype, device="cuda")
        with pytest.raises(
            ValueError, match=rf"all_reduce: Cannot use ReduceOp.{op.name} with NCCL on .*gloo"
        ):
            backend.all_reduce(argument, op)
    with pytest.raises(ValueError, match="all_reduce: No backend type associated with device type cpu"):
        backend.all_reduce(tensor.zeros(2), ReduceOp.SUM)
    with pytest.raises(ValueError, match="cannot receive from any rank"):
        backend.recv(tensor.zeros(2, device="cuda"), None, 0)
    with pytest.raises(ValueError, match="cannot send to itself"):
        backend.send(tensor.zeros(2, device="cuda"), 0, 0)
    with pytest.raises(ValueError, match="NCCL works on CUDA devices, and the process group was given cpu"):
        NcclBackend(HashStore(), 0, 1, "cpu", timedelta(seconds=1))
    assert ranks.library.calls == []
    backend.close()


def test_the_device_is_that_of_the_first_tensor() -> None:
    ranks = Ranks(2)
    backend = NcclBackend(HashStore(), 0, 1, None, timedelta(seconds=5))
    backend.all_reduce(tensor.zeros(2, device="cuda:1"), ReduceOp.SUM).wait()
    with pytest.raises(
        ValueError, match="broadcast: the process group's tensors are on cuda:1, and one is on cuda:0"
    ):
        backend.broadcast(tensor.zeros(2, device="cuda:0"), 0)
    backend.barrier().wait()
    backend.close()
    assert ranks.library.violations == []


def test_simulated_devices_have_no_nccl() -> None:
    drv.simulator.install()
    with pytest.raises(drv.NotSupportedError, match="use the backend 'gloo'"):
        NcclBackend(HashStore(), 0, 1, None, timedelta(seconds=1))


def test_messages() -> None:
    ranks = Ranks(3)

    def use(rank: int, backend: NcclBackend) -> Any:
        argument = _numbers(rank, 4)
        empty = tensor.empty(4, device="cuda")
        # Rank 2 takes no part, and no communicator of all ranks is there yet.
        if rank == 0:
            backend.send(argument, 1, 0).wait()
            backend.recv(empty, 1, 7).wait()
        elif rank == 1:
            work = backend.recv(empty, 0, 0)
            assert work.source_rank() == 0
            assert work.result() == [empty]
            backend.send(argument, 0, 7).wait()
        # Everybody exchanges with both others, at once.
        left, right = (rank - 1) % 3, (rank + 1) % 3
        from_left, from_right = tensor.empty(4, device="cuda"), tensor.empty(4, device="cuda")
        works = backend.send_recv(
            [
                ("send", argument, left),
                ("send", argument, right),
                ("recv", from_left, left),
                ("recv", from_right, right),
            ]
        )
        assert len(works) == 2
        for work in works:
            work.wait()
        return empty[0].item() if rank < 2 else None, from_left[0].item(), from_right[0].item()

    assert ranks.run(use) == [(10, 20, 10), (0, 0, 20), (None, 10, 0)]
    assert ranks.library.violations == []


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_streams_are_ordered_on_both_sides(schedule: str) -> None:
    ranks = Ranks(2, schedule=schedule)

    def use(rank: int, backend: NcclBackend) -> list[float]:
        result = []
        for step in range(3):
            stream = tensor.cuda.Stream()
            with tensor.cuda.stream(stream):
                argument = tensor.full((1000,), rank + step, device="cuda", dtype=tensor.float32)
                argument *= 2
                work = backend.all_reduce(argument, ReduceOp.SUM)
                # Unrelated memory may be used meanwhile, and what was freed is not reused too early.
                temporary = tensor.ones(1000, device="cuda")
                backend.all_reduce(temporary, ReduceOp.SUM)
                del temporary
                tensor.full((1000,), -1.0, device="cuda")
                work.wait()
                argument += 1
                result.append(argument[7].item())
        return result

    assert ranks.run(use) == [[3.0, 7.0, 11.0]] * 2
    assert ranks.library.violations == []
    assert not drv.simulator.findings()


def test_without_wait_the_race_is_found() -> None:
    ranks = Ranks(1, schedule="lazy")

    def use(rank: int, backend: NcclBackend) -> None:
        argument = tensor.ones(1000, device="cuda")
        backend.all_reduce(argument, ReduceOp.SUM)
        argument += 1
        tensor.cuda.synchronize()

    with pytest.raises(drv.DataRaceError):
        ranks.run(use, close=False)
    ranks.backends[0].close()


def test_the_host_does_not_wait_for_the_device() -> None:
    ranks = Ranks(1, schedule="lazy")
    backend = ranks.backends[0]
    argument = tensor.ones(1000, device="cuda")
    with counted() as calls:
        work = backend.all_reduce(argument, ReduceOp.SUM)
    assert not [name for name in calls if "Synchronize" in name]
    with counted() as calls:
        assert work.wait()
    # The watchdog asks meanwhile.
    assert not [name for name in calls if "Synchronize" in name]
    assert calls["cuStreamWaitEvent"] == 1
    assert work.get_future().wait() == [argument]
    with counted() as calls:
        backend.barrier().wait()
    assert calls["cuEventSynchronize"] == 1
    assert work.is_completed()
    backend.close()


def test_threads_take_turns() -> None:
    ranks = Ranks(2)

    def use(rank: int, backend: NcclBackend) -> float:
        # The order of both kinds is the same on all ranks, as it must be; the threads are not.
        total = tensor.zeros(1, device="cuda")

        def messages() -> None:
            tensor.cuda.set_device(rank)
            for _ in range(10):
                value = tensor.ones(1, device="cuda")
                other = 1 - rank
                for work in backend.send_recv([("send", value, other), ("recv", value.clone(), other)]):
                    work.wait()

        thread = threading.Thread(target=messages)
        thread.start()
        for _ in range(10):
            argument = tensor.ones(1, device="cuda")
            backend.all_reduce(argument, ReduceOp.SUM).wait()
            total += argument
        thread.join(timeout=30)
        return float(total.item())

    assert ranks.run(use) == [20.0, 20.0]
    assert ranks.library.violations == []


def test_a_rank_that_does_not_come_is_an_error_in_time() -> None:
    ranks = Ranks(2, timeout=0.3)

    def use(rank: int, backend: NcclBackend) -> str:
        argument = tensor.ones(4, device="cuda")
        if rank == 1:
            return ""
        with pytest.raises(
            DistBackendError,
            match=r"all_reduce: rank 0 of 2 of NCCL's communicator 'all' on cuda:0: Operation timed out!",
        ) as first:
            backend.all_reduce(argument, ReduceOp.SUM)
        with pytest.raises(
            DistBackendError, match="broadcast: .* was ended: all_reduce: .*timed out"
        ) as second:
            backend.broadcast(argument, 0)
        assert second.value.__cause__ is first.value
        return str(first.value)

    ranks.run(use)
    _wait_for(lambda: (0, "ncclCommAbort") in ranks.library.calls)
    assert ranks.library.violations == []


def test_what_was_done_before_a_failure_stays_done() -> None:
    ranks = Ranks(2, timeout=0.5, schedule="lazy")

    def use(rank: int, backend: NcclBackend) -> None:
        argument = tensor.ones(4, device="cuda")
        work = backend.all_reduce(argument, ReduceOp.SUM)
        work.wait()
        tensor.cuda.synchronize()
        if rank == 0:
            with pytest.raises(DistBackendError, match="timed out"):
                backend.barrier()
        else:
            time.sleep(0.7)
        # Neither here nor later is there anything to tell of the first operation.
        time.sleep(0.2)
        assert work.exception() is None
        assert argument.tolist() == [2] * 4
        tensor.cuda.synchronize()
        backend.abort()

    ranks.run(use)


def test_ranks_that_wait_for_the_id() -> None:
    ranks = Ranks(2, timeout=0.3)

    def use(rank: int, backend: NcclBackend) -> None:
        if rank == 1:
            with pytest.raises(
                DistBackendError, match="barrier: rank 1 of 2 .*rank 0 of the communicator did not come"
            ):
                backend.barrier()

    ranks.run(use)


def test_an_id_that_cannot_be_made_is_told_to_all_ranks() -> None:
    ranks = Ranks(2)
    ranks.library.failing["ncclGetUniqueId"] = 2
    ranks.library.last_error = b"no interface"

    def fail(rank: int, backend: NcclBackend) -> None:
        with pytest.raises(DistBackendError, match=r"ncclSystemError: .*\(no interface\)") as error:
            backend.barrier()
        assert ("rank 0 of the communicator failed" in str(error.value)) == (rank == 1)

    ranks.run(fail)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("result", [1, 6])
def test_a_call_that_fails(result: int) -> None:
    ranks = Ranks(1)
    backend = ranks.backends[0]
    argument = tensor.ones(4, device="cuda")
    backend.all_reduce(argument, ReduceOp.SUM).wait()
    ranks.library.failing["ncclSend"] = result
    with pytest.raises(
        DistBackendError, match="gather: rank 0 of 1 .*ncclSend failed: nccl.*NCCL_DEBUG=INFO"
    ) as error:
        backend.gather(argument.clone(), argument, 0)
    assert isinstance(error.value.__cause__, drv.CudaError)
    ranks.library.failing.clear()
    backend.abort()


class _Stuck:
    """Events of the driver that are never reached, until ``free()``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver = drv.runtime().driver
        self.real = self.driver.cuEventQuery
        self.stuck = True
        from cuda.bindings.driver import CUresult

        def query(event: Any) -> tuple[Any, ...]:
            return (CUresult.CUDA_ERROR_NOT_READY,) if self.stuck else self.real(event)

        monkeypatch.setattr(self.driver, "cuEventQuery", query, raising=False)


def test_work_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(1, timeout=0.3)
    backend = ranks.backends[0]
    _Stuck(monkeypatch)
    argument = tensor.ones(4, device="cuda")
    relied_on = backend.all_reduce(argument, ReduceOp.SUM)
    assert relied_on.wait()
    other = backend.broadcast(argument, 0)
    assert other.exception() is None
    _wait_for(lambda: (0, "ncclCommAbort") in ranks.library.calls)
    for work in (relied_on, other):
        with pytest.raises(
            DistBackendError, match=r"all_reduce: rank 0 of 1 .*timed out! It is not over on the device"
        ):
            work.wait()
        assert work.is_completed()
        assert not work.is_success()
    # Somebody relied on the results, and reads them: not silently.
    with pytest.raises(drv.HostCallbackError, match="DistBackendError: all_reduce"):
        tensor.cuda.synchronize()
    tensor.cuda.synchronize()
    with pytest.raises(DistBackendError, match="barrier: .* was ended"):
        backend.barrier()
    backend.close()
    assert ranks.library.violations == []


def test_a_barrier_is_waited_for_by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(1, timeout=0.5)
    backend = ranks.backends[0]
    assert backend.barrier().wait(timedelta(seconds=5))
    stuck = _Stuck(monkeypatch)
    work = backend.barrier()
    with pytest.raises(
        DistBackendError, match="barrier: Operation timed out! It is not done after the 0:00:00.05"
    ):
        work.wait(timedelta(seconds=0.05))
    with pytest.raises(DistBackendError, match="barrier: rank 0 of 1 .*It is not over on the device"):
        work.wait(timedelta(seconds=5))
    # The host has been told; nothing is left to raise.
    stuck.stuck = False
    tensor.cuda.synchronize()
    backend.close()


def test_an_error_of_another_rank_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(1)
    backend = ranks.backends[0]
    _Stuck(monkeypatch)
    argument = tensor.ones(4, device="cuda")
    work = backend.all_reduce(argument, ReduceOp.SUM)
    comm = next(iter(ranks.library._comms.values()))
    comm.state, ranks.library.last_error = 6, b"peer went away"
    _wait_for(lambda: comm.ended == "aborted")
    with pytest.raises(
        DistBackendError, match=r"all_reduce: rank 0 of 1 .*ncclRemoteError.*\(peer went away\)"
    ):
        work.wait()
    # Nobody relied on it.
    tensor.cuda.synchronize()
    backend.close()


def test_abort_ends_a_rank_that_waits() -> None:
    ranks = Ranks(2)

    def use(rank: int, backend: NcclBackend) -> None:
        if rank == 1:
            return
        killer = threading.Timer(0.2, backend.abort)
        killer.start()
        with pytest.raises(DistBackendError, match="the process group was aborted"):
            backend.all_reduce(tensor.ones(4, device="cuda"), ReduceOp.SUM)
        killer.join(timeout=10)
        backend.abort()

    started = time.monotonic()
    ranks.run(use)
    assert time.monotonic() - started < 10
    with pytest.raises(DistBackendError, match="barrier: <NcclBackend rank 0 of 2.*aborted"):
        ranks.backends[0].barrier()
    assert ranks.library.violations == []


def test_abort_gives_up_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(1)
    backend = ranks.backends[0]
    stuck = _Stuck(monkeypatch)
    work = backend.all_reduce(tensor.ones(4, device="cuda"), ReduceOp.SUM)
    work.wait()
    backend.abort()
    with pytest.raises(DistBackendError, match="the process group was aborted"):
        work.wait()
    _wait_for(lambda: (0, "ncclCommAbort") in ranks.library.calls)
    stuck.stuck = False
    # The user wants it so.
    tensor.cuda.synchronize()
    assert ranks.library.violations == []


@pytest.mark.parametrize("function", ["ncclCommFinalize", "ncclCommDestroy"])
def test_an_end_that_fails_is_an_abort(function: str) -> None:
    ranks = Ranks(1)
    backend = ranks.backends[0]
    backend.barrier().wait()
    ranks.library.failing[function] = 3
    backend.close()
    # A communicator that destroy failed for is gone.
    _wait_for(lambda: ((0, "ncclCommAbort") in ranks.library.calls) == (function == "ncclCommFinalize"))
    assert ranks.library.violations == []


def test_close_is_idempotent_and_final() -> None:
    ranks = Ranks(2)
    ranks.run(lambda rank, backend: backend.barrier().wait())
    for backend in ranks.backends:
        backend.close()
        backend.abort()
        assert backend._store.num_keys() == 0
    with pytest.raises(
        DistBackendError, match="all_reduce: <NcclBackend .*: the process group was destroyed"
    ):
        ranks.backends[1].all_reduce(tensor.ones(1, device="cuda:1"), ReduceOp.SUM)
    assert [name for by, name in ranks.library.calls if by == 0] == [
        "ncclCommInitRankConfig",
        "ncclAllReduce",
        "ncclCommFinalize",
        "ncclCommDestroy",
    ][1:]


def test_after_a_reset_nothing_is_called() -> None:
    ranks = Ranks(1)
    backend = ranks.backends[0]
    argument = tensor.ones(1, device="cuda")
    backend.all_reduce(argument, ReduceOp.SUM).wait()
    calls = list(ranks.library.calls)
    drv.reset()
    with pytest.raises(drv.DroppedRuntimeError):
        backend.all_reduce(argument, ReduceOp.SUM)
    backend.close()
    backend.abort()
    assert ranks.library.calls == calls


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_leaves_the_communicator_alone() -> None:
    ranks = Ranks(1)
    backend = ranks.backends[0]
    argument = tensor.ones(1, device="cuda")
    backend.all_reduce(argument, ReduceOp.SUM).wait()
    before = len(ranks.library.calls)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(drv.ForkError):
                backend.all_reduce(argument, ReduceOp.SUM)
            with pytest.raises(drv.ForkError):
                backend.barrier()
            backend.close()
            backend.abort()
            code = 0 if len(ranks.library.calls) == before else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    backend.all_reduce(argument, ReduceOp.SUM).wait()
    backend.close()
    assert ranks.library.violations == []
