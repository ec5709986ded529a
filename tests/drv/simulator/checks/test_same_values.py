"""Threads that store the same value to one address: a finding of its own kind, and only for those who ask for it."""

from __future__ import annotations

import pytest

from .machine import Machine

# Addresses and values that the compiler does not know: 4 blocks of 64 threads, out[] holds zeros.
SOURCE = r"""
extern "C" __global__ void one_instruction(int* out)
{
    __shared__ int flags[8];
    flags[gridDim.x] = out[900] + 7;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = flags[blockDim.x / 16];
}
extern "C" __global__ void two_instructions(int* out)
{
    __shared__ int flag;
    if (threadIdx.x < 32) flag = 7; else flag = (int)gridDim.x + 3;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = flag;
}
extern "C" __global__ void another_value(int* out)
{
    __shared__ int flag;
    flag = threadIdx.x < 63 ? 7 : 8;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = flag;
}
extern "C" __global__ void another_value_later(int* out)
{
    __shared__ int flag;
    if (threadIdx.x < 32) flag = 7; else flag = (int)gridDim.x;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = flag;
}
extern "C" __global__ void blocks(int* out)
{
    if (threadIdx.x == 0) out[0] = gridDim.x;
}
extern "C" __global__ void blocks_that_differ(int* out)
{
    if (threadIdx.x == 0) out[0] = blockIdx.x / 3;
}
extern "C" __global__ void quads(int4* out) { out[0] = make_int4(1, 2, 3, 4); }
extern "C" __global__ void quads_that_differ(int4* out) { out[0] = make_int4(1, 2, 3, threadIdx.x == 63); }
extern "C" __global__ void wide_over_narrow(int* out)
{
    if (threadIdx.x == 0) out[1] = 5;
    if (threadIdx.x == 32) *(int2*)out = make_int2(6, 5);
}
extern "C" __global__ void read_meanwhile(int* out)
{
    __shared__ int flags[8];
    if (threadIdx.x == 0) flags[gridDim.x] = out[900] + 7;
    __syncthreads();
    if (threadIdx.x >= 32) out[blockIdx.x * 64 + threadIdx.x] = flags[blockDim.x / 16];
    if (threadIdx.x == 0) flags[gridDim.x] = out[900] + 7;
}
extern "C" __global__ void odd_addresses(int* out)
{
    // Half of the lanes in shared memory, half in global: one store instruction on both.
    __shared__ int flag;
    int* place = threadIdx.x % 2 ? &flag : out;
    *place = 7;
    __syncthreads();
    if (threadIdx.x == 0) out[1] = flag;
}
"""

CASES = [
    ("one_instruction", {"same value"}),
    ("two_instructions", {"same value"}),
    ("another_value", {"shared race"}),
    ("another_value_later", {"shared race", "same value"}),
    ("blocks", {"same value"}),
    ("blocks_that_differ", {"kernel race"}),
    ("quads", {"same value"}),
    ("quads_that_differ", {"kernel race", "same value"}),
    ("wide_over_narrow", {"same value"}),
    ("read_meanwhile", {"shared race"}),
    ("odd_addresses", {"same value"}),
]


def checked(name: str, same_values: str) -> Machine:
    machine = Machine(check="full", devices=1, same_values=same_values)
    out = machine.alloc(4096)
    machine.fill(out, 0, 0, 4096)
    machine.launch(machine.kernels(SOURCE)[name], 4, 64, 0, out)
    machine.finish()
    return machine


@pytest.mark.parametrize(("name", "kinds"), CASES, ids=[case[0] for case in CASES])
def test_kinds(name: str, kinds: set[str]) -> None:
    assert set(checked(name, "report").finding_kinds) == kinds
    assert set(checked(name, "ignore").finding_kinds) == kinds - {"same value"}


def test_what_the_report_says() -> None:
    machine = checked("one_instruction", "report")
    (finding,) = machine.driver.findings
    text = str(finding)
    assert text.startswith(
        "same value within kernel 'one_instruction': two threads store the same value to shared memory"
    )
    line = SOURCE[: SOURCE.index("flags[gridDim.x] = ")].count("\n") + 1
    assert f"kernels.cu:{line} (PTX line" in text
    assert "It is the same whichever value stays; one thread would be enough." in text


def test_it_is_raised_where_it_is_asked_for() -> None:
    import drv
    from nvrtc_kernels import RawKernel

    kernel = RawKernel("__global__ void all_one(int* x) { *x = 1; }", "all_one")
    for options in ({}, {"same_values": "report"}):
        with drv.simulator.installed(check="full", **options):
            memory = drv.DeviceMemory(4)
            kernel(2, 32, (memory,))
            if options:
                with pytest.raises(drv.DataRaceError, match="same value within kernel '.*all_one"):
                    drv.Device(0).synchronize()
            else:
                drv.Device(0).synchronize()
    with pytest.raises(drv.InvalidValueError, match="same_values='yes': expected one of ignore, report"):
        drv.simulator.install(same_values="yes")
