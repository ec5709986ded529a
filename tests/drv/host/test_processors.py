"""How many processors a process may keep busy, read from files as Linux has them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from drv.host import processors

if TYPE_CHECKING:
    from pathlib import Path


def machine(root: Path, **files: str) -> Path:
    """A root with these files; ``__`` stands for a slash and ``_DOT_`` for a dot."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_version_2(tmp_path: Path) -> None:
    machine(
        tmp_path, proc__self__cgroup="0::/jobs/mine", sys__fs__cgroup__jobs__mine__cpu_DOT_max="150000 100000"
    )
    assert processors.quota(tmp_path) == 1.5


def test_a_group_around_it_allows_less(tmp_path: Path) -> None:
    machine(
        tmp_path,
        proc__self__cgroup="0::/jobs/mine",
        sys__fs__cgroup__jobs__mine__cpu_DOT_max="max 100000",
        sys__fs__cgroup__jobs__cpu_DOT_max="50000 100000",
    )
    assert processors.quota(tmp_path) == 0.5


def test_a_container_that_sees_its_group_as_the_root(tmp_path: Path) -> None:
    machine(tmp_path, proc__self__cgroup="0::/docker/abc", sys__fs__cgroup__cpu_DOT_max="200000 100000")
    assert processors.quota(tmp_path) == 2


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_version_1(folder: str, tmp_path: Path) -> None:
    machine(
        tmp_path,
        proc__self__cgroup=f"9:name=systemd:/\n4:memory:/m\n2:{folder}:/slice\n0::/",
        **{
            f"sys__fs__cgroup__{folder}__slice__cpu_DOT_cfs_quota_us": "300000",
            f"sys__fs__cgroup__{folder}__slice__cpu_DOT_cfs_period_us": "100000",
        },
    )
    assert processors.quota(tmp_path) == 3


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc__self__cgroup": "0::/"},
        {"proc__self__cgroup": "0::/", "sys__fs__cgroup__cpu_DOT_max": "max 100000"},
        {"proc__self__cgroup": "0::/", "sys__fs__cgroup__cpu_DOT_max": "nonsense"},
        {
            "proc__self__cgroup": "1:cpu:/",
            "sys__fs__cgroup__cpu__cpu_DOT_cfs_quota_us": "-1",
            "sys__fs__cgroup__cpu__cpu_DOT_cfs_period_us": "100000",
        },
    ],
)
def test_no_limit(files: dict[str, str], tmp_path: Path) -> None:
    assert processors.quota(machine(tmp_path, **files)) is None


@pytest.mark.parametrize(("quota", "expected"), [(None, 4), (16.0, 4), (2.5, 3), (1.0, 1), (0.1, 1)])
def test_affinity_and_quota(quota: float | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(os, "process_cpu_count"):
        monkeypatch.setattr(os, "process_cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    monkeypatch.setattr(processors, "_quota", lambda: quota)
    assert processors.processor_count() == expected
