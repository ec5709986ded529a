"""What ranks under ``mpiexec`` do: ``python -m tests.parallel.backends.mpi.mpi_ranks FOLDER NAME``. See ``test_mpi.py``."""

from __future__ import annotations

import functools
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import drv
import nn
import parallel
import tensor
from parallel.backends.mpi import process
from parallel.backends.mpi.process import library
from parallel.backends.mpi.transport import MpiTransport, subgroup, world, world_transport
from parallel.groups.errors import DistBackendError
from parallel.groups.reduce_op import ReduceOp

LIMIT = timedelta(seconds=30)
_DTYPES = (
    np.bool_,
    np.uint8,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.float16,
    ml_dtypes.bfloat16,
    np.float32,
    np.float64,
    np.complex64,
    np.complex128,
)
_FUNCTIONS: dict[ReduceOp, Any] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.AVG: np.add,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}


def _soon() -> float:
    return time.monotonic() + 30


def _values(rank: int, dtype: Any, count: int) -> np.ndarray[Any, Any]:
    values = (np.arange(count) * 7 + 3 * rank) % 11
    if np.dtype(dtype).kind == "c":
        values = values * (1 + 0.5j)
    return (values > 5 if dtype is np.bool_ else values).astype(dtype)


def _expected(op: ReduceOp, dtype: Any, size: int, count: int) -> np.ndarray[Any, Any]:
    each = [_values(rank, dtype, count) for rank in range(size)]
    if np.dtype(dtype).itemsize == 2 and np.dtype(dtype).kind not in "iu":
        each = [values.astype(np.float32) for values in each]
    total = each[0]
    for values in each[1:]:
        total = _FUNCTIONS[op](total, values)
    return (total / size if op is ReduceOp.AVG else total).astype(dtype)


def _is_for(op: ReduceOp, dtype: Any) -> bool:
    kind = np.dtype(dtype).kind
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        return kind in "biu"
    if op in (ReduceOp.MIN, ReduceOp.MAX):
        return kind != "c"
    return op is not ReduceOp.AVG or kind not in "biu"


def reductions() -> None:
    mine = world_transport(LIMIT)
    rank, size = mine.rank, mine.size
    for dtype in _DTYPES:
        for op in ReduceOp:
            argument = _values(rank, dtype, 6 * size)
            if not _is_for(op, dtype):
                with pytest.raises(TypeError, match=f"ReduceOp.{op.name} is not for"):
                    mine.all_reduce(argument, op, _soon())
                continue
            expected = _expected(op, dtype, size, 6 * size)
            part = np.empty(6, dtype)
            mine.reduce_scatter(part, argument, op, _soon())
            np.testing.assert_array_equal(part, expected[6 * rank : 6 * rank + 6], f"{op} {dtype}")
            mine.reduce(argument, 1, op, _soon())
            np.testing.assert_array_equal(argument, expected if rank == 1 else _values(rank, dtype, 6 * size))
            argument = _values(rank, dtype, 6 * size)
            mine.all_reduce(argument, op, _soon())
            np.testing.assert_array_equal(argument, expected, f"{op} {dtype}")
    for op in (ReduceOp.MIN, ReduceOp.MAX):
        for device in range(size):
            argument = np.array([rank, np.nan if rank == device else 1.0], np.float32)
            mine.all_reduce(argument, op, _soon())
            assert argument[0] == (0 if op is ReduceOp.MIN else size - 1)
            assert np.isnan(argument[1])
    # float16 would overflow on the way.
    argument = np.full(3, 40000, np.float16)
    mine.all_reduce(argument, ReduceOp.AVG, _soon())
    assert argument.tolist() == [40000] * 3
    empty = np.empty(0, np.float32)
    mine.all_reduce(empty, ReduceOp.SUM, _soon())
    mine.close()


def copies() -> None:
    mine = world_transport(LIMIT)
    rank, size = mine.rank, mine.size
    for dtype in _DTYPES:
        each = [_values(other, dtype, 4) for other in range(size)]
        whole = np.concatenate(each)
        argument = each[rank].copy()
        mine.broadcast(argument, 1, _soon())
        np.testing.assert_array_equal(argument, each[1])
        output = np.zeros(4 * size, dtype)
        mine.all_gather(output, each[rank], _soon())
        np.testing.assert_array_equal(output, whole)
        # Where the input is its place in the output.
        output = np.zeros(4 * size, dtype)
        output[4 * rank : 4 * rank + 4] = each[rank]
        mine.all_gather(output, output[4 * rank : 4 * rank + 4], _soon())
        np.testing.assert_array_equal(output, whole)
        mine.gather(output if rank == 2 else None, each[rank], 2, _soon())
        np.testing.assert_array_equal(output, whole)
        mine.scatter(argument, whole if rank == 2 else None, 2, _soon())
        np.testing.assert_array_equal(argument, each[rank])
        # Rank r sends r + 2 s elements to rank s.
        sent, received = [rank + 2 * s for s in range(size)], [r + 2 * rank for r in range(size)]
        source = np.concatenate([np.full(n, (10 * rank + s) % 2, dtype) for s, n in enumerate(sent)])
        target = np.empty(sum(received), dtype)
        mine.all_to_all(target, source, received, sent, _soon())
        np.testing.assert_array_equal(
            target, np.concatenate([np.full(n, (10 * r + rank) % 2, dtype) for r, n in enumerate(received)])
        )
    large = np.arange(1 << 20, dtype=np.float64) * (rank == 0)
    mine.broadcast(large, 0, _soon())
    assert large[-1] == (1 << 20) - 1
    with pytest.raises(
        DistBackendError, match="all_to_all: .*rank 0 sends 1 elements to rank . whose output|room for 2"
    ):
        counts = [1] * size
        mine.all_to_all(np.empty(2 * size, np.int8), np.empty(size, np.int8), [2] * size, counts, _soon())
    with pytest.raises(DistBackendError, match="barrier: all_to_all: .*room for 2"):
        mine.barrier(_soon())
    mine.close()


def messages() -> None:
    mine = world_transport(LIMIT)
    rank, size = mine.rank, mine.size
    left, right = (rank - 1) % size, (rank + 1) % size
    # While collectives go on, from other threads, and in the other order of tags.
    arrived: list[Any] = []

    def receive(tag: int) -> None:
        array = np.empty(1000, np.float32)
        arrived.append((tag, mine.recv(array, left, tag, _soon()), array[0]))

    threads = [threading.Thread(target=receive, args=(tag,)) for tag in (1, 2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        total = np.ones(10, np.float32)
        mine.all_reduce(total, ReduceOp.SUM, _soon())
        assert total[0] == size
    for tag in (2, 1):
        mine.send(np.full(1000, 10 * rank + tag, np.float32), right, tag, _soon())
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(arrived) == [(1, left, 10 * left + 1), (2, left, 10 * left + 2)]
    mine.barrier(_soon())
    if rank == 0:
        result = set()
        for _ in range(size - 1):
            array = np.empty(3, np.int64)
            source = mine.recv(array, None, 5, _soon())
            assert array.tolist() == [source] * 3
            result.add(source)
        assert result == set(range(1, size))
    else:
        mine.send(np.full(3, rank, np.int64), 0, 5, _soon())
    with pytest.raises(ValueError, match=r"MPI's tags are 0 to \d+, and -1 was given"):
        mine.send(np.empty(1), 0, -1, _soon())
    # Sizes that differ.
    if rank == 0:
        mine.send(np.zeros(2, np.float32), 1, 0, _soon())
    elif rank == 1:
        with pytest.raises(
            DistBackendError, match=r"recv\(src=0, tag=0\): rank 0 sent 2 elements of 4 bytes to rank 1"
        ):
            mine.recv(np.zeros(3, np.float32), 0, 0, _soon())
    mine.barrier(_soon())
    mine.close()


def disagreements() -> None:
    mine = world_transport(LIMIT)
    argument = np.zeros(4 + mine.rank // 2, np.float32)
    with pytest.raises(
        DistBackendError,
        match=r"all_reduce\(SUM\): rank . of 3 over MPI: ranks called different operations: ranks 0, 1: all_reduce\(SUM\) "
        r"of 4 float32; rank 2: all_reduce\(SUM\) of 5 float32",
    ):
        mine.all_reduce(argument, ReduceOp.SUM, _soon())
    with pytest.raises(DistBackendError, match="barrier: all_reduce.*different operations"):
        mine.barrier(_soon())
    mine.close()
    mine = world_transport(LIMIT)
    with pytest.raises(
        DistBackendError, match=r"rank 0: barrier of 0 uint8; ranks 1, 2: broadcast\(src=1\) of 3 int64"
    ):
        if mine.rank == 0:
            mine.barrier(_soon())
        else:
            mine.broadcast(np.zeros(3, np.int64), 1, _soon())
    mine.close()


def groups() -> None:
    everybody = world(LIMIT)
    assert world(LIMIT) is everybody
    rank = everybody.Get_rank()
    one = MpiTransport(subgroup(everybody, [rank], LIMIT))
    argument = np.ones(2)
    one.all_reduce(argument, ReduceOp.SUM, _soon())
    assert argument.tolist() == [1, 1]
    one.close()
    one.close()
    with pytest.raises(DistBackendError, match="barrier: .*destroyed"):
        one.barrier(_soon())
    if rank != 1:
        pair = MpiTransport(subgroup(everybody, [2, 0], LIMIT))
        assert (pair.rank, pair.size) == (int(rank == 0), 2)
        argument = np.array([rank])
        pair.broadcast(argument, 0, _soon())
        assert argument.tolist() == [2]
        pair.close()
    # A member that does not come.
    if rank == 0:
        with pytest.raises(
            DistBackendError, match=r"new_group: Operation timed out! .*rank 1 of the group \[0, 1\]"
        ):
            subgroup(everybody, [0, 1], timedelta(seconds=0.2))
    elif rank == 1:
        time.sleep(0.5)
    # The first of them tells; nobody answers the other.
    if rank == 0:
        with pytest.raises(
            DistBackendError, match=r"different groups: rank 0 for \[0, 2\], rank 2 for \[0, 2, 1\]"
        ):
            subgroup(everybody, [0, 2], LIMIT)
    elif rank == 2:
        with pytest.raises(
            DistBackendError, match=r"waited 0:00:00.5\d* for rank 0 of the group \[0, 2, 1\]"
        ):
            subgroup(everybody, [0, 2, 1], timedelta(seconds=0.5))
    mine = world_transport(LIMIT)
    mine.barrier(_soon())
    mine.close()


def late() -> None:
    """Rank 2 comes after the deadline of the others, which end in order all the same."""
    mine = world_transport(LIMIT)
    if mine.rank == 2:
        time.sleep(1)
        mine.barrier(_soon())
        return
    with pytest.raises(
        DistBackendError, match=f"barrier: rank {mine.rank} of 3 over MPI: Operation timed out!"
    ):
        mine.barrier(time.monotonic() + 0.3)
    with pytest.raises(DistBackendError, match=r"all_reduce\(SUM\): barrier: .*timed out"):
        mine.all_reduce(np.ones(3, np.float32), ReduceOp.SUM, _soon())
    with pytest.raises(DistBackendError, match="timed out"):
        mine.recv(np.ones(1), 1 - mine.rank, 0, _soon())
    mine.close()
    time.sleep(1)


def missing() -> None:
    """Rank 1 never takes part: the other cannot leave MPI in order."""
    mine = world_transport(LIMIT)
    if mine.rank == 1:
        time.sleep(60)
        return
    with pytest.raises(DistBackendError, match="timed out"):
        mine.all_reduce(np.ones(3, np.float32), ReduceOp.SUM, time.monotonic() + 0.3)


def attacked() -> None:
    """Operations without end, until the rank that ATTACK names is killed or stopped, by itself at a random moment."""
    number, victim, seed = map(int, os.environ["ATTACK"].split())
    parallel.init_process_group("mpi", timeout=LIMIT)
    group = parallel.new_group(timeout=timedelta(seconds=3))
    choice = random.Random(seed)
    rank, size = parallel.get_rank(), parallel.get_world_size()
    if rank == victim:
        moment = time.monotonic() + 1.5 * random.Random(seed + 1).random()

        def attack() -> None:
            time.sleep(max(0.0, moment - time.monotonic()))
            os.kill(os.getpid(), number)

        threading.Thread(target=attack, daemon=True).start()
    while True:
        count = choice.choice([1, 1000, 100_000])
        x = tensor.full((count,), float(rank))
        kind = choice.randrange(3)
        try:
            if kind == 0:
                parallel.all_reduce(x, group=group)
            elif kind == 1:
                parallel.broadcast(x, choice.randrange(size), group=group)
            else:
                parallel.barrier(group)
        except DistBackendError as error:
            print(f"rank {rank} heard: {error}", flush=True)
            raise


def failing() -> None:
    """Rank 1 raises while the others wait for it."""
    mine = world_transport(LIMIT)
    if mine.rank == 1:
        raise ValueError("the reason")
    mine.barrier(time.monotonic() + 60)


def aborted() -> None:
    """Rank 0 gives up from another thread; the others come later."""
    mine = world_transport(LIMIT)
    if mine.rank == 0:
        timer = threading.Timer(0.3, mine.abort)
        timer.start()
        started = time.monotonic()
        with pytest.raises(DistBackendError, match="barrier: .*the process group was aborted"):
            mine.barrier(_soon())
        assert time.monotonic() - started < 10
        timer.join()
        mine.close()
    else:
        time.sleep(0.6)
        mine.barrier(_soon())
        mine.close()


def process_groups() -> None:
    """The public functions, on the host and on simulated devices, twice in one process."""
    for device in ("cpu", "cuda"):
        if device == "cuda":
            drv.simulator.install(check="race", schedule="random")
        with pytest.raises(ValueError, match="rank=7 was given, and MPI says"):
            parallel.init_process_group("mpi", rank=7)
        parallel.init_process_group("mpi", timeout=LIMIT)
        rank, size = parallel.get_rank(), parallel.get_world_size()
        assert (parallel.get_backend(), size) == ("mpi", 3)
        argument = tensor.arange(6.0, device=device).reshape(2, 3).t() + rank
        parallel.all_reduce(argument)
        assert argument.tolist() == (3 * tensor.arange(6.0).reshape(2, 3).t() + 3).tolist()
        works = [
            parallel.all_reduce(tensor.full((4,), rank + step, device=device), async_op=True)
            for step in range(5)
        ]
        assert [work.result()[0][0].item() for work in works] == [3 + 3 * step for step in range(5)]
        parts = [tensor.empty(2, dtype=tensor.bfloat16, device=device) for _ in range(size)]
        parallel.all_gather(parts, tensor.full((2,), rank, dtype=tensor.bfloat16, device=device))
        assert [part[0].item() for part in parts] == [0, 1, 2]
        outer = parallel.new_group([0, 2])
        if rank != 1:
            total = tensor.ones(3, device=device)
            parallel.all_reduce(total, group=outer)
            assert total.tolist() == [2, 2, 2]
        right, left = (rank + 1) % size, (rank - 1) % size
        arrived = tensor.empty(3, device=device)
        sent = tensor.full((3,), float(rank), device=device)
        for work in parallel.batch_isend_irecv(
            [parallel.P2POp(parallel.isend, sent, right), parallel.P2POp(parallel.irecv, arrived, left)]
        ):
            work.wait()
        assert arrived.tolist() == [left] * 3
        objects: list[Any] = [None] * size
        parallel.all_gather_object(objects, {"rank": rank})
        assert objects == [{"rank": each} for each in range(size)]
        module = nn.Linear(3, 2).to(device)
        model = parallel.DistributedDataParallel(module)
        model(tensor.full((4, 3), float(rank), device=device)).sum().backward()
        assert module.weight.grad is not None
        assert module.weight.grad.tolist() == [[4.0] * 3] * 2
        parallel.barrier()
        parallel.destroy_process_group()
        assert not [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
        if device == "cuda":
            tensor.cuda.synchronize()


class _ReachingDevices:
    """A communicator of an MPI library that takes addresses of the simulated devices' memory, which it cannot know.

    What is there is copied to the host when an operation starts, and back when it is over.
    """

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        self.reached: list[str] = []

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._communicator, name)
        return functools.partial(self._start, name, function) if name.startswith("I") else function

    def _start(self, name: str, function: Any, *arguments: Any) -> Any:
        copies: list[tuple[tensor.Tensor, Any]] = []

        def on_host(argument: Any) -> Any:
            if not isinstance(argument, list) or not hasattr(argument[0], "__cuda_array_interface__"):
                return argument
            device = tensor.as_tensor(argument[0], device="cuda")
            copies.append((device, device.cpu().numpy()))
            return [copies[-1][1], *argument[1:]]

        request = function(*map(on_host, arguments))
        if copies:
            self.reached.append(name)
        return _Request(request, copies)


class _Request:
    def __init__(self, request: Any, copies: list[tuple[tensor.Tensor, Any]]) -> None:
        self._request, self._copies = request, copies

    def Test(self, status: Any = None) -> bool:
        done: bool = self._request.Test(status)
        while done and self._copies:
            device, host = self._copies.pop()
            device.copy_(tensor.from_numpy(host))
            tensor.cuda.current_stream().synchronize()
        return done


def on_devices() -> None:
    """With a library that knows CUDA, tensors of devices are handed over where they lie."""
    drv.simulator.install(check="race", schedule="random")
    reaching: list[_ReachingDevices] = []

    def reached_subgroup(*arguments: Any) -> Any:
        reaching.append(_ReachingDevices(subgroup(*arguments)))
        return reaching[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "subgroup", reached_subgroup)
        patch.setattr(process, "reaches_devices", lambda: True)
        parallel.init_process_group("mpi", timeout=LIMIT)
        reached = reaching[0].reached
        rank, size = parallel.get_rank(), parallel.get_world_size()
        x = tensor.arange(5.0, device="cuda") + rank
        for op, expected in (
            (ReduceOp.SUM, 3 * tensor.arange(5.0) + 3),
            (ReduceOp.AVG, tensor.arange(5.0) + 1),
            # These have a function of ours, which the host runs.
            (ReduceOp.MAX, tensor.arange(5.0) + 2),
        ):
            # What is queued before is done first, and what follows comes after.
            result = x * 2
            result /= 2
            parallel.all_reduce(result, op)
            assert (result + 1).tolist() == (expected + 1).tolist(), op
        assert reached == ["Iallreduce"] * 2
        half = tensor.full((3,), rank + 0.5, dtype=tensor.bfloat16, device="cuda")
        parallel.all_reduce(half)
        assert half.tolist() == [4.5] * 3
        assert reached == ["Iallreduce"] * 2
        reached.clear()
        parts = tensor.empty(2 * size, dtype=tensor.bfloat16, device="cuda")
        parallel.all_gather_into_tensor(parts, half[:2] + rank)
        assert parts.tolist() == [4.5, 4.5, 5.5, 5.5, 6.5, 6.5]
        own = tensor.empty(2, device="cuda")
        parallel.reduce_scatter_tensor(own, tensor.arange(2.0 * size, device="cuda"))
        assert own.tolist() == [6.0 * rank, 6.0 * rank + 3]
        # In place, where MPI needs memory of its own.
        rows = tensor.full((size,), float(rank), device="cuda")
        parallel.all_to_all_single(rows, rows)
        assert rows.tolist() == [0.0, 1.0, 2.0]
        sent, arrived = tensor.full((3,), float(rank), device="cuda"), tensor.empty(3, device="cuda")
        for work in parallel.batch_isend_irecv(
            [
                parallel.P2POp(parallel.isend, sent, (rank + 1) % size),
                parallel.P2POp(parallel.irecv, arrived, (rank - 1) % size),
            ]
        ):
            work.wait()
        assert arrived.tolist() == [(rank - 1) % size] * 3
        assert sorted(reached) == ["Iallgather", "Ialltoallv", "Irecv", "Ireduce_scatter_block", "Isend"]
        parallel.destroy_process_group()
        tensor.cuda.synchronize()
        assert not drv.simulator.findings()


def note_files() -> None:
    """Tell the test which files MPI has in /dev/shm: MPICH leaves them there when a job is aborted."""
    library()
    files = {
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/dev/shm/" in line
    }
    (Path(sys.argv[1]) / str(os.getpid())).write_text("\n".join(files))


if __name__ == "__main__":
    note_files()
    chosen: Callable[[], None]
    for chosen in [globals()[name] for name in sys.argv[2:]]:
        chosen()
    print("done")
