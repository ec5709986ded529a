"""Where no driver checks accesses, as on a GPU, the guarding allocators find writes by their own patterns."""

from __future__ import annotations

import pytest

from tests.tools.running import Bench, lines

pytestmark = pytest.mark.simulator_only

PUT = """
import numpy as np
import tensor

put = tensor.cuda.RawKernel("__global__ void put(float* x, int at, float v) { x[at] = v; }", "put")

class Address:
    def __init__(self, address):
        self.__cuda_array_interface__ = {"data": (address, False)}

"""


@pytest.mark.parametrize(
    ("at", "where", "span"),
    [
        (10, "4 bytes, from 0 bytes past the end of an allocation of 40 bytes on", [40, 44]),
        (20, "4 bytes, from 40 bytes past the end of an allocation of 40 bytes on", [80, 84]),
        (-2, "4 bytes, from 8 bytes before an allocation of 40 bytes on", [-8, -4]),
    ],
)
def test_write_outside_an_allocation(bench: Bench, at: int, where: str, span: list[int]) -> None:
    text = f"""
x = tensor.ones(10, device="cuda")
put(1, 1, (x, np.int32(3), np.float32(5)))
put(1, 1, (x, np.int32({at}), np.float32(5)))
y = x + 1
print(y[3].item())
"""
    run = bench.check(PUT + text, simulate="check=off")
    result = run.only
    assert (run.status, run.out) == (86, "6.0\n")
    assert (result["kind"], result["ranges"]) == ("out of bounds", [span])
    assert result["message"] == f"kernel 'put', or what followed it, wrote {where}"
    assert lines(result["accesses"][0]["stack"]) == [f"put(1, 1, (x, np.int32({at}), np.float32(5)))"]
    assert lines(result["memory"]["allocated"]) == ['x = tensor.ones(10, device="cuda")']


def test_write_to_freed_memory_goes_on_with_the_script(bench: Bench) -> None:
    run = bench.check(
        PUT
        + """
x = tensor.ones(10, device="cuda")
stale = Address(x.data_ptr())
del x
for step in range(3):
    put(1, 1, (stale, np.int32(2), np.float32(step)))
print("end")
""",
        simulate="check=off",
    )
    assert run.out == "end\n"
    assert (run.only["kind"], run.only["count"]) == ("use after free", 3)
    assert lines(run.only["memory"]["freed"]) == ["del x"]
    assert lines(run.only["accesses"][0]["stack"]) == ["put(1, 1, (stale, np.int32(2), np.float32(step)))"]


def test_freed_memory_leaves_quarantine_in_the_end(bench: Bench) -> None:
    text = """
x = tensor.ones(10, device="cuda")
stale = Address(x.data_ptr())
del x
for _ in range(2):
    tensor.ones(1000, device="cuda")
put(1, 1, (stale, np.int32(2), np.float32(1)))
"""
    assert bench.check(PUT + text, simulate="check=off").kinds == ["use after free"]
    # Given back to the driver, the memory is nobody's.
    assert bench.check(PUT + text, "--quarantine", "1k", simulate="check=off").kinds == []


def test_write_beside_pinned_memory(bench: Bench) -> None:
    result = bench.check(
        PUT
        + """
h = tensor.ones(10, pin_memory=True)
put(1, 1, (h, np.int32(-1), np.float32(5)))
""",
        simulate="check=off",
    ).only
    assert (result["kind"], result["memory"]["kind"]) == ("out of bounds", "pinned host memory")
    assert result["ranges"] == [[-4, 0]]


@pytest.mark.parametrize("simulate", ["", "check=off"])
def test_host_writing_beside_pinned_memory(bench: Bench, simulate: str) -> None:
    result = bench.check(
        PUT
        + """
import ctypes
h = tensor.ones(10, pin_memory=True)
ctypes.memset(h.data_ptr() + 40, 0, 2)
del h
""",
        simulate=simulate,
    ).only
    assert result["message"].startswith("the host" if not simulate else "something")
    assert result["ranges"] == [[40, 42]]
    assert lines(result["accesses"][0]["stack"]) == ["del h"]


def test_write_on_a_second_device(bench: Bench) -> None:
    text = """
with tensor.cuda.device(1):
    x = tensor.ones(10, device="cuda")
    put(1, 1, (x, np.int32(10), np.float32(5)))
y = tensor.ones(3, device="cuda:0") + 1
print(y.device, y.sum().item(), x.sum().item())
"""
    run = bench.check(PUT + text, simulate="check=off,devices=2")
    assert run.out == "cuda:0 6.0 10.0\n"
    assert run.only["memory"]["device"] == 1


def test_leaks_of_allocators(bench: Bench, request: pytest.FixtureRequest) -> None:
    import sys

    request.addfinalizer(lambda: [sys.__dict__.pop(name, None) for name in ("kept", "pinned")])
    run = bench.check(
        PUT
        + """
import sys
sys.kept = [tensor.ones(5, device="cuda") for _ in range(2)]
sys.pinned = tensor.ones(3, pin_memory=True)
model = tensor.ones(4, 4, device="cuda") @ tensor.ones(4, 4, device="cuda")
""",
        simulate="check=off",
    )
    assert [result["leak"] for result in run.findings] == [
        {"bytes": 40, "allocations": 2},
        {"bytes": 12, "allocations": 1},
    ]


def test_launches_block_and_fresh_memory_is_poisoned(bench: Bench) -> None:
    run = bench.check(
        PUT
        + """
import drv
print(drv.runtime().launch_blocking)
for dtype in (tensor.float64, tensor.float32, tensor.float16, tensor.bfloat16):
    print(tensor.empty(3, device="cuda", dtype=dtype).isnan().all().item())
print(tensor.empty(3, pin_memory=True).isnan().all().item())
print(tensor.cuda.memory_allocated())
""",
        simulate="check=off",
    )
    assert run.out.split() == ["True"] * 6 + ["0"]
    assert run.findings == []


@pytest.mark.parametrize("ending", ["", "tensor.cuda.synchronize()"])
def test_launch_that_fails(bench: Bench, ending: str) -> None:
    run = bench.check(
        f"""
import tensor
stop = tensor.cuda.RawKernel('__global__ void stop() {{ __trap(); }}', "stop")
x = tensor.ones(3, device="cuda")
try:
    stop(1, 1, ())
except RuntimeError as error:
    print(type(error).__name__)
{ending}
""",
        simulate="check=off",
    )
    assert run.out == "LaunchError\n"
    assert run.status == 86
    assert run.only["kind"] == "stopped kernel"
    assert run.only["message"].startswith("cuLaunchKernel(grid (1, 1, 1), ")
    assert "of kernel 'stop' failed: CUDA_ERROR_LAUNCH_FAILED" in run.only["message"]
    assert lines(run.only["accesses"][0]["stack"]) == ["stop(1, 1, ())"]
    assert "leaks were not looked for" in run.err
