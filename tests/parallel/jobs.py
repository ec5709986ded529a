"""What ranks of tests do first and last: join the others, and leave nothing behind."""

from __future__ import annotations

import contextlib
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drv
import parallel

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How a test's ranks compute: on the CPU, or on simulated devices that run what is queued early or late.
PLACES: list[tuple[str, dict[str, Any]]] = [
    ("cpu", {}),
    ("eager", {"schedule": "eager"}),
    ("lazy", {"schedule": "lazy"}),
    ("random", {"schedule": "random", "seed": 1}),
]


def use(place: str) -> str:
    """The device of tensors at a place of :data:`PLACES`, which is installed."""
    if place == "cpu":
        return "cpu"
    drv.simulator.install(devices=2, check="race", **dict(PLACES)[place])
    return "cuda"


@contextlib.contextmanager
def joined(
    rank: int, world_size: int, path: str, backend: str = "gloo", seconds: float = 30
) -> Iterator[None]:
    """In a job whose ranks meet in the file ``path``; afterwards no thread or file of it is left."""
    threads = set(threading.enumerate())
    files = _open_files()
    parallel.init_process_group(
        backend,
        init_method=f"file://{path}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=seconds),
    )
    yield
    parallel.destroy_process_group()
    assert not parallel.is_initialized()
    # Those that share large operations on the CPU stay for the next one.
    left = {each for each in set(threading.enumerate()) - threads if not each.name.startswith("tensor-host")}
    assert not left, left
    assert _open_files() <= files


def _open_files() -> set[str]:
    """Sockets, pipes and files of the job's that this process has open."""
    result = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(each.readlink())
            if target.startswith("socket"):
                result.add(target)
    return result
