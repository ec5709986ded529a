"""PyTorch for the tests that compare with it, which carry the marker ``parity``.

``pytest --parity`` runs these tests and no others; without it they are left out, whether PyTorch is installed or not.
Neither a test that imports PyTorch without the marker nor one that carries it and does not use PyTorch passes.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

VERSION = "2.13"
#: ``expecttest`` is what PyTorch's own samples import.
PACKAGES = "torch==2.13.0 expecttest"

_TESTS = Path(__file__).resolve().parent


class _PyTorch:
    """The package ``torch``, imported at the first use: modules of tests are collected without it."""

    def __getattr__(self, name: str) -> Any:
        # What pytest asks of all names of a module.
        if name.startswith(("__", "_pytest")):
            raise AttributeError(name)
        return getattr(importlib.import_module("torch"), name)


torch: Any = _PyTorch()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--parity", action="store_true", help="run the tests that compare with PyTorch, and no others"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "parity: compares with PyTorch; runs with --parity only")
    if config.getoption("--parity"):
        _watch()
    else:
        finder = _Refusal()
        sys.meta_path.insert(0, finder)
        config.add_cleanup(lambda: sys.meta_path.remove(finder))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Processes of ``pytest -n`` make no items of tests that :func:`pytest_collection_modifyitems` would leave out.

    A third of all parameters of all tests are theirs. Where single tests are named these have to be there to be left out.
    """
    config = collector.config
    if (
        not hasattr(config, "workerinput")
        or config.getoption("--parity")
        or not inspect.isfunction(obj)
        or any("::" in argument for argument in config.args)
    ):
        return None
    marks = [*getattr(obj, "pytestmark", ()), *collector.iter_markers()]
    return [] if any(mark.name == "parity" for mark in marks) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    parity = config.getoption("--parity")
    left_out = [item for item in items if (item.get_closest_marker("parity") is not None) != parity]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        left_out_ids = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in left_out_ids]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--parity"):
        terminalreporter.write_line(
            "Tests that compare with PyTorch are left out: --parity runs these and no others."
        )


# Without --parity: imports are refused


class _Refusal:
    """First of the import system's finders: a test that imports PyTorch fails, also where it would be skipped."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        # Other packages may look whether it is there.
        if name == "torch" and _is_imported_by_tests():
            pytest.fail(
                "a test that imports PyTorch carries the marker parity (@pytest.mark.parity), "
                "and a module of tests imports it as `from tests.pytorch import torch`"
            )


def _is_imported_by_tests() -> bool:
    frame = sys._getframe(2)
    while frame.f_back is not None and ("importlib" in frame.f_code.co_filename or _is_pytests(frame)):
        frame = frame.f_back
    return Path(frame.f_code.co_filename).is_relative_to(_TESTS)


def _is_pytests(frame: Any) -> bool:
    return bool(frame.f_globals.get("__name__", "").startswith("_pytest."))


# With --parity: uses are seen


class _Watched(ModuleType):
    """PyTorch's package, which notes that it is used."""

    def __getattribute__(self, name: str) -> Any:
        # Tools that walk through all modules ask for __file__ and the like; an import asks for __spec__.
        if name == "__spec__" or not name.startswith("__"):
            _Watched.is_used = True
        return ModuleType.__getattribute__(self, name)

    is_used = False


def _watch() -> None:
    try:
        import expecttest  # noqa: F401
        import torch
    except ImportError as error:
        raise pytest.UsageError(f"--parity needs PyTorch ({error}): pip install {PACKAGES}") from error
    if not torch.__version__.startswith(f"{VERSION}."):
        raise pytest.UsageError(
            f"--parity needs PyTorch {VERSION}, not {torch.__version__}: pip install {PACKAGES}"
        )
    # Tests run in several processes, and their tensors are small.
    torch.set_num_threads(1)
    torch.__class__ = _Watched


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.when == "setup":
        _Watched.is_used = False
    elif (
        report.when == "call"
        and report.passed
        and not _Watched.is_used
        and item.get_closest_marker("parity") is not None
    ):
        report.outcome = "failed"
        report.longrepr = "carries the marker parity and does not use PyTorch"
    return report
