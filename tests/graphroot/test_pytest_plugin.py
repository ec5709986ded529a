"""Tests of CUDA code on a simulated GPU: the plugin of pytest, run on suites of a user's."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _named_plugins_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # Where the package is installed pytest loads the plugin by itself, and would refuse it under its module's name.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


BINDINGS = """
import pytest
from cuda.bindings import driver

def memory(size=64):
    driver.cuInit(0)
    driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
    return driver.cuMemAlloc(size)[1]

def fill(memory, stream):
    assert not driver.cuMemsetD8Async(memory, 1, 64, stream)[0]

def stream():
    return driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)[1]
"""
TESTS = """
def test_that_is_right():
    one, buffer = stream(), memory()
    fill(buffer, one)
    fill(buffer, one)

def test_with_a_race():
    buffer = memory()
    one, other = stream(), stream()
    fill(buffer, one)
    fill(buffer, other)

def test_after_it():
    assert driver.cuCtxSynchronize()[0] == 0
"""


def run(pytester: pytest.Pytester, code: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(BINDINGS + code)
    return pytester.runpytest_subprocess(
        "-p", "graphroot.pytest_plugin", "-p", "no:cacheprovider", *arguments
    )


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_a_finding_fails_the_test_that_has_caused_it(pytester: pytest.Pytester, schedule: str) -> None:
    result = run(pytester, TESTS, f"--simulate-cuda=schedule={schedule}")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*test_with_a_race*", "*.py:10: race: nothing orders fill of 64 bytes*"])
    # Stacks begin at the user's code.
    assert "_pytest" not in result.stdout.str()


def test_the_marker_gives_a_test_its_own_device(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.mark.simulated_cuda(devices=3)
def test_marked():
    memory()
    assert driver.cuDeviceGetCount()[1] == 3

@pytest.mark.simulated_cuda(check="on")
def test_unchecked():
    buffer = memory()
    fill(buffer, stream())
    fill(buffer, stream())

def test_fixture(simulated_cuda):
    memory()
    assert len(simulated_cuda.runtime.devices) == 1
    assert not simulated_cuda.findings

def test_without():
    with pytest.raises(RuntimeError):
        driver.cuInit(0)
""",
    )
    result.assert_outcomes(passed=4)


def test_a_marked_test_within_a_simulated_run(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.fixture(scope="module")
def shared():
    return memory()

def test_first(shared):
    assert driver.cuDeviceGetCount()[1] == 2
    assert not driver.cuMemsetD8(shared, 1, 64)[0]

@pytest.mark.simulated_cuda(devices=3)
def test_own(shared):
    driver.cuInit(0)
    assert driver.cuDeviceGetCount()[1] == 3

def test_last(shared):
    assert driver.cuDeviceGetCount()[1] == 2
    assert not driver.cuMemsetD8(shared, 1, 64)[0]
    assert not driver.cuMemFree(shared)[0]
""",
        "--simulate-cuda=devices=2",
    )
    result.assert_outcomes(passed=3)


def test_our_tensors_are_on_the_same_device(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import tensor

        def test_sum():
            assert tensor.arange(10, device="cuda").sum().item() == 45

        def test_race():
            x = tensor.zeros(1000, device="cuda")
            with tensor.cuda.stream(tensor.cuda.Stream()):
                x += 1
        """
    )
    result = pytester.runpytest_subprocess("-p", "graphroot.pytest_plugin", "--simulate-cuda")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*our_tensors_are_on_the_same_device.py:9: race:*"])


def test_a_failure_of_the_tests_own_goes_first(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        TESTS.replace("fill(buffer, other)", "fill(buffer, other); assert 1 == 2"),
        "--simulate-cuda",
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])


@pytest.mark.parametrize("options", ["chek=full", "full"])
def test_options_that_are_wrong(pytester: pytest.Pytester, options: str) -> None:
    result = run(pytester, TESTS, f"--simulate-cuda={options}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert options.partition("=")[0] in result.stderr.str()


def test_nothing_is_loaded_without_being_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\ndef test_modules():\n    assert not {'drv', 'tensor', 'numpy'} & set(sys.modules)"
    )
    pytester.runpytest_subprocess("-p", "graphroot.pytest_plugin").assert_outcomes(passed=1)
