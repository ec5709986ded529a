"""Tests lie where what they test lies: ``tests/drv/simulator/ptx`` is about ``drv/simulator/ptx``."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
#: Folders of tests that are about no one package, and what they are about.
OTHERS = {
    "checks": "the sources, documents and layers of all packages",
    "examples": "the scripts of examples/, and the code in documents",
    "parity": "PyTorch's samples of operations, by its names",
    "graphroot/installation": "what an installation of the packages does to the programs beside it",
    "drv/simulator/kernels": "whole CUDA kernels, which go through every part of the simulator",
    "tensor/torch_names/packages": "what others wrote for PyTorch, as installed, on our tensors",
    "tensor/torch_names/styles": "training programs in the styles of those that people have, which are run as they are",
}


def test_every_folder_of_tests_is_that_of_a_package() -> None:
    folders = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py")} - {"."}
    assert {folder for folder in folders if not (ROOT / folder / "__init__.py").exists()} == OTHERS.keys()


def test_every_folder_of_tests_is_a_package() -> None:
    assert not [
        path.parent for path in TESTS.rglob("test_*.py") if not (path.parent / "__init__.py").exists()
    ]
