"""A rank is killed or stopped at a random moment: the others end in bounded time, and name it."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import signal
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import parallel
import tensor
from parallel.backends import selection
from parallel.backends.gloo.connections import PeerConnections
from parallel.groups.errors import DistError
from tests.parallel.processes import CONTEXT

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: Seconds that ranks wait for each other at first, and for an operation where one is stopped.
_MEETING, _TIMEOUT = 10, 3
#: Seconds after which a rank that still runs hangs.
_BOUND = 60.0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _operation(group: Any, choice: random.Random, rank: int, size: int, transfers_too: bool) -> None:
    """One operation between all ranks, the same on each; what it gives is checked."""
    kind = choice.randrange(7 if transfers_too else 6)
    count = choice.choice([1, 1000, 40_000, 700_000])
    root = choice.randrange(size)
    x = tensor.full((count,), float(rank + 1))
    total = size * (size + 1) / 2
    if kind == 0:
        parallel.all_reduce(x, group=group)
        assert float(x[-1]) == total
    elif kind == 1:
        parallel.broadcast(x, root, group=group)
        assert float(x[0]) == root + 1
    elif kind == 2:
        parts = [tensor.empty(count) for _ in range(size)]
        parallel.all_gather(parts, x, group=group)
        assert [float(each[0]) for each in parts] == [each + 1.0 for each in range(size)]
    elif kind == 3:
        parallel.reduce(x, root, group=group)
        assert rank != root or float(x[-1]) == total
    elif kind == 4:
        parallel.barrier(group)
    elif kind == 6:
        received = tensor.empty(count)
        transfers = [
            parallel.P2POp(parallel.isend, x, (rank + 1) % size, group),
            parallel.P2POp(parallel.irecv, received, (rank - 1) % size, group),
        ]
        for work in parallel.batch_isend_irecv(transfers):
            work.wait()
        assert float(received[-1]) == (rank - 1) % size + 1
    else:
        objects: list[Any] = [None] * size
        parallel.all_gather_object(objects, np.full(count % 5000, rank), group=group)
        assert all((each == index).all() for index, each in enumerate(objects))


def _rank(sender: Connection, rank: int, size: int, port: int, over: str, timeout: float, seed: int) -> None:
    """Operations without end; what ends them is sent."""
    if over == "network":
        selection.PeerConnections = functools.partial(PeerConnections, share_memory=False)  # type: ignore[misc,assignment]
    choice = random.Random(seed)
    sender.send("begun")
    texts = []
    group: Any = None
    try:
        parallel.init_process_group(
            "gloo",
            init_method=f"tcp://127.0.0.1:{port}",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=_MEETING),
        )
        group = parallel.new_group(timeout=timedelta(seconds=timeout))
        while True:
            # A transfer between two ranks names the other one, and not for whom that one waits.
            _operation(group, choice, rank, size, transfers_too=timeout > _TIMEOUT or size == 2)
    except DistError as error:
        texts.append(str(error))
    if group is not None:
        # It goes on failing, and can be ended.
        try:
            parallel.barrier(group)
        except DistError as error:
            texts.append(str(error))
        else:
            texts.append("a barrier that succeeds")
    if parallel.is_initialized():
        parallel.destroy_process_group()
    sender.send(texts)
    sender.close()


def _names(victim: int, text: str) -> bool:
    """Whether "rank 1", "ranks 0, 1" or "have not joined: 0, 1" stands in the text."""
    return re.search(rf"\b(ranks?|not joined:) (\d+, )*{victim}\b", text) is not None


def _attack(seed: int, over: str, number: int, size: int) -> None:
    """Kill or stop one of the ranks at a random moment, and hear what the others say."""
    choice = random.Random(seed)
    victim = choice.randrange(size)
    # Also while they connect, which takes the first part of it.
    moment = choice.choice([0.2, 1.5]) * choice.random()
    timeout = 120.0 if number == signal.SIGKILL else _TIMEOUT
    port = _free_port()
    what = f"seed {seed}: {signal.Signals(number).name} for rank {victim} of {size} after {moment:.3f} s over {over}"
    pipes = [CONTEXT.Pipe(duplex=False) for _ in range(size)]
    processes = [
        CONTEXT.Process(target=_rank, args=(sender, rank, size, port, over, timeout, seed), daemon=True)
        for rank, (_, sender) in enumerate(pipes)
    ]
    try:
        for process in processes:
            process.start()
        for _, sender in pipes:
            sender.close()
        for receiver, _ in pipes:
            assert receiver.poll(_BOUND)
            assert receiver.recv() == "begun"
        time.sleep(moment)
        pid = processes[victim].pid
        assert pid is not None
        os.kill(pid, number)
        deadline = time.monotonic() + _BOUND
        for rank, (receiver, _) in enumerate(pipes):
            if rank == victim:
                continue
            assert receiver.poll(max(0.0, deadline - time.monotonic())), f"{what}: rank {rank} hangs"
            try:
                texts = receiver.recv()
            except EOFError:
                pytest.fail(f"{what}: rank {rank} raised something else")
            for text in texts:
                assert _names(victim, text), f"{what}: rank {rank} says {texts}"
            processes[rank].join(max(0.1, deadline - time.monotonic()))
            assert processes[rank].exitcode == 0, f"{what}: rank {rank} does not end"
    finally:
        for process in processes:
            if process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.join()
        for receiver, _ in pipes:
            receiver.close()


@pytest.mark.parametrize(
    ("seed", "over", "number"),
    [
        (8, "shared memory", signal.SIGKILL),
        (5, "network", signal.SIGKILL),
        (11, "shared memory", signal.SIGSTOP),
    ],
)
def test_a_rank_that_is_killed_or_stopped_is_named(seed: int, over: str, number: int) -> None:
    _attack(seed, over, number, 3)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("over", ["shared memory", "network"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_random_ranks_at_random_moments(size: int, number: int, over: str) -> None:
    for seed in range(100, 104):
        _attack(seed * size, over, number, size)
