"""``SummaryWriter`` on the package tensorboardX: values on the host, and what is said where it is not installed."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from tensor.utils.tensorboard import SummaryWriter

if TYPE_CHECKING:
    from pathlib import Path


class _Writer:
    """The package's class, which notes what it is told."""

    def __init__(self, logdir: str | None, **options: Any) -> None:
        self.logdir = logdir or "runs/now"
        self.options = options
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def add_scalar(self, *arguments: Any, **options: Any) -> None:
        self.calls.append(("add_scalar", arguments, options))

    def add_scalars(self, *arguments: Any, **options: Any) -> None:
        self.calls.append(("add_scalars", arguments, options))

    def add_histogram(self, *arguments: Any, **options: Any) -> None:
        self.calls.append(("add_histogram", arguments, options))

    def flush(self) -> str:
        return "flushed"

    def close(self) -> None:
        self.calls.append(("close", (), {}))


@pytest.fixture
def _package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=_Writer))


@pytest.mark.usefixtures("_package")
def test_values_come_to_the_host(device_name: str, tmp_path: Path) -> None:
    x = tensor.tensor([1.0, 2.0], device=device_name, requires_grad=True)
    with SummaryWriter(tmp_path, flush_secs=5) as writer:
        assert writer.get_logdir() == writer.log_dir == str(tmp_path)
        assert writer.flush() == "flushed"
        writer.add_scalar("loss", x.sum(), 3)
        writer.add_scalars("both", {"a": x[0], "b": 2.0}, global_step=1)
        writer.add_histogram("values", values=x.bfloat16())
    calls = writer._writer.calls
    assert [name for name, _, _ in calls] == ["add_scalar", "add_scalars", "add_histogram", "close"]
    assert isinstance(calls[0][1][1], np.ndarray)
    assert calls[0][1] == ("loss", 3.0, 3)
    assert calls[1][1][1] == {"a": 1.0, "b": 2.0}
    assert calls[1][2] == {"global_step": 1}
    assert calls[2][2]["values"].dtype == np.float32
    assert writer._writer.options["flush_secs"] == 5


@pytest.mark.usefixtures("_package")
def test_no_graph_is_written() -> None:
    with pytest.raises(RuntimeError, match="programs are not traced here"):
        SummaryWriter().add_graph(None)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match="pip install tensorboardX"):
        SummaryWriter()


def test_files_of_the_package(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(3):
            writer.add_scalar("loss", tensor.tensor(1.0 / (step + 1)), step)
        writer.add_histogram("weights", tensor.randn(100), 0)
        writer.add_image("picture", tensor.rand(3, 4, 4), 0)
    assert b"weights" in next(tmp_path.glob("events.out.*")).read_bytes()
