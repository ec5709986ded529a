"""Which driver the tests run on, and a clean start for each of them."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests.bytecode import compile_share
from tests.thinning import mark_sampled, mark_schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import drv

pytest_plugins = ["tests.pytorch"]

# No test asserts a time, and the first example of a test may have to compile a kernel.
# Examples are drawn the same in every run, so that a change is judged by what it does and not by luck; new ones are
# looked for with --hypothesis-profile=search.
settings.register_profile("graphroot", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("graphroot")

# Hypothesis draws some numbers and texts from the sources of all modules of ours that are imported: examples would depend on
# which tests are collected, and every process of ``pytest -n`` would parse all sources. Its own constants stay.
if hasattr(providers, "is_local_module_file"):
    providers.is_local_module_file = lambda path: False

_VARIABLES = (
    "GRAPHROOT_DRIVER",
    "GRAPHROOT_SIMULATOR",
    "GRAPHROOT_CUDA_ALLOC_CONF",
    "GRAPHROOT_NO_CUDA_MEMORY_CACHING",
    "GRAPHROOT_JOB_SECRET",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUDA_LAUNCH_BLOCKING",
    "CUBLAS_WORKSPACE_CONFIG",
)


#: Where the session keeps compiled bytecode, if nothing may be written beside the sources.
_BYTECODE = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="run on NVIDIA's driver and the first GPU")
    parser.addoption("--nightly", action="store_true", help="also run the long random tests")
    parser.addoption(
        "--native",
        choices=("auto", "on", "off"),
        help="whether the simulated driver runs kernels by native code (default: where it is worth it)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "simulator_only: about the simulated driver; left out with --gpu")
    config.addinivalue_line("markers", "sampled(every): a part of the parameters runs without --nightly")
    for variable in _VARIABLES:
        os.environ.pop(variable, None)
    if config.getoption("--gpu"):
        os.environ["GRAPHROOT_DRIVER"] = "nvidia"
    else:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if config.getoption("--native"):
        from drv.simulator import options

        options.DEFAULTS["native"] = config.getoption("--native")
    if not hasattr(config, "workerinput") and os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        # Hundreds of processes are started that import the packages: compiling them again in each takes most of a second.
        config.stash[_BYTECODE] = os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="bytecode-")
    # Compiled kernels are kept between runs, and apart from the user's own.
    os.environ["GRAPHROOT_CACHE_DIR"] = str(config.rootpath / ".pytest_cache" / "graphroot")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect tests without the cyclic collector, and keep it from looking at them again.

    The items of all tests are a million objects that live to the end. Every full collection would walk over them, and
    captures of graphs and tests of lifetimes ask for hundreds.
    """
    gc.disable()
    try:
        compile_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _settled_heap() -> Iterator[None]:
    """What a module leaves behind (modules of Python, kernels that were translated) is not walked over in the next."""
    yield
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_BYTECODE, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    modules: dict[Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    tests = Path(__file__).parent
    simulator = tests / "drv" / "simulator"
    mark_sampled(items)
    for path, of_module in modules.items():
        # Kernels as outsiders write them are what simulator and GPU must agree on.
        if path.is_relative_to(simulator) and not path.is_relative_to(simulator / "kernels"):
            for item in of_module:
                item.add_marker(pytest.mark.simulator_only)
        # What the driver does, and what finds mistakes in programs, is tested under every schedule: that is quick.
        if not (path.is_relative_to(tests / "drv") or path.is_relative_to(tests / "tools")):
            mark_schedules(of_module)
    if not config.getoption("--nightly"):
        _leave_out("nightly", config, items)
    if config.getoption("--gpu"):
        _leave_out("simulator_only", config, items)


def _leave_out(marker: str, config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.get_closest_marker(marker) is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker(marker) is None]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--nightly"):
        terminalreporter.write_line("Long random tests are left out: --nightly runs them too.")


def _release_overrides() -> None:
    interception = sys.modules.get("tensor.methods.overriding.interception")
    if interception is not None:
        interception.release()


@pytest.fixture(autouse=True)
def _clean_runtime(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test sees the simulated driver of another, nor what it overrode. A GPU keeps its context, which is slow to make."""
    request.addfinalizer(_release_overrides)
    if request.config.getoption("--gpu"):
        from drv import selection

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(selection, "install", _refuse_simulator)
            yield
        return
    yield
    drv = sys.modules.get("drv")
    if drv is not None:
        drv.reset()


def _refuse_simulator(make: Callable[[], object]) -> NoReturn:
    """What a test meets with ``--gpu`` that asks for the simulated driver itself."""
    pytest.skip("the test is about the simulated driver")


@pytest.fixture
def device(request: pytest.FixtureRequest) -> drv.Device:
    """A device to test on: simulated, with races checked, or with ``--gpu`` the first GPU."""
    import drv

    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")
    return drv.Device(0)


@pytest.fixture
def two_devices(request: pytest.FixtureRequest) -> tuple[drv.Device, drv.Device]:
    """Two devices of one driver; skips where there is only one GPU."""
    import drv

    if not request.config.getoption("--gpu"):
        drv.simulator.install(devices=2, check="race")
    elif drv.device_count() < 2:
        pytest.skip("needs two GPUs")
    return drv.Device(0), drv.Device(1)
