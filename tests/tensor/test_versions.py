"""``tensor.version`` and names that programs ask first."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import graphroot
import tensor

ROOT = Path(__file__).resolve().parents[2]


def test_version_is_the_packages() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert settings["dynamic"]["version"] == {"attr": "graphroot.__version__"}
    assert tensor.__version__ == tensor.version.__version__ == graphroot.__version__


def test_version_of_cuda_is_the_installed_compilers() -> None:
    assert tensor.version.cuda is not None
    assert metadata.version("nvidia-cuda-nvrtc").startswith(f"{tensor.version.cuda}.")


def test_version_of_cuda_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.delitem(vars(tensor.version), "cuda", raising=False)
    try:
        assert tensor.version.cuda is None
    finally:
        vars(tensor.version).pop("cuda", None)


def test_no_other_kind_of_device() -> None:
    assert tensor.version.hip is None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tensor.version.nothing
