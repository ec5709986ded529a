from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from tests.drv.simulator.compiled import KERNELS, ptx
from tests.drv.simulator.machine import Machine

from .memory.test_virtual_memory import access, mapped, properties

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

N = 1000


class Program:
    """The test kernels, loaded on the current device of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.module = machine.cuModuleLoadData(ptx(KERNELS, "--generate-line-info"))

    def __getattr__(self, name: str) -> Any:
        return self.machine.cuModuleGetFunction(self.module, name.encode())

    def launch(
        self,
        name: str,
        values: tuple[Any, ...],
        types: tuple[Any, ...],
        *,
        grid: Any = (1, 1, 1),
        block: Any = (32, 1, 1),
        shared: int = 0,
        stream: Any = 0,
    ) -> str:
        return self.machine.status(
            "cuLaunchKernel", getattr(self, name), *grid, *block, shared, stream, (values, types), 0
        )


@pytest.fixture
def program(machine: Machine) -> Program:
    return Program(machine)


POINTER, FLOAT, INT = ctypes.c_void_p, ctypes.c_float, ctypes.c_int


def floats(machine: Machine, values: np.ndarray) -> int:
    memory = machine.device_memory(values.nbytes)
    machine.poke(memory, values.astype(np.float32).view(np.uint8))
    return memory


def read(machine: Machine, address: int, count: int, dtype: Any = np.float32) -> np.ndarray:
    return machine.peek(address, count * np.dtype(dtype).itemsize).view(dtype)


@pytest.mark.parametrize("form", ["values", "address", "buffer", "extra", "handles", "ctypes"])
def test_forms_of_parameters(machine: Machine, program: Program, form: str) -> None:
    x = np.arange(N, dtype=np.float32)
    out, source = floats(machine, np.ones(N)), floats(machine, x)
    grid, block = (-(-N // 256), 1, 1), (256, 1, 1)
    function = program.axpy
    parameters: Any = ((out, source, 2.0, N), (POINTER, POINTER, FLOAT, INT))
    extra: Any = 0
    slots = (POINTER(out), POINTER(source), FLOAT(2.0), INT(N))
    table = (ctypes.c_void_p * 4)(*(ctypes.addressof(slot) for slot in slots))
    packed = np.array([(out, source, 2.0, N)], "u8,u8,f4,i4")
    size = ctypes.c_size_t(packed.nbytes)
    words = (ctypes.c_void_p * 5)(1, packed.ctypes.data, 2, ctypes.addressof(size), 0)
    if form == "address":
        parameters = ctypes.addressof(table)
    elif form == "buffer":
        parameters = np.frombuffer(bytes(table), np.uint64)
    elif form == "extra":
        parameters, extra = 0, ctypes.addressof(words)
    elif form == "handles":
        values = (cuda.CUdeviceptr(out), cuda.CUdeviceptr(source), 2.0, N)
        parameters = (values, (None, None, FLOAT, INT))
    elif form == "ctypes":
        parameters = (slots, (POINTER, POINTER, FLOAT, INT))
    machine.cuLaunchKernel(function, *grid, *block, 0, 0, parameters, extra)
    assert (read(machine, out, N) == 1 + 2 * x).all()


def test_parameters_are_copied_by_the_launch(lazy: Machine) -> None:
    program = Program(lazy)
    out = lazy.device_memory(8)
    slots = [
        ctypes.c_int8(3),
        ctypes.c_void_p(out),
        ctypes.c_int16(-20),
        (ctypes.c_double * 2)(0.0, 1000.0),
        ctypes.c_bool(True),
    ]
    table = (ctypes.c_void_p * 5)(*(ctypes.addressof(slot) for slot in slots))
    lazy.cuLaunchKernel(program.mixed, 1, 1, 1, 1, 1, 1, 0, 0, ctypes.addressof(table), 0)
    for slot in slots:
        ctypes.memset(ctypes.addressof(slot), 0, ctypes.sizeof(slot))
    assert read(lazy, out, 1, np.float64)[0] == 0
    lazy.cuStreamSynchronize(0)
    assert read(lazy, out, 1, np.float64)[0] == 3 - 20 + 1000 + 0.5


def test_launches_keep_stream_order(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    program = Program(machine)
    x = np.arange(64, dtype=np.float32)
    out, source, stream = floats(machine, np.zeros(64)), floats(machine, x), machine.stream()
    for _ in range(3):
        arguments = ((out, source, 1.0, 64), (POINTER, POINTER, FLOAT, INT))
        assert program.launch("axpy", *arguments, block=(64, 1, 1), stream=stream) == "SUCCESS"
        assert (
            program.launch("scale_by_table", (out,), (POINTER,), block=(64, 1, 1), stream=stream) == "SUCCESS"
        )
    machine.cuStreamSynchronize(stream)
    expected, factor = np.zeros(64, np.float32), np.tile(np.arange(1, 5, dtype=np.float32), 16)
    for _ in range(3):
        expected = (expected + x) * factor
    assert (read(machine, out, 64) == expected).all()


def test_module_variables_keep_their_values(machine: Machine, program: Program) -> None:
    out = machine.device_memory(4)
    for step in range(3):
        assert program.launch("count", (out,), (POINTER,), block=(1, 1, 1)) == "SUCCESS"
        assert read(machine, out, 1, np.int32)[0] == 41 + step + (42 + step) * 1000


def test_dynamic_shared_memory(machine: Machine, program: Program) -> None:
    data = machine.device_memory(400)
    machine.poke(data, np.arange(100, dtype=np.int32).view(np.uint8))
    arguments = ("reversed", (data,), (POINTER,))
    assert program.launch(*arguments, block=(100, 1, 1), shared=400) == "SUCCESS"
    assert read(machine, data, 100, np.int32).tolist() == list(range(99, -1, -1))
    assert program.launch(*arguments, block=(100, 1, 1), shared=(48 << 10) + 1) == "INVALID_VALUE"
    attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    machine.cuFuncSetAttribute(program.reversed, attribute, 100 << 10)
    assert program.launch(*arguments, block=(100, 1, 1), shared=100 << 10) == "SUCCESS"


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((0, 1, 1), (1, 1, 1)),
        ((1, 0, 1), (1, 1, 1)),
        ((1, 1, 0), (1, 1, 1)),
        ((1, 1, 1), (0, 1, 1)),
        ((1, 65536, 1), (1, 1, 1)),
        ((1, 1, 65536), (1, 1, 1)),
        ((1 << 31, 1, 1), (1, 1, 1)),
        ((1, 1, 1), (1025, 1, 1)),
        ((1, 1, 1), (32, 33, 1)),
        ((1, 1, 1), (1, 1, 65)),
    ],
)
def test_bad_shapes_are_refused_at_once(program: Program, grid: Any, block: Any) -> None:
    assert program.launch("nothing", (), (), grid=grid, block=block) == "INVALID_VALUE"
    assert program.launch("nothing", (), ()) == "SUCCESS"


def test_launch_bounds_are_kept(program: Program, machine: Machine) -> None:
    out = machine.device_memory(4)
    assert program.launch("bounded", (out,), (POINTER,), block=(128, 1, 1)) == "SUCCESS"
    assert program.launch("bounded", (out,), (POINTER,), block=(129, 1, 1)) == "INVALID_VALUE"


def test_parameter_errors(program: Program, machine: Machine) -> None:
    function = program.axpy
    shape = (1, 1, 1, 1, 1, 1, 0, 0)
    assert machine.status("cuLaunchKernel", function, *shape, 0, 0) == "INVALID_VALUE"
    assert machine.status("cuLaunchKernel", function, *shape, ((1,), (INT,)), 0) == "INVALID_VALUE"
    assert machine.status("cuLaunchKernel", function, *shape, 0x1000, 0x1000) == "INVALID_VALUE"
    with pytest.raises(TypeError):
        machine.driver.cuLaunchKernel(function, *shape, ((1, 2), (INT,)), 0)
    with pytest.raises(TypeError):
        machine.driver.cuLaunchKernel(function, *shape, "parameters", 0)
    with pytest.raises(OverflowError):
        machine.driver.cuLaunchKernel(
            function, *shape, ((1, 2, 3.0, 2**40), (POINTER, POINTER, FLOAT, INT)), 0
        )


def test_function_stream_and_context_belong_together(program: Program, machine: Machine) -> None:
    machine.use(1)
    stream = machine.stream()
    assert program.launch("nothing", (), (), stream=stream) == "INVALID_HANDLE"
    assert program.launch("nothing", (), ()) == "INVALID_HANDLE"
    machine.use(0)
    assert program.launch("nothing", (), (), stream=stream) == "INVALID_HANDLE"
    assert program.launch("nothing", (), (), stream=12345) == "INVALID_HANDLE"


def test_extended_and_cooperative_launches(program: Program, machine: Machine) -> None:
    out = machine.device_memory(4)
    config = cuda.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 64, 1, 1
    config.hStream = machine.stream()
    arguments = ((out,), (POINTER,))
    machine.cuLaunchKernelEx(config, program.bounded, arguments, 0)
    assert read(machine, out, 1, np.int32)[0] == 64
    attribute = cuda.CUlaunchAttribute()
    attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    attribute.value.cooperative = 1
    config.attrs, config.numAttrs = [attribute], 1
    machine.cuLaunchKernelEx(config, program.bounded, arguments, 0)
    config.gridDimX = 100_000
    assert machine.status("cuLaunchKernelEx", config, program.bounded, arguments, 0) == (
        "COOPERATIVE_LAUNCH_TOO_LARGE"
    )
    shape = (1, 1, 32, 1, 1, 0, 0)
    machine.cuLaunchCooperativeKernel(program.bounded, 132, *shape, arguments)
    assert machine.status("cuLaunchCooperativeKernel", program.bounded, 32 * 132 + 1, *shape, arguments) == (
        "COOPERATIVE_LAUNCH_TOO_LARGE"
    )
    attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = 2, 1, 1
    config.gridDimX, config.attrs = 2, [attribute]
    machine.cuLaunchKernelEx(config, program.bounded, arguments, 0)
    config.gridDimX = 3
    assert machine.status("cuLaunchKernelEx", config, program.bounded, arguments, 0) == "INVALID_VALUE"


def test_a_wild_access_loses_the_context(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    program = Program(machine)
    memory = machine.device_memory(64)
    assert program.launch("wild", (memory,), (POINTER,)) == "SUCCESS"
    assert machine.status("cuCtxSynchronize") == "ILLEGAL_ADDRESS"
    assert machine.status("cuMemAlloc", 16) == "ILLEGAL_ADDRESS"
    report = machine.driver.fault_report()
    assert report is not None
    assert "kernel 'wild'" in report
    assert "test.cu" in report
    assert "64 bytes of device memory" in report
    assert "test_launches.py" in report


def test_launch_blocking_gives_the_error_to_the_launch() -> None:
    machine = Machine(schedule="lazy", environment={"CUDA_LAUNCH_BLOCKING": "1"})
    program = Program(machine)
    assert program.launch("wild", (machine.device_memory(64),), (POINTER,)) == "ILLEGAL_ADDRESS"


def test_unloading_runs_what_is_queued(lazy: Machine) -> None:
    program = Program(lazy)
    out = lazy.device_memory(4)
    program.launch("count", (out,), (POINTER,), block=(1, 1, 1))
    lazy.cuModuleUnload(program.module)
    lazy.cuCtxSynchronize()
    assert read(lazy, out, 1, np.int32)[0] == 41 + 42_000


def test_a_kernel_of_a_library_is_launched_directly(machine: Machine) -> None:
    library = machine.cuLibraryLoadData(ptx(KERNELS), [], [], 0, [], [], 0)
    kernel = machine.cuLibraryGetKernel(library, b"bounded")
    for ordinal in (0, 1):
        machine.use(ordinal)
        out = machine.device_memory(4)
        arguments = ((out,), (POINTER,))
        machine.cuLaunchKernel(cuda.CUfunction(int(kernel)), 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0)
        assert read(machine, out, 1, np.int32)[0] == 32


def test_reset_empties_the_heap_of_kernels(machine: Machine, program: Program) -> None:
    out = machine.device_memory(4)
    assert program.launch("allocates", (), (), block=(1, 1, 1)) == "SUCCESS"
    assert program.launch("reads_kept", (out,), (POINTER,), block=(1, 1, 1)) == "SUCCESS"
    assert read(machine, out, 1, np.int32)[0] == 7
    assert len(machine.driver.memory.live()) > 0
    machine.cuDevicePrimaryCtxReset(0)
    assert machine.driver.memory.live() == []


@pytest.mark.parametrize("granted", [None, "read", "write"])
def test_kernels_obey_the_access_rights_of_mappings(machine: Machine, granted: str | None) -> None:
    program = Program(machine)
    page = 2 << 20
    start = int(machine.cuMemAddressReserve(page, 0, 0, 0))
    machine.cuMemMap(start, page, 0, machine.cuMemCreate(page, properties(), 0), 0)
    flags = cuda.CUmemAccess_flags
    if granted is not None:
        read_only, both = flags.CU_MEM_ACCESS_FLAGS_PROT_READ, flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        machine.cuMemSetAccess(start, page, [access(0, read_only if granted == "read" else both)], 1)
    out = machine.device_memory(4 * 32)
    one = (1.0, 32)
    assert program.launch("axpy", (out, start, *one), (POINTER, POINTER, FLOAT, INT)) == "SUCCESS"
    status = machine.status("cuCtxSynchronize")
    assert status == ("ILLEGAL_ADDRESS" if granted is None else "SUCCESS")
    if granted is not None:
        assert program.launch("wild", (start,), (POINTER,)) == "SUCCESS"
        status = machine.status("cuCtxSynchronize")
        assert status == ("SUCCESS" if granted == "write" else "ILLEGAL_ADDRESS")


def test_a_kernel_spans_mappings(machine: Machine, program: Program) -> None:
    start, _ = mapped(machine, pages=2)
    middle = start + (2 << 20)
    machine.poke(middle - 64, np.ones(16, np.float32).view(np.uint8))
    machine.poke(middle, np.full(16, 2, np.float32).view(np.uint8))
    out = floats(machine, np.zeros(32))
    arguments = ((out, middle - 64, 1.0, 32), (POINTER, POINTER, FLOAT, INT))
    assert program.launch("axpy", *arguments) == "SUCCESS"
    assert read(machine, out, 32).tolist() == [1.0] * 16 + [2.0] * 16


# Faults on demand


def test_a_launch_that_fails_when_it_runs(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    program = Program(machine)
    machine.driver.inject.fail_launch(2, "bounded")
    out = machine.device_memory(4)
    for name, arguments in (("nothing", ()), ("bounded", (out,)), ("nothing", ()), ("bounded", (out,))):
        assert program.launch(name, arguments, (POINTER,) * len(arguments)) == "SUCCESS"
    assert machine.status("cuCtxSynchronize") == "LAUNCH_FAILED"
    report = machine.driver.fault_report()
    assert report is not None
    assert "kernel 'bounded'" in report


def test_a_launch_that_is_refused(machine: Machine, program: Program) -> None:
    machine.driver.inject.fail_launch(status=CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, sticky=False)
    assert program.launch("nothing", (), ()) == "LAUNCH_OUT_OF_RESOURCES"
    assert program.launch("nothing", (), ()) == "SUCCESS"
    machine.cuCtxSynchronize()
    with pytest.raises(ValueError, match="nth=0"):
        machine.driver.inject.fail_launch(0)


def test_execute_off_accepts_and_runs_nothing() -> None:
    machine = Machine(execute=False)
    program = Program(machine)
    assert program.launch("wild", (0,), (POINTER,)) == "SUCCESS"
    assert program.launch("nothing", (), (), block=(2000, 1, 1)) == "INVALID_VALUE"
    machine.cuCtxSynchronize()


def test_execute_off_refuses_what_has_become_wrong() -> None:
    machine = Machine(execute=False)
    program = Program(machine)
    stream = machine.cuStreamCreate(0)
    nothing = program.nothing

    def launch(*, block: Any = (32, 1, 1), stream: Any = stream) -> str:
        return machine.status("cuLaunchKernel", nothing, 1, 1, 1, *block, 0, stream, ((), ()), 0)

    for _ in range(3):
        assert launch() == "SUCCESS"
        assert launch(block=(2000, 1, 1)) == "INVALID_VALUE"
    machine.driver.inject.fail_launch(status=CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, sticky=False)
    assert launch() == "LAUNCH_OUT_OF_RESOURCES"
    assert launch() == "SUCCESS"
    context = machine.cuCtxPopCurrent()
    assert launch() in ("INVALID_CONTEXT", "INVALID_HANDLE")
    machine.cuCtxPushCurrent(context)
    assert launch() == "SUCCESS"
    machine.cuStreamDestroy(stream)
    assert launch() == "INVALID_HANDLE"
    assert launch(stream=0) == "SUCCESS"
    machine.cuModuleUnload(program.module)
    assert launch(stream=0) == "INVALID_HANDLE"
