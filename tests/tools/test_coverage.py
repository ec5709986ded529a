"""``python -m tools.coverage``: what is public in PyTorch, and what of it is here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pytorch import VERSION, torch

ROOT = Path(__file__).resolve().parents[2]

#: A package of the name, with what a few of its modules have.
_PACKAGE = {
    "__init__.py": """
__all__ = ["zeros", "einsum_paths", "package", "from_file", "_private"]
from . import nn
class Tensor:
    def reshape(self): pass
    def nothing_like_it(self): pass
""",
    "nn/__init__.py": """
import os
from . import functional
class Linear: pass
class NothingLikeIt: pass
def _private(): pass
""",
    "nn/functional.py": "def relu(): pass",
    "package.py": "__all__ = ['PackageExporter', 'PackageImporter']",
}


def _run(*arguments: str, before: str = "pass", path: Path | None = None) -> subprocess.CompletedProcess[str]:
    code = f"import sys; {before}; from tools.coverage.__main__ import main; main()"
    if path is not None:
        code = f"import sys; sys.path.insert(0, {str(path)!r}); {code}"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in _PACKAGE.items():
        file = tmp_path / "torch" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_without_pytorch_it_says_what_to_install() -> None:
    done = _run(before="sys.modules['torch'] = None")
    assert done.returncode == 1
    assert "pip install torch==2.13.0" in done.stderr
    assert "Traceback" not in done.stderr


def test_counts_and_words(package: Path) -> None:
    done = _run("torch", "Tensor", "torch.nn", "package", path=package)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[:6]}
    assert rows["namespace"] == ["here", "planned", "left", "out", "missing"]
    assert rows["torch"] == ["1", "1", "1", "1"]
    assert rows["torch.Tensor"] == ["1", "0", "0", "1"]
    assert rows["torch.nn"] == ["2", "0", "0", "1"]
    assert rows["torch.package"] == ["0", "0", "2", "0"]
    assert rows["all"] == ["4", "1", "3", "3"]
    assert "missing: einsum_paths" in done.stdout
    assert "planned: from_file: until then use tensor.from_numpy" in done.stdout
    assert "torch.package: left out; save a state dict" in done.stdout


def test_missing_names_alone(package: Path) -> None:
    done = _run("torch", "Tensor", "nn", "--missing", path=package)
    assert done.stdout.split() == [
        "torch.einsum_paths",
        "torch.Tensor.nothing_like_it",
        "torch.nn.NothingLikeIt",
    ]


def test_page(package: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    done = _run("torch", "nn", "--markdown", str(page), path=package)
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "| [`torch.nn`](#torchnn) | 2 | 0 | 0 | 1 |" in text
    assert "| all | 3 | 1 | 1 | 2 |" in text
    assert "## torch.nn\n\n`nn` has these.\n\nMissing:\n\n`NothingLikeIt`" in text
    assert "| `package` | save a state dict with tensor.save |" in text


def test_unknown_namespaces_are_refused() -> None:
    done = _run("torch.nothing")
    assert done.returncode == 2
    assert "torch.nothing: no namespace that is compared" in done.stderr


@pytest.mark.parity
def test_page_is_up_to_date(tmp_path: Path) -> None:
    assert torch.version.__version__.startswith(VERSION)
    page = tmp_path / "coverage.md"
    done = _run("--markdown", str(page))
    assert done.returncode == 0, done.stderr
    current = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert page.read_text(encoding="utf-8") == current, "run python -m tools.coverage --markdown"


@pytest.mark.parity
def test_nothing_is_missing_without_a_word() -> None:
    assert torch.version.__version__.startswith(VERSION)
    assert _run("--missing").stdout == "nothing is missing without a word\n"
