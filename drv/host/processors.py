"""How many processors this process may keep busy, and what they are."""

from __future__ import annotations

import os
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def processor_count() -> int:
    """Processors of this process: what its affinity allows, and no more than its control groups pay for.

    ``PYTHON_CPU_COUNT`` and ``-X cpu_count`` count where Python knows them, from 3.13 on. A quota of a part of a
    processor more counts as one more, so that none of the time is left unused.
    """
    count = getattr(os, "process_cpu_count", None)
    allowed: int = (count() if count is not None else None) or len(os.sched_getaffinity(0))
    quota = _quota()
    return allowed if quota is None else max(1, min(allowed, ceil(quota)))


@cache
def _quota() -> float | None:
    return quota()


def quota(root: Path = Path("/")) -> float | None:
    """Processors' worth of time that the control groups of this process get, or ``None`` if there is no limit.

    Parameters
    ----------
    root : Path
        Where ``proc`` and ``sys`` are.
    """
    limits = [limit for folder in _groups(root) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """Folders of the control groups of this process that may limit processors: its own, and those around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mounts = root / "sys/fs/cgroup"
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            # Version 2, alone or beside version 1.
            bases = [mounts, mounts / "unified"]
        elif "cpu" in controllers.split(","):
            bases = [mounts / "cpu", mounts / controllers]
        else:
            continue
        inner = Path(path.lstrip("/"))
        for base in bases:
            # A container may see its own group as the root of the mount, whatever the host calls it.
            for group in (inner, *inner.parents):
                yield base / group


def _limit(group: Path) -> float | None:
    try:
        time, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            time = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not time.isdecimal() or not period.isdecimal() or not int(period):
        # "max", or -1.
        return None
    return int(time) / int(period)


@cache
def _description() -> dict[str, str]:
    """What Linux tells about the first processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def vendor() -> str:
    """Who made the processor, as it names itself (``GenuineIntel``, ``AuthenticAMD``); empty where nothing tells."""
    return _description().get("vendor_id", "")


def instruction_sets() -> frozenset[str]:
    """Instructions that the processor has, by Linux's names (``avx2``, ``avx512_bf16``)."""
    return frozenset(_description().get("flags", "").split())
