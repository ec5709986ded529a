"""Accesses that go wrong: the error CUDA documents, and a report that says where and whose fault it is."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drv
from tests.drv.simulator.kernels.conftest import Launch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.simulator_only

SOURCE = r"""
extern "C" __global__ void write_at(int* p, long long at) {
    if (blockIdx.x == 2 && threadIdx.x == 5) p[at] = 1;  // write_at
}
extern "C" __global__ void read_at(const double* p, long long at, double* out) {
    if (threadIdx.y == 1) out[0] = p[at];  // read_at
}
extern "C" __global__ void off_by_one(float* p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) p[i] = i;  // off_by_one
}
extern "C" __global__ void bytes_at(char* p, long long at, int width) {
    switch (width) {
        case 1: p[at] = 1; break;
        case 2: *(short*)(p + at) = 1; break;
        case 4: *(int*)(p + at) = 1; break;
        case 8: *(double*)(p + at) = 1; break;
        case 16: *(float4*)(p + at) = make_float4(1, 1, 1, 1); break;
    }
}
extern "C" __global__ void read_vector(const float4* p, float* out) {
    float4 v = p[threadIdx.x];  // read_vector
    out[0] = v.x + v.y + v.z + v.w;
}
extern "C" __global__ void atomic_at(unsigned* p, long long at) { atomicAdd(p + at, 1u); }  // atomic_at
extern "C" __global__ void unread_atomic(float* p, long long at) { atomicAdd((float*)((char*)p + at), 1.0f); }

__constant__ int table[4] = {1, 2, 3, 4};
__device__ int variable[3];
extern "C" __global__ void write_constant() { *(volatile int*)&table[1] = 7; }
extern "C" __global__ void read_constant(int at, int* out) { *out = table[at]; }
extern "C" __global__ void past_variable(int at) { variable[at] = 1; }

extern "C" __global__ void shared_static(int at, int* out) {
    __shared__ int cells[32];
    cells[threadIdx.x + at] = threadIdx.x;  // shared_static
    __syncthreads();
    out[threadIdx.x] = cells[threadIdx.x];
}
extern "C" __global__ void shared_dynamic(int at, int* out) {
    extern __shared__ int cells[];
    cells[at] = 3;  // shared_dynamic
    out[0] = cells[at];
}
extern "C" __global__ void shared_misaligned(int at, int* out) {
    __shared__ char cells[64];
    *(volatile int*)(cells + at) = 5;
    out[0] = cells[at];
}
extern "C" __global__ void local_array(int at, int* out) {
    int cells[8];
    for (int i = 0; i < 8; ++i) cells[i] = i * threadIdx.x;
    cells[at] = 1;  // local_array
    out[threadIdx.x] = cells[threadIdx.x & 7] + cells[at & 3];
}

__device__ __noinline__ void store(int* p, int at) { p[at] = 1; }  // store
extern "C" __global__ void generic_pointers(int* memory, int at) {
    __shared__ int cells[32];
    int mine[4] = {1, 2, 3, 4};
    int* p = threadIdx.x % 3 == 0 ? memory : threadIdx.x % 3 == 1 ? cells : mine;
    store(p, threadIdx.x == 20 ? at : 0);
    memory[threadIdx.x] = cells[0] + mine[threadIdx.x % 4];
}

__device__ __noinline__ void inner(int* p) { *p = 1; }  // inner
extern "C" __global__ void in_a_function(int* p) { if (threadIdx.x == 3) inner(p); }

extern "C" __global__ void traps(int when) { if (threadIdx.x == when) __trap(); }
extern "C" __global__ void falls_through(int* p) { if (p[0]) __builtin_unreachable(); p[1] = 1; }

__device__ __noinline__ int deeper(int n) {
    volatile int frame[64];
    frame[n & 63] = n;
    return n == 0 ? 0 : deeper(n + 1) + frame[n & 63];
}
extern "C" __global__ void endless_recursion(int* out) { out[0] = deeper(1); }

extern "C" __global__ void calls_null(int* out, unsigned long long target) {
    typedef int (*Function)(int);
    out[0] = ((Function)target)(1);
}

extern "C" __global__ void two_barriers(int* out) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
    else asm volatile("bar.sync 2, 64;");
    out[threadIdx.x] = 1;
}

extern "C" __global__ void copy(int* to, const int* from) { to[threadIdx.x] = from[threadIdx.x]; }
extern "C" __global__ void fine(int* p) { p[threadIdx.x] = 7; }
"""


@pytest.fixture(autouse=True)
def _start_over() -> Iterator[None]:
    """A fault loses the context."""
    drv.reset()
    yield
    drv.reset()


def line_of(mark: str) -> int:
    """Line of the source that ends with a comment ``mark``."""
    (line,) = (number for number, text in enumerate(SOURCE.splitlines(), 1) if text.endswith(f"// {mark}"))
    return line


def start(
    launch: Launch, name: str, grid: int, block: int | tuple[int, ...], *arguments: object, shared: int = 0
) -> None:
    drv.launch(launch.function(SOURCE, name), grid, block, arguments, shared=shared)


def fault(
    launch: Launch, name: str, grid: int, block: int | tuple[int, ...], *arguments: object, shared: int = 0
) -> drv.CudaError:
    """The error that waiting for a launch raises."""
    start(launch, name, grid, block, *arguments, shared=shared)
    with pytest.raises(drv.CudaError) as raised:
        launch.device.synchronize()
    return raised.value


def check_report(error: drv.CudaError, *parts: str) -> None:
    text = str(error)
    for part in parts:
        assert part in text, f"{part!r} is missing in:\n{text}"


def here(offset: int = 0) -> str:
    """Line of the caller (plus ``offset``), as a traceback writes it."""
    frame = inspect.stack()[1]
    return f'File "{frame.filename}", line {frame.lineno + offset}, in {frame.function}'


def test_write_past_the_end(launch: Launch) -> None:
    memory = drv.DeviceMemory(400, launch.device)
    where = here(-1)
    error = fault(launch, "write_at", 4, 64, memory, np.int64(100))
    assert isinstance(error, drv.IllegalAddressError)
    assert error.status == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert error.sticky
    check_report(error, "write_at", f"outsider.cu:{line_of('write_at')}", "wrote 4 bytes", "400 bytes", where)
    check_report(error, "block (2, 0, 0)", "thread (5, 0, 0)")


def test_read_before_the_start(launch: Launch) -> None:
    drv.DeviceMemory(1 << 20, launch.device)
    memory, out = drv.DeviceMemory(64, launch.device), drv.DeviceMemory(8, launch.device)
    where = here(-1)
    error = fault(launch, "read_at", 1, (4, 3), memory, np.int64(-1), out)
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "read_at", f"outsider.cu:{line_of('read_at')}", "read 8 bytes", "64 bytes", where)
    check_report(error, "block (0, 0, 0)", "thread (0, 1, 0)")


def test_off_by_one_names_the_thread(launch: Launch) -> None:
    memory = drv.DeviceMemory(4 * 1000, launch.device)
    error = fault(launch, "off_by_one", 8, 128, memory, np.int32(1000))
    assert isinstance(error, drv.IllegalAddressError)
    check_report(
        error, "off_by_one", f"outsider.cu:{line_of('off_by_one')}", "block (7, 0, 0)", "thread (104, 0, 0)"
    )


def test_use_after_free(launch: Launch) -> None:
    memory = drv.DeviceMemory(256, launch.device)
    where = here(-1)
    address = memory.address
    memory.free()
    freed = here(-1)
    error = fault(launch, "write_at", 3, 32, np.uint64(address), np.int64(3))
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "freed", "256 bytes", where, freed)


def test_null(launch: Launch) -> None:
    error = fault(launch, "write_at", 3, 32, np.uint64(0), np.int64(0))
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "write_at", "null")


def test_host_memory_that_is_not_pinned(launch: Launch) -> None:
    array = np.zeros(100, np.int32)
    error = fault(launch, "write_at", 3, 32, np.uint64(array.ctypes.data), np.int64(0))
    assert isinstance(error, drv.IllegalAddressError)
    assert not array.any()


def test_pinned_memory_may_be_used(launch: Launch) -> None:
    memory = drv.PinnedMemory(4 * 64, launch.device)
    start(launch, "fine", 1, 64, memory)
    launch.device.synchronize()
    assert (memory.array("i4") == 7).all()
    error = fault(launch, "fine", 1, 65, memory)
    assert isinstance(error, drv.IllegalAddressError)


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_misaligned_accesses(launch: Launch, width: int) -> None:
    memory = drv.DeviceMemory(256, launch.device)
    error = fault(launch, "bytes_at", 1, 1, memory, np.int64(width // 2), np.int32(width))
    assert isinstance(error, drv.MisalignedAddressError)
    assert error.status == "CUDA_ERROR_MISALIGNED_ADDRESS"
    check_report(error, "bytes_at", f"{width} bytes")


def test_misaligned_vector_read(launch: Launch) -> None:
    memory, out = drv.DeviceMemory(256, launch.device), drv.DeviceMemory(4, launch.device)
    error = fault(launch, "read_vector", 1, 4, np.uint64(memory.address + 8), out)
    assert isinstance(error, drv.MisalignedAddressError)
    check_report(error, "read_vector", f"outsider.cu:{line_of('read_vector')}", "16 bytes")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nbytes=st.integers(1, 600), data=st.data())
def test_exactly_the_bytes_of_the_allocation_are_its(
    launch: Launch, nbytes: int, data: st.DataObject
) -> None:
    width = data.draw(st.sampled_from([1, 2, 4, 8, 16]))
    at = data.draw(st.integers(-20, nbytes + 20))
    memory = drv.DeviceMemory(nbytes, launch.device)
    start(launch, "bytes_at", 1, 1, memory, np.int64(at), np.int32(width))
    if 0 <= at <= nbytes - width and at % width == 0:
        launch.device.synchronize()
        return
    kind = drv.MisalignedAddressError if at % width else drv.IllegalAddressError
    try:
        with pytest.raises(kind):
            launch.device.synchronize()
    finally:
        drv.reset()


def test_atomics_are_checked(launch: Launch) -> None:
    memory = drv.DeviceMemory(64, launch.device)
    error = fault(launch, "atomic_at", 1, 40, memory, np.int64(16))
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "atomic_at", f"outsider.cu:{line_of('atomic_at')}", "64 bytes")


@pytest.mark.parametrize(("at", "kind"), [(64, drv.IllegalAddressError), (2, drv.MisalignedAddressError)])
def test_atomics_without_result_are_checked(launch: Launch, at: int, kind: type[drv.CudaError]) -> None:
    memory = drv.DeviceMemory(64, launch.device)
    assert isinstance(fault(launch, "unread_atomic", 1, 1, memory, np.int64(at)), kind)


def test_constants_are_not_written(launch: Launch) -> None:
    """The compiler sees that the address is a constant's, and makes a trap of the store."""
    error = fault(launch, "write_constant", 1, 1)
    assert isinstance(error, drv.LaunchError)
    check_report(error, "write_constant", "trap")


def test_past_a_constant(launch: Launch) -> None:
    out = drv.DeviceMemory(4, launch.device)
    assert isinstance(fault(launch, "read_constant", 1, 1, np.int32(400), out), drv.IllegalAddressError)


def test_past_a_variable(launch: Launch) -> None:
    error = fault(launch, "past_variable", 1, 1, np.int32(3))
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "past_variable", "variable", "12 bytes")


@pytest.mark.parametrize("at", [1, 1000, -1, 1 << 24])
def test_outside_static_shared_memory(launch: Launch, at: int) -> None:
    out = drv.DeviceMemory(128, launch.device)
    error = fault(launch, "shared_static", 2, 32, np.int32(at), out)
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "shared_static", f"outsider.cu:{line_of('shared_static')}", "shared", "128 bytes")


def test_outside_dynamic_shared_memory(launch: Launch) -> None:
    out = drv.DeviceMemory(4, launch.device)
    start(launch, "shared_dynamic", 1, 1, np.int32(9), out, shared=40)
    launch.device.synchronize()
    error = fault(launch, "shared_dynamic", 1, 1, np.int32(10), out, shared=40)
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "shared_dynamic", f"outsider.cu:{line_of('shared_dynamic')}", "shared", "40 bytes")


def test_misaligned_shared_access(launch: Launch) -> None:
    out = drv.DeviceMemory(4, launch.device)
    error = fault(launch, "shared_misaligned", 1, 1, np.int32(3), out)
    assert isinstance(error, drv.MisalignedAddressError)


@pytest.mark.parametrize("at", [8000, -70000, 1 << 28])
def test_outside_local_memory(launch: Launch, at: int) -> None:
    out = drv.DeviceMemory(64, launch.device)
    error = fault(launch, "local_array", 1, 16, np.int32(at), out)
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "local_array", f"outsider.cu:{line_of('local_array')}", "local")


@pytest.mark.parametrize("at", [-1, -10000, 1 << 14, -(1 << 30)])
def test_outside_through_a_generic_pointer(launch: Launch, at: int) -> None:
    memory = drv.DeviceMemory(128, launch.device)
    start(launch, "generic_pointers", 1, 32, memory, np.int32(0))
    launch.device.synchronize()
    error = fault(launch, "generic_pointers", 1, 32, memory, np.int32(at))
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "generic_pointers", f"outsider.cu:{line_of('store')}", "thread (20, 0, 0)")


def test_inside_a_function(launch: Launch) -> None:
    error = fault(launch, "in_a_function", 1, 8, np.uint64(16))
    assert isinstance(error, drv.IllegalAddressError)
    check_report(error, "in_a_function", f"outsider.cu:{line_of('inner')}", "thread (3, 0, 0)")


def test_another_device_without_peer_access(launch: Launch) -> None:
    with drv.simulator.installed(devices=2, peers="none"):
        there = drv.DeviceMemory(256, drv.Device(1))
        error = fault(launch, "fine", 1, 32, np.uint64(there.address))
        assert isinstance(error, drv.IllegalAddressError)
        check_report(error, "device 1", "peer")


def test_another_device_with_peer_access_not_enabled_and_enabled(launch: Launch) -> None:
    with drv.simulator.installed(devices=2):
        there = drv.DeviceMemory(256, drv.Device(1))
        drv.Device(0).enable_peer_access(drv.Device(1))
        start(launch, "fine", 1, 64, np.uint64(there.address))
        drv.Device(0).synchronize()
        out = np.zeros(64, np.int32)
        drv.copy_to_host(out, there)
        assert (out == 7).all()
    with drv.simulator.installed(devices=2):
        there = drv.DeviceMemory(256, drv.Device(1))
        assert isinstance(fault(launch, "fine", 1, 1, np.uint64(there.address)), drv.IllegalAddressError)


def test_trap(launch: Launch) -> None:
    start(launch, "traps", 1, 32, np.int32(99))
    launch.device.synchronize()
    error = fault(launch, "traps", 1, 32, np.int32(9))
    assert isinstance(error, drv.LaunchError | drv.IllegalInstructionError)
    check_report(error, "traps", "thread (9, 0, 0)")


def test_endless_recursion(launch: Launch) -> None:
    out = drv.DeviceMemory(4, launch.device)
    error = fault(launch, "endless_recursion", 1, 2, out)
    assert isinstance(error, drv.DeviceFaultError)
    check_report(error, "endless_recursion", "stack")


@pytest.mark.parametrize("target", [0, 12345])
def test_call_of_what_is_no_function(launch: Launch, target: int) -> None:
    out = drv.DeviceMemory(4, launch.device)
    error = fault(launch, "calls_null", 1, 1, out, np.uint64(target))
    assert isinstance(error, drv.DeviceFaultError)


def test_barriers_that_can_never_be_passed(launch: Launch) -> None:
    out = drv.DeviceMemory(256, launch.device)
    error = fault(launch, "two_barriers", 1, 64, out)
    assert isinstance(error, drv.LaunchError)
    check_report(error, "two_barriers", "barrier")


def test_a_fault_stays_until_reset(launch: Launch) -> None:
    memory = drv.DeviceMemory(256, launch.device)
    fault(launch, "write_at", 3, 32, memory, np.int64(64))
    for call in (
        lambda: drv.DeviceMemory(16, launch.device),
        lambda: start(launch, "fine", 1, 1, memory),
        lambda: drv.copy_to_host(np.zeros(4, np.uint8), memory, 4),
        launch.device.synchronize,
    ):
        with pytest.raises(drv.IllegalAddressError, match="write_at"):
            call()
    drv.reset()
    fresh = drv.DeviceMemory(256, launch.device)
    start(launch, "fine", 1, 64, fresh)
    out = np.zeros(64, np.int32)
    drv.copy_to_host(out, fresh)
    assert (out == 7).all()


def test_the_report_names_the_launch(launch: Launch) -> None:
    memory = drv.DeviceMemory(16, launch.device)
    function = launch.function(SOURCE, "fine")
    drv.launch(function, 1, 64, (memory,))
    where = here(-1)
    with pytest.raises(drv.IllegalAddressError) as raised:
        launch.device.synchronize()
    check_report(raised.value, where)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_the_innocent_run_first(launch: Launch, schedule: str) -> None:
    with drv.simulator.installed(schedule=schedule):
        memory, other = drv.DeviceMemory(256, launch.device), drv.DeviceMemory(256, launch.device)
        start(launch, "fine", 1, 64, memory)
        start(launch, "copy", 1, 64, other, memory)
        start(launch, "copy", 1, 65, other, memory)
        with pytest.raises(drv.IllegalAddressError, match="copy"):
            launch.device.synchronize()


def test_bad_launches(launch: Launch) -> None:
    memory = drv.DeviceMemory(64, launch.device)
    for grid, block, shared in (
        (1, 1025, 0), (1, (32, 32, 2), 0), ((1, 70000), 1, 0), ((1, 1, 70000), 1, 0), (0, 1, 0), (1, 0, 0),
        (1, (1, 1, 65), 0), (1, 1, 10**6),
    ):  # fmt: skip
        with pytest.raises((drv.InvalidValueError, drv.LaunchResourcesError)):
            drv.launch(launch.function(SOURCE, "fine"), grid, block, (memory,), shared=shared)
    with pytest.raises(drv.InvalidValueError):
        drv.launch(launch.function(SOURCE, "fine"), 1, 1, (memory, np.int32(1)))
    with pytest.raises(drv.InvalidValueError):
        drv.launch(launch.function(SOURCE, "write_at"), 1, 1, (memory, np.int32(1)))
    start(launch, "fine", 1, 16, memory)
    launch.device.synchronize()
