"""Ranks as threads of one process: jobs of several ranks without processes, on the CPU or on simulated devices."""

from __future__ import annotations

import contextlib
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import drv
import parallel
import tensor
from parallel.groups.process_groups import Job, World, job
from parallel.groups.stores.store import HashStore

from .backends.nccl.fake_nccl import FakeNccl
from .threads import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _World(threading.local):
    """A job is a process's; here it is a thread's."""

    world: World | None = None


@contextlib.contextmanager
def jobs_of_threads() -> Iterator[None]:
    """In the block each thread has a job of its own, or that of the thread that started it."""
    worlds = _World()
    start = threading.Thread.start

    def start_in_job(thread: threading.Thread) -> None:
        world, run = worlds.world, thread.run

        def run_in_job() -> None:
            worlds.world = world
            run()

        thread.run = run_in_job  # type: ignore[method-assign]
        start(thread)

    def of_thread(_: Job) -> World | None:
        return worlds.world

    def become(_: Job, world: World | None) -> None:
        worlds.world = world

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "world", property(of_thread, become), raising=False)
        patch.setattr(job, "lock", contextlib.nullcontext())
        patch.setattr(threading.Thread, "start", start_in_job)
        yield


def run_threads(
    function: Callable[..., Any],
    size: int,
    *arguments: Any,
    device: str = "cpu",
    backend: str | None = None,
    **options: Any,
) -> list[Any]:
    """What ``function(rank, size, *arguments)`` returns as each rank of a job, by rank.

    On the CPU the ranks have the backend ``gloo``. With ``device="cuda"`` each has a simulated device that looks for races,
    with ``options``, and NCCL's stand-in, which ``backend="cpu:gloo,cuda:nccl"`` complements.
    """
    library = None
    if device == "cuda":
        drv.simulator.install(devices=size, **{"check": "race", **options})
        runtime = drv.runtime()
        library = runtime.cache(("library", "nccl"), lambda: FakeNccl(runtime))
    store = HashStore()

    def call(rank: int) -> Any:
        if library is not None:
            tensor.cuda.set_device(rank)
        parallel.init_process_group(
            backend or ("gloo" if library is None else "nccl"),
            store=store,
            rank=rank,
            world_size=size,
            device_id=None if library is None else rank,
            timeout=timedelta(seconds=120),
        )
        result = function(rank, size, *arguments)
        parallel.destroy_process_group()
        return result

    with jobs_of_threads():
        results = together(call, size)
    if library is not None:
        for index in range(size):
            tensor.cuda.synchronize(index)
        assert library.violations == []
        assert not drv.simulator.findings()
    return results
