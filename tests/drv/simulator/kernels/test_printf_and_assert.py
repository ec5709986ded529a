"""Output of kernels, and assertions in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import drv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.drv.simulator.kernels.conftest import Launch

SOURCE = r"""
extern "C" __global__ void greet(int n) {
    if (threadIdx.x < n) printf("thread %d of block %u\n", threadIdx.x, blockIdx.x);
}
extern "C" __global__ void formats(const char* text) {
    printf("%5d|%-5d|%05d|%+d|%u|%x|%X|%o|%c|%%\n", 42, 42, 42, 42, 4000000000u, 48879, 48879, 8, 'z');
    printf("%f|%.3f|%e|%g|%10.2f|%-8.1f|\n", 1.5, 3.14159, 12345.678, 0.0001, 2.718, 9.99f);
    printf("%lld|%llu|%llx|%ld|%hd|%zu\n", -5000000000ll, 18446744073709551615ull, 0xdeadbeefcafell, 77l, (short)-3,
           sizeof(double));
    printf("%s and %.3s|%8s|%*d|\n", "constant", text, "right", 6, 7);
    printf("no arguments\n");
}
extern "C" __global__ void returns(int* out) { out[0] = printf("%d%d%d\n", 1, 2, 3); out[1] = printf("alone\n"); }

extern "C" __global__ void positive(const int* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(i >= n || in[i] > 0);  // this line
}
extern "C" __global__ void with_message(int x) { assert(x == 1 && "x is one"); }
"""


@pytest.fixture(autouse=True)
def _start_over() -> Iterator[None]:
    """A failed assertion loses the context."""
    yield
    drv.reset()


def test_one_line_for_each_thread(launch: Launch, capfd: pytest.CaptureFixture[str]) -> None:
    launch(SOURCE, 3, 40, np.int32(2), name="greet")
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"thread {t} of block {b}" for t in range(2) for b in range(3))


def test_formats(launch: Launch, capfd: pytest.CaptureFixture[str]) -> None:
    text = np.frombuffer(b"abcdef\0", np.uint8)
    launch(SOURCE, 1, 1, text, name="formats")
    assert capfd.readouterr().out.splitlines() == [
        "   42|42   |00042|+42|4000000000|beef|BEEF|10|z|%",
        "1.500000|3.142|1.234568e+04|0.0001|      2.72|10.0    |",
        "-5000000000|18446744073709551615|deadbeefcafe|77|-3|8",
        "constant and abc|   right|     7|",
        "no arguments",
    ]


def test_result_is_the_number_of_arguments(launch: Launch, capfd: pytest.CaptureFixture[str]) -> None:
    out = np.zeros(2, np.int32)
    launch(SOURCE, 1, 1, out, name="returns")
    assert capfd.readouterr().out == "123\nalone\n"
    assert out.tolist() == [3, 0]


def test_assertion_that_holds(launch: Launch) -> None:
    launch(SOURCE, 2, 64, np.arange(1, 101, dtype=np.int32), np.int32(100), name="positive")


@pytest.mark.simulator_only
def test_assertion_that_fails(launch: Launch, capfd: pytest.CaptureFixture[str]) -> None:
    values = np.ones(100, np.int32)
    values[70] = 0
    with pytest.raises(drv.DeviceAssertError) as raised:
        launch(SOURCE, 2, 64, values, np.int32(100), name="positive")
    line = SOURCE.splitlines().index(next(line for line in SOURCE.splitlines() if "// this line" in line)) + 1
    # What CUDA prints, and the same for whoever catches the exception.
    expected = [
        f"outsider.cu:{line}:",
        "positive",
        "block: [1,0,0]",
        "thread: [6,0,0]",
        "i >= n || in[i] > 0",
    ]
    printed = capfd.readouterr().err
    for part in expected:
        assert part in printed + str(raised.value), part
    assert "positive" in str(raised.value)


@pytest.mark.simulator_only
def test_assertion_with_a_message(launch: Launch) -> None:
    launch(SOURCE, 1, 1, np.int32(1), name="with_message")
    with pytest.raises(drv.DeviceAssertError, match="x is one"):
        launch(SOURCE, 1, 1, np.int32(2), name="with_message")


def test_assertions_can_be_compiled_out(launch: Launch) -> None:
    launch(SOURCE, 2, 64, np.zeros(100, np.int32), np.int32(100), name="positive", options=("-DNDEBUG",))
