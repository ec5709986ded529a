"""A prediction is refused before memory is taken that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.scale import host_memory
from tools.scale.command_line import main

if TYPE_CHECKING:
    from pathlib import Path


def test_a_container_has_what_its_limit_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "_GROUP", tmp_path)
    everything = host_memory.available()
    assert everything > 1 << 20
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert host_memory.available() > 1 << 20
    (tmp_path / "memory.max").write_text("4000000\n")
    assert host_memory.available() == 1_000_000
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 20\nactive_file 300\nslab 7000\n")
    assert host_memory.available() == 1_000_320


def test_too_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host_memory, "_GROUP", tmp_path)
    (tmp_path / "memory.current").write_text(str(1 << 30))
    (tmp_path / "memory.max").write_text(str(3 << 29))
    with pytest.raises(SystemExit, match="2"):
        main(["--model", "gpt-tiny", "--devices", "8"])
    assert "takes up to 4 GiB of this machine's memory, and 0.5 GiB are available" in capsys.readouterr().err
