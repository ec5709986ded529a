"""all_reduce of host tensors between processes of this machine, beside PyTorch's gloo, in turn in the same processes.

What every message costs shows in the short ones, and what bytes cost in the long ones. A figure is the slowest rank's median.
PyTorch computes with one thread, and ranks of both wait as their libraries do.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import parallel
import tensor
from tools.bench.measure import OURS, Row

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

#: Bytes of a rank's tensor, and how many calls are timed as one: what bounds latency, and what bounds throughput.
SIZES = {4: 200, 64 << 10: 100, 1 << 20: 20, 64 << 20: 2}
_NAMES = {4: "4 B", 64 << 10: "64 KiB", 1 << 20: "1 MiB", 64 << 20: "64 MiB"}
_TORCH = "torch gloo"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument("--ranks", type=int, default=2, help="processes that take part (default: 2)")
    parser.add_argument("--rounds", type=int, default=9, help="times that each is measured (default: 9)")


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    names = {f"all_reduce, {options.ranks} ranks, {_NAMES[size]}": size for size in SIZES}
    chosen = [size for name, size in names.items() if only in name]
    if not chosen:
        return
    with tempfile.TemporaryDirectory() as folder:
        work = (options.ranks, folder, chosen, options.rounds, has_torch())
        parallel.spawn(_rank, work, nprocs=options.ranks)
        told = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(options.ranks)]
    for name, size in names.items():
        if size in chosen:
            slowest = {each: max(rank[str(size)][each] for rank in told) for each in told[0][str(size)]}
            yield Row(name, "us", slowest, reach=slowest.get(_TORCH))


def has_torch() -> bool:
    """Whether there is a PyTorch to compare with."""
    return importlib.util.find_spec("torch") is not None


def _rank(rank: int, ranks: int, folder: str, sizes: list[int], rounds: int, compared: bool) -> None:
    """Measure in one process, and leave the medians in a file."""
    # Interfaces differ between machines, and all ranks are on this one.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    parallel.init_process_group("gloo", f"file://{folder}/ours", rank=rank, world_size=ranks)
    libraries: dict[str, tuple[Any, Any]] = {OURS: (tensor, parallel)}
    if compared:
        import torch
        import torch.distributed as theirs

        torch.set_num_threads(1)
        theirs.init_process_group("gloo", f"file://{folder}/theirs", rank=rank, world_size=ranks)
        libraries[_TORCH] = torch, theirs
    medians = {size: _medians(size, libraries, rounds) for size in sizes}
    Path(folder, f"{rank}.json").write_text(json.dumps(medians), encoding="utf-8")
    for _, distributed in libraries.values():
        distributed.barrier()
        distributed.destroy_process_group()


def _medians(size: int, libraries: dict[str, tuple[Any, Any]], rounds: int) -> dict[str, float]:
    """Microseconds of a call by contender, which take turns."""
    calls: dict[str, Callable[[], object]] = {}
    for name, (library, distributed) in libraries.items():
        # Sums of zeros stay zeros, however often they are added up.
        calls[name] = partial(distributed.all_reduce, library.zeros(size // 4))
    times: dict[str, list[float]] = {name: [] for name in calls}
    number = SIZES[size]
    for turn in range(rounds + 1):
        for name, call in calls.items():
            call()
            parallel.barrier()
            begun = perf_counter_ns()
            for _ in range(number):
                call()
            # The first round sets connections and memory up.
            if turn:
                times[name].append((perf_counter_ns() - begun) / number / 1e3)
    return {name: median(each) for name, each in times.items()}
