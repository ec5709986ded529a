"""Having memcheck run a script, in this process, and reading its report."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import drv
from tools.memcheck.checking import main

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Run:
    """What a run of memcheck ended with and said."""

    status: int
    out: str
    err: str
    document: dict[str, Any]

    @property
    def findings(self) -> list[dict[str, Any]]:
        return self.document["findings"]

    @property
    def kinds(self) -> list[str]:
        return [finding["kind"] for finding in self.findings]

    @property
    def only(self) -> dict[str, Any]:
        """The finding, of which there has to be one."""
        assert len(self.findings) == 1, self.err
        return self.findings[0]


class Bench:
    """A folder with scripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "script.py") -> Path:
        path = self.folder / name
        path.write_text(dedent(text).lstrip(), encoding="utf-8")
        return path

    def check(
        self, text: str, *options: str, arguments: tuple[str, ...] = (), simulate: str | None = ""
    ) -> Run:
        """Run a script of this text on a simulated GPU, or on none with ``simulate=None``."""
        start = [] if simulate is None else ["--simulate", *([simulate] if simulate else [])]
        return self.run([*start, *options], [str(self.write(text)), *arguments])

    def run(self, options: list[str], target: list[str]) -> Run:
        drv.reset()
        record = self.folder / "findings.json"
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([*options, "--json", str(record), *target])
        document = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
        return Run(status, out.getvalue(), err.getvalue(), document)


def lines(stack: list[dict[str, Any]]) -> list[str]:
    """The text of a stack's lines, the innermost first."""
    return [frame["text"] for frame in stack]
