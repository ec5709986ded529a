"""``graphroot info``: what it tells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import drv
from graphroot import __version__
from tools.info.command_line import main
from tools.info.report import size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.simulator_only


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A driver is chosen by the environment."""
    for name in ("GRAPHROOT_DRIVER", "GRAPHROOT_SIMULATOR"):
        monkeypatch.delenv(name, raising=False)
    drv.reset()
    yield
    drv.reset()


def test_a_simulated_driver(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GRAPHROOT_DRIVER", "simulator")
    monkeypatch.setenv("GRAPHROOT_SIMULATOR", "devices=2,memory=1GiB,schedule=lazy")
    assert main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["graphroot"] == __version__
    assert told["driver"]["name"] == "simulator"
    assert [device["memory"] for device in told["devices"]] == [1 << 30] * 2
    assert told["simulator"]["schedule"] == "lazy"
    assert told["variables"]["GRAPHROOT_SIMULATOR"] == "devices=2,memory=1GiB,schedule=lazy"
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "driver      the simulated one, CUDA 13" in out
    assert "            cuda:1  Simulated GPU sm_90, capability 9.0, 1 GiB, 132 multiprocessors\n" in out
    # Contexts and kernels are nobody's that only asks.
    assert all(device.context is None for device in drv.runtime().devices)


def test_no_driver(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise drv.NoDriverError("there is none: `graphroot run --simulate program.py`")

    monkeypatch.setattr(drv, "runtime", fail)
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "driver      none: no GPU is used unless a simulated one is asked for\n" in out
    assert "`graphroot run --simulate program.py`" in out


def test_a_secret_is_not_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GRAPHROOT_DRIVER", "simulator")
    monkeypatch.setenv("GRAPHROOT_JOB_SECRET", "a-word-that-nobody-else-knows")
    assert main([]) == main(["--json"]) == 0
    out = capsys.readouterr().out
    assert "a-word" not in out
    assert "GRAPHROOT_JOB_SECRET=(set)" in out


def test_libraries_that_are_missing_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str) -> None:
        raise drv.LibraryNotInstalledError(name)

    monkeypatch.setenv("GRAPHROOT_DRIVER", "simulator")
    monkeypatch.setattr("tools.info.facts.open_library", fail)
    assert main([]) == 0
    assert "cublas: not found; pip install 'graphroot[gpu]'" in capsys.readouterr().out


def test_neighbours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRAPHROOT_DRIVER", "simulator")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nn").mkdir()
    (tmp_path / "tensor.py").touch()
    assert main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)["neighbours"]
    assert set(told) == {"nn", "tensor"}
    assert "both are importable" in told["nn"]
    assert f"{tmp_path / 'tensor.py'} hides graphroot's package 'tensor'" in told["tensor"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (1 << 31, "2 GiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
