"""Runs one function as several ranks, each a process of its own."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

# Children are forked from a server that has imported everything and has no threads and no driver: a start takes
# milliseconds, where a fresh interpreter takes seconds.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["pytest", "tensor", "nn", "parallel"])


class RankError(AssertionError):
    """A rank raised, died, or did not end in time; the text holds every rank's report."""


def run(function: Callable[..., Any], world_size: int, *arguments: Any, timeout: float = 60) -> list[Any]:
    """Call ``function(rank, world_size, *arguments)`` in ``world_size`` processes; what they return, by rank.

    ``function`` is defined at the top of a test module. When one rank fails, the others are ended after two seconds.
    """
    pipes = [CONTEXT.Pipe(duplex=False) for _ in range(world_size)]
    processes = [
        CONTEXT.Process(target=_rank, args=(sender, function, rank, world_size, arguments), daemon=True)
        for rank, (_, sender) in enumerate(pipes)
    ]
    deadline = time.monotonic() + timeout
    results: list[Any] = [None] * world_size
    failures: dict[int, str] = {}
    try:
        for process in processes:
            process.start()
        for _, sender in pipes:
            sender.close()
        for rank, (receiver, _) in enumerate(pipes):
            if failures:
                deadline = min(deadline, time.monotonic() + 2)
            outcome = _outcome(receiver, processes[rank], deadline)
            if isinstance(outcome, str):
                failures[rank] = outcome
            else:
                results[rank] = outcome[0]
        for process in processes:
            process.join(max(0.1, deadline - time.monotonic()))
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            if process.pid is not None:
                process.join()
        for receiver, _ in pipes:
            receiver.close()
    if failures:
        raise RankError("\n".join(f"rank {rank}: {text}" for rank, text in sorted(failures.items())))
    return results


def _outcome(receiver: Connection, process: Any, deadline: float) -> str | tuple[Any]:
    if not receiver.poll(max(0.0, deadline - time.monotonic())):
        return "did not end in time"
    try:
        succeeded, value = receiver.recv()
    except EOFError:
        process.join(5)
        return f"died with exit code {process.exitcode}"
    return (value,) if succeeded else str(value)


def _rank(
    sender: Connection, function: Callable[..., Any], rank: int, world_size: int, arguments: tuple[Any, ...]
) -> None:
    try:
        outcome = (True, function(rank, world_size, *arguments))
    except BaseException:
        outcome = (False, traceback.format_exc())
    sender.send(outcome)
    sender.close()
