"""A plugin of pytest: tests of CUDA code on a simulated GPU, where a race fails the test that has it.

``pytest --simulate-cuda[=OPTIONS]`` runs the whole of a test suite on one simulated driver, OPTIONS being those of
``GRAPHROOT_SIMULATOR``. The marker ``simulated_cuda(**options)``, or the fixture of that name, gives a test a driver of
its own. Nothing of the simulator is loaded without one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from drv.simulator.checks.findings import Finding, Findings
    from drv.simulator.outsiders.stand_in import StandIn

_standing_in = pytest.StashKey["StandIn"]()
_own = pytest.StashKey["Generator[StandIn, None, None]"]()
_NAME = "simulated_cuda"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--simulate-cuda``."""
    group = parser.getgroup("graphroot", "CUDA without a GPU")
    group.addoption(
        "--simulate-cuda",
        nargs="?",
        const="",
        metavar="OPTIONS",
        help="run CUDA code on a simulated GPU, and fail the tests whose races and reads of uninitialised memory it finds; "
        "OPTIONS as in GRAPHROOT_SIMULATOR, such as --simulate-cuda=devices=2,schedule=lazy",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the simulated driver of the whole run, if one is asked for."""
    config.addinivalue_line(
        "markers",
        f"{_NAME}(**options): run the test on a simulated GPU of its own, with options as in GRAPHROOT_SIMULATOR",
    )
    text = config.getoption("--simulate-cuda")
    if text is not None:
        config.stash[_standing_in] = _stand_in(_options_of(text))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Drop the simulated driver of the whole run."""
    if _standing_in in config.stash:
        config.stash[_standing_in].close()
        del config.stash[_standing_in]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Give a test with the marker its own driver before its fixtures are made."""
    marker = item.get_closest_marker(_NAME)
    if marker is not None or _NAME in getattr(item, "fixturenames", ()):
        if marker is not None and marker.args:
            raise pytest.UsageError(
                f"{_NAME} takes keywords only, such as devices=2: {marker.args} was given"
            )
        driver = _own_driver(item.config, {} if marker is None else dict(marker.kwargs))
        item.stash[_own] = driver
        next(driver)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test by what was found while it ran."""
    standing_in = _active(item)
    before = set() if standing_in is None else {id(finding) for finding in standing_in.findings}
    result = yield
    if standing_in is not None:
        if standing_in.runtime.alive:
            standing_in.finish()
        _fail(standing_in.findings, before)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Drop a test's own driver after its fixtures."""
    try:
        return (yield)
    finally:
        if _own in item.stash:
            item.stash[_own].close()
            del item.stash[_own]


@pytest.fixture
def simulated_cuda(request: pytest.FixtureRequest) -> StandIn:
    """The simulated driver of this test: its ``findings``, and the ``runtime`` on it."""
    result = _active(request.node)
    assert result is not None
    return result


def _active(item: pytest.Item) -> StandIn | None:
    """The stand-in that a test runs on."""
    if _own in item.stash:
        # pytest loads this plugin also for projects whose tests use no CUDA; they should not wait for drv.
        from drv.simulator.outsiders.stand_in import active

        return active()
    return item.config.stash.get(_standing_in, None)


def _own_driver(config: pytest.Config, options: dict[str, Any]) -> Generator[StandIn, None, None]:
    """A driver with ``options``, over those of the whole run, until the iterator is closed."""
    # As above: loaded by tests that use CUDA.
    from drv.selection import set_aside

    common = config.getoption("--simulate-cuda") or ""
    outer = config.stash.get(_standing_in, None)
    with set_aside():
        if outer is not None:
            outer.suspend()
        try:
            with_options = _stand_in(_options_of(common) | options)
            try:
                yield with_options
            finally:
                with_options.close()
        finally:
            if outer is not None:
                outer.resume()


def _stand_in(options: dict[str, Any]) -> StandIn:
    # As above: loaded by tests that use CUDA.
    from drv.errors import CudaError
    from drv.simulator import stand_in

    try:
        result: StandIn = stand_in(**{"check": "full", **options})
    except CudaError as error:
        raise pytest.UsageError(f"{_NAME}: {error}") from error
    # They fail the test; no synchronising call raises them before.
    result.findings.collect = True
    return result


def _options_of(text: str) -> dict[str, Any]:
    pairs = [part.partition("=") for part in text.split(",") if part]
    wrong = [name for name, equals, _ in pairs if not equals]
    if wrong:
        raise pytest.UsageError(f"--simulate-cuda: expected name=value,..., got {text!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _fail(findings: Findings, before: set[int]) -> None:
    new = [finding for finding in findings if id(finding) not in before]
    if new:
        pytest.fail("\n\n".join(map(_report, new)), pytrace=False)


def _report(finding: Finding) -> str:
    """What was found, after the user's line."""
    sides = [side for side in (finding.second, finding.first) if side is not None and side.stack]
    if not sides:
        return str(finding)
    file, line, _ = sides[0].stack[0]
    return f"{file}:{line}: {finding}"
