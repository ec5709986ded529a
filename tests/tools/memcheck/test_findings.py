"""Every kind of mistake in a program as a user writes it, found on the simulated driver with its lines."""

from __future__ import annotations

import pytest

from tests.tools.running import Bench, lines

pytestmark = pytest.mark.simulator_only

SCHEDULES = ("eager", "lazy", "random")

SET = """
import numpy as np
import tensor

put = tensor.cuda.RawKernel('''
__global__ void put(float* x, int at)
{
    x[at] = 1;
}
''', "put")
"""
ADDRESS = """
class Address:
    def __init__(self, address):
        self.__cuda_array_interface__ = {"data": (address, False)}
"""


@pytest.mark.parametrize(
    ("at", "where", "span"),
    [
        (1000, "right past the end of an allocation of 4000 bytes", [4000, 4004]),
        (1100, "400 bytes past the end of an allocation of 4000 bytes", [4400, 4404]),
        (-3, "that begin 12 bytes before an allocation of 4000 bytes", [-12, -8]),
    ],
)
def test_write_outside_an_allocation(bench: Bench, at: int, where: str, span: list[int]) -> None:
    run = bench.check(f"{SET}\nx = tensor.ones(1000, device='cuda')\nput(1, 1, (x, np.int32({at})))\n")
    result = run.only
    assert run.status == 86
    assert (result["kind"], result["ranges"]) == ("out of bounds", [span])
    assert result["message"] == f"kernel 'put' writes 4 bytes {where}"
    (access,) = result["accesses"]
    assert access["source"] == {"file": "put.cu", "line": 4, "text": "x[at] = 1;"}
    assert access["thread"] == "block (0, 0, 0), thread (0, 0, 0)"
    assert lines(access["stack"]) == [f"put(1, 1, (x, np.int32({at})))"]
    assert lines(result["memory"]["allocated"]) == ["x = tensor.ones(1000, device='cuda')"]
    assert result["memory"]["size"] == 4000
    assert f'File "script.py", line {access["stack"][0]["line"]}, in <module>' in run.err
    assert run.err.endswith(" 1 error\n")


def test_read_outside_an_allocation_within_a_red_zone_of_any_size(bench: Bench) -> None:
    script = """
        import tensor
        peek = tensor.cuda.RawKernel("__global__ void peek(float* x, float* y) { y[0] = x[5000]; }", "peek")
        x, y = tensor.ones(10, device="cuda"), tensor.ones(10, device="cuda")
        peek(1, 1, (x, y))
    """
    run = bench.check(script, "--red-zone", "64k")
    assert (
        run.only["message"]
        == "kernel 'peek' reads 4 bytes 19960 bytes past the end of an allocation of 40 bytes"
    )


def test_null_pointer_and_name_in_a_namespace(bench: Bench) -> None:
    run = bench.check("""
        import numpy as np
        import tensor
        code = "namespace blas { __global__ void clear(float* x) { *x = 0; } }"
        tensor.cuda.RawKernel(code, "blas::clear")(1, 1, (np.uint64(0),))
    """)
    assert run.only["message"] == "kernel 'blas::clear' writes 4 bytes through a null pointer"
    assert run.only["memory"] is None


def test_outside_shared_memory(bench: Bench) -> None:
    run = bench.check("""
        import numpy as np
        import tensor
        code = '''
        __global__ void fill(int n) { extern __shared__ float s[]; for (int i = 0; i < n; ++i) s[i] = i; }
        '''
        tensor.cuda.RawKernel(code, "fill")(1, 1, (np.int32(17),), shared_mem=64)
    """)
    assert run.only["message"] == "kernel 'fill' writes 4 bytes at byte 64 of the block's shared memory"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_use_after_free(bench: Bench, schedule: str) -> None:
    script = f"{SET}{ADDRESS}\nx = tensor.ones(64, device='cuda')\nstale = Address(x.data_ptr())\ndel x\n"
    result = bench.check(f"{script}put(1, 1, (stale, np.int32(7)))\n", "--schedule", schedule).only
    assert result["kind"] == "use after free"
    assert result["message"] == "kernel 'put' writes 4 bytes at byte 28 of 256 bytes that were freed"
    assert lines(result["memory"]["allocated"]) == ["x = tensor.ones(64, device='cuda')"]
    assert lines(result["memory"]["freed"]) == ["del x"]
    assert lines(result["accesses"][0]["stack"]) == ["put(1, 1, (stale, np.int32(7)))"]


def test_freed_memory_is_remembered_behind_many_other_frees(bench: Bench) -> None:
    script = f"""{SET}{ADDRESS}
x = tensor.ones(64, device='cuda')
stale = Address(x.data_ptr())
del x
for _ in range(600):
    tensor.empty(64, device='cuda')
put(1, 1, (stale, np.int32(7)))
"""
    assert bench.check(script).kinds == ["use after free"]


OTHER_STREAM = """
import tensor
side = tensor.cuda.Stream()
x = tensor.ones(1000, device="cuda")
side.wait_stream(tensor.cuda.current_stream())
with tensor.cuda.stream(side):
    y = x * 2
{before}
del x
tensor.cuda.synchronize()
"""


def test_memory_that_another_stream_still_uses_is_freed(bench: Bench) -> None:
    result = bench.check(OTHER_STREAM.format(before="")).only
    assert result["kind"] == "freed while in use"
    assert lines(result["accesses"][0]["stack"]) == ["y = x * 2"]
    assert lines(result["accesses"][1]["stack"]) == ["del x"]
    assert "record_stream" in result["advice"]


def test_memory_that_another_stream_still_uses_is_gone_when_it_runs_late(bench: Bench) -> None:
    result = bench.check(OTHER_STREAM.format(before=""), "--schedule", "lazy").only
    assert result["kind"] == "use after free"
    assert lines(result["memory"]["freed"]) == ["del x"]
    assert "record_stream" in result["advice"]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "before",
    ["x.record_stream(side)", "tensor.cuda.current_stream().wait_stream(side)", "side.synchronize()"],
)
def test_memory_that_another_stream_has_recorded_or_finished_with(
    bench: Bench, schedule: str, before: str
) -> None:
    run = bench.check(OTHER_STREAM.format(before=before), "--schedule", schedule)
    assert (run.status, run.findings) == (0, [])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_read_of_memory_never_written(bench: Bench, schedule: str) -> None:
    script = """
        import tensor
        x = tensor.empty(64, device="cuda")
        x[:32] = 1
        y = x + 1
        print(y[63].item())
    """
    run = bench.check(script, "--schedule", schedule)
    result = run.only
    assert run.out == "nan\n"
    assert (result["kind"], result["ranges"]) == ("uninitialized read", [[128, 256]])
    assert lines(result["accesses"][0]["stack"]) == ["y = x + 1"]
    assert lines(result["memory"]["allocated"]) == ['x = tensor.empty(64, device="cuda")']
    assert result["memory"]["freed"] is None


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_race_between_streams_is_one_finding_with_a_count(bench: Bench, schedule: str) -> None:
    script = """
        import tensor
        x = tensor.zeros(1000, device="cuda")
        with tensor.cuda.stream(tensor.cuda.Stream()):
            for _ in range(3):
                y = x + 1
        tensor.cuda.synchronize()
    """
    run = bench.check(script, "--schedule", schedule)
    result = run.only
    assert (result["kind"], result["count"]) == ("race", 3)
    assert [lines(access["stack"]) for access in result["accesses"]] == [
        ['x = tensor.zeros(1000, device="cuda")'],
        ["y = x + 1"],
    ]
    assert result["accesses"][1]["source"]["file"].endswith("pointwise.cuh")
    assert "(3 times)" in run.err


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_use_of_fresh_memory_on_another_stream(bench: Bench, schedule: str) -> None:
    # With a cache, the block may be one that kernels on the default stream still use.
    script = """
        import tensor
        out = tensor.empty(1000, device="cuda")
        side = tensor.cuda.Stream()
        WAIT
        with tensor.cuda.stream(side):
            out.fill_(1)
        tensor.cuda.synchronize()
    """
    result = bench.check(script.replace("WAIT", ""), "--schedule", schedule).only
    assert (result["kind"], result["accesses"][0]["action"]) == ("race", "is allocated")
    assert "after the allocation on default stream" in result["message"]
    assert "may still use it" in result["advice"]
    wait = "side.wait_stream(tensor.cuda.current_stream())"
    assert bench.check(script.replace("WAIT", wait), "--schedule", schedule).findings == []


def test_race_that_a_waiting_free_would_hide(bench: Bench) -> None:
    # Temporaries are freed between the two: cuMemFree would have waited for the device.
    run = bench.check("""
        import tensor
        x = tensor.ones(1000, device="cuda")
        y = ((x + 1) * 2).sum()
        with tensor.cuda.stream(tensor.cuda.Stream()):
            z = y + 1
        tensor.cuda.synchronize()
    """)
    assert "race" in run.kinds


def test_race_of_the_host_with_a_copy_from_pinned_memory(bench: Bench) -> None:
    result = bench.check("""
        import tensor
        h = tensor.ones(1000, pin_memory=True)
        d = h.to("cuda", non_blocking=True)
        h[0] = 5.0
    """).only
    assert result["kind"] == "race"
    assert result["memory"]["kind"] == "pinned host memory"
    assert [access["operation"] for access in result["accesses"]][1] == "the host"
    assert lines(result["accesses"][1]["stack"]) == ["h[0] = 5.0"]


def test_race_within_a_kernel(bench: Bench) -> None:
    result = bench.check("""
        import tensor
        code = '''
        __global__ void reverse(float* x) {
            __shared__ float s[64];
            s[threadIdx.x] = x[threadIdx.x];
            x[threadIdx.x] = s[63 - threadIdx.x];
        }
        '''
        x = tensor.ones(64, device="cuda")
        tensor.cuda.RawKernel(code, "reverse")(1, 64, (x,))
    """).only
    assert result["kind"] == "race within a kernel"
    assert [access["source"]["line"] for access in result["accesses"]] == [4, 5]
    assert "__syncthreads()" in result["advice"]


def test_kernels_that_are_gone_are_quoted_unless_their_name_is_ambiguous(bench: Bench) -> None:
    text = """
        import tensor

        def run(line, name="k"):
            code = "__global__ void " + name + "(float* x) {\\n" + line + "\\n}"
            tensor.cuda.RawKernel(code, name)(1, 64, (tensor.ones(64, device="cuda"),))

        run("x[0] = threadIdx.x;")
        MORE
    """
    (access, _) = bench.check(text.replace("MORE", "")).only["accesses"]
    assert access["source"] == {"file": "k.cu", "line": 2, "text": "x[0] = threadIdx.x;"}
    (access, _) = bench.check(text.replace("MORE", 'run("x[threadIdx.x] = 1;")')).only["accesses"]
    assert access["source"] == {"file": "k.cu", "line": 2, "text": ""}


def test_misaligned_access_and_what_fails_after_it(bench: Bench) -> None:
    run = bench.check("""
        import tensor
        code = "__global__ void pairs(float* x) { *(float2*)(x + 1) = make_float2(0, 0); }"
        x = tensor.ones(64, device="cuda")
        tensor.cuda.RawKernel(code, "pairs")(1, 1, (x,))
        for _ in range(2):
            try:
                tensor.ones(3, device="cuda").sum().item()
            except RuntimeError as error:
                print(type(error).__name__)
        raise SystemExit(3)
    """)
    assert run.out == "MisalignedAddressError\n" * 2
    assert run.only["kind"] == "misaligned access"
    assert run.only["message"].startswith("kernel 'pairs' writes 8 bytes at 0x")
    assert lines(run.only["memory"]["allocated"]) == ['x = tensor.ones(64, device="cuda")']
    assert (run.status, run.document["script_status"]) == (86, 3)
    assert "leaks were not looked for" in run.err


def test_failed_assertion_in_a_kernel_that_nothing_waited_for(bench: Bench) -> None:
    run = bench.check("""
        import tensor
        w = tensor.ones(4, 3, device="cuda")
        y = w.index_select(0, tensor.tensor([1, 9], device="cuda"))
    """)
    assert run.only["kind"] == "stopped kernel"
    assert "index out of bounds" in run.only["message"]
    assert lines(run.only["accesses"][0]["stack"])[0].startswith("y = w.index_select")


def test_trap_tells_its_line_and_thread(bench: Bench) -> None:
    run = bench.check("""
        import tensor
        code = '''
        __global__ void stop() {
            if (threadIdx.x == 5)
                __trap();
        }
        '''
        tensor.cuda.RawKernel(code, "stop")(1, 32, ())
    """)
    assert (run.only["kind"], run.only["message"]) == (
        "stopped kernel",
        "kernel 'stop' stopped itself with a trap",
    )
    (access,) = run.only["accesses"]
    assert access["source"] == {"file": "stop.cu", "line": 4, "text": "__trap();"}
    assert access["thread"] == "block (0, 0, 0), thread (5, 0, 0)"


def test_access_just_before_a_small_allocation(bench: Bench) -> None:
    run = bench.check(f"{SET}\nx = tensor.ones(1, device='cuda')\nput(1, 1, (x, np.int32(-9)))\n")
    assert (
        run.only["message"]
        == "kernel 'put' writes 4 bytes that begin 36 bytes before an allocation of 4 bytes"
    )


def test_wild_address(bench: Bench) -> None:
    run = bench.check(f"{SET}\nx = tensor.ones(1, device='cuda')\nput(1, 1, (x, np.int32(1 << 30)))\n")
    assert run.only["message"].endswith("where nothing is")
    assert run.only["memory"] is None


def test_memory_of_another_device_without_peer_access(bench: Bench) -> None:
    script = f"{SET}{ADDRESS}\nx = tensor.ones(9, device='cuda:1')\nput(1, 1, (Address(x.data_ptr()), np.int32(0)))\n"
    result = bench.check(script, simulate="devices=2").only
    assert (result["kind"], result["memory"]["device"]) == ("forbidden access", 1)


LEAKS = """
import sys
import drv
import tensor

def batch():
    return tensor.zeros(100, device="cuda")

sys.kept = [batch() for _ in range(3)]
sys.pinned = tensor.ones(10, pin_memory=True)
{more}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_leaks(bench: Bench, schedule: str, request: pytest.FixtureRequest) -> None:
    import sys

    request.addfinalizer(lambda: [sys.__dict__.pop(name, None) for name in ("kept", "pinned")])
    run = bench.check(LEAKS.format(more="drv.runtime().driver.cuMemAlloc(77)"), "--schedule", schedule)
    assert run.kinds == ["leak"] * 3
    device, pinned, raw = run.findings
    assert device["leak"] == {"bytes": 1200, "allocations": 3}
    assert 'return tensor.zeros(100, device="cuda")' in lines(device["memory"]["allocated"])
    assert lines(pinned["memory"]["allocated"]) == ["sys.pinned = tensor.ones(10, pin_memory=True)"]
    assert (pinned["memory"]["kind"], raw["leak"]["bytes"]) == ("pinned host memory", 77)
    assert run.status == 86


def test_leaks_are_not_looked_for_when_unwanted(bench: Bench, request: pytest.FixtureRequest) -> None:
    import sys

    request.addfinalizer(lambda: [sys.__dict__.pop(name, None) for name in ("kept", "pinned")])
    run = bench.check(LEAKS.format(more=""), "--no-leak-check")
    assert (run.status, run.findings) == (0, [])


def test_what_modules_globals_and_cycles_hold_is_no_leak(bench: Bench) -> None:
    bench.write(
        "import tensor\nTABLE = tensor.ones(10, device='cuda')\nclass Model:\n    weights = TABLE + 1\n",
        "layers_of_mine.py",
    )
    run = bench.check("""
        import functools
        import layers_of_mine
        import tensor

        @functools.lru_cache
        def table(n):
            return tensor.ones(n, pin_memory=True)

        class Node:
            pass

        table(8)
        node = Node()
        node.me, node.data = node, tensor.ones(5, device="cuda")
        model = layers_of_mine.Model()
        model.weights.requires_grad_().sum().backward()
    """)
    assert (run.status, run.findings, run.err.count("memcheck:")) == (0, [], 1)


def test_a_running_thread_keeps_what_it_holds(bench: Bench) -> None:
    run = bench.check("""
        import threading
        import tensor

        def wait(data):
            threading.Event().wait(2)

        threading.Thread(target=wait, args=(tensor.ones(6, device="cuda"),), daemon=True).start()
    """)
    assert run.kinds == ["leak"]


def test_a_runtime_that_the_script_drops_is_checked_too(bench: Bench) -> None:
    run = bench.check(
        """
        import drv
        import tensor
        for schedule in ("eager", "lazy"):
            with drv.simulator.installed(schedule=schedule, check="off"):
                x = tensor.zeros(10, device="cuda")
                with tensor.cuda.stream(tensor.cuda.Stream()):
                    y = x + 1
        """,
        simulate=None,
    )
    assert run.only["kind"] == "race"
    assert run.only["count"] == 2
