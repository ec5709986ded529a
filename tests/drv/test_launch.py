"""Modules, functions and launches."""

from __future__ import annotations

import ctypes
import struct
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drv
from drv.arguments import SIZES
from tests.drv.conftest import SOURCE, architecture_of, load


def read(memory: drv.DeviceMemory, dtype: str) -> np.ndarray:
    result = np.zeros(memory.nbytes // np.dtype(dtype).itemsize, dtype)
    drv.copy_to_host(result, memory)
    return result


def test_functions_of_a_module(module: drv.Module) -> None:
    fill = module.function("fill")
    assert fill is module.function("fill")
    assert fill.name == "fill"
    assert fill.parameters == ((0, 8), (8, 4), (12, 4))
    assert module.function("nothing").parameters == ()
    sizes = [1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 16, 8]
    result = module.function("every_type").parameters
    assert result is not None
    assert [parameter.size for parameter in result] == sizes
    with pytest.raises(drv.NotFoundError, match="no kernel 'filled'"):
        module.function("filled")


def test_function_attributes(module: drv.Module) -> None:
    fill = module.function("fill")
    assert fill.max_threads_per_block == fill.attribute("max_threads_per_block") == 1024
    assert fill.shared_bytes == 0
    assert fill.local_bytes == 0
    assert fill.registers > 0
    assert fill.max_dynamic_shared_bytes >= 48 << 10
    fill.max_dynamic_shared_bytes = 64 << 10
    assert fill.max_dynamic_shared_bytes == 64 << 10
    with pytest.raises(drv.InvalidValueError, match="MAX_DYNAMIC_SHARED"):
        fill.max_dynamic_shared_bytes = 64 << 20
    with pytest.raises(drv.NotFoundError, match="'colour'"):
        fill.attribute("colour")


def test_occupancy(module: drv.Module) -> None:
    fill, device = module.function("fill"), module.device
    threads = device.properties.max_threads_per_multi_processor
    assert fill.max_active_blocks(256) == threads // 256
    assert fill.max_active_blocks(256, 40 << 10) < threads // 256
    block, grid = fill.suggested_block_size()
    assert 0 < block <= 1024
    assert grid >= device.properties.multi_processor_count
    assert fill.suggested_block_size(limit=64)[0] <= 64


def test_variables_of_a_module(module: drv.Module) -> None:
    address, size = module.global_variable("counter")
    assert size == 4
    result = np.zeros(1, np.int32)
    drv.copy_to_host(result, address, 4)
    assert result[0] == 7
    assert module.global_variable("table")[1] == 16
    with pytest.raises(drv.NotFoundError, match="no variable 'fill'"):
        module.global_variable("fill")


def test_images_that_are_none(device: drv.Device) -> None:
    with pytest.raises(drv.ModuleLoadError) as caught:
        drv.Module(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k( { ret; }", device)
    assert caught.value.log
    assert caught.value.log in str(caught.value)
    with pytest.raises(drv.ModuleLoadError):
        drv.Module(b"\x7fELF no cubin", device)


def test_unloading(module: drv.Module) -> None:
    module.unload()
    module.unload()
    with pytest.raises(drv.InvalidHandleError, match="was unloaded"):
        module.function("fill")


def test_launch(module: drv.Module) -> None:
    memory = drv.DeviceMemory(4000, module.device)
    module.function("fill").launch(4, 256, (memory, np.float32(2.5), np.int32(1000)))
    assert (read(memory, "f4") == 2.5).all()
    stream = drv.Stream(module.device)
    module.device.synchronize()
    drv.launch(module.function("scale"), (4,), (64, 1), (memory, memory.address, 2.0, 500), stream=stream)
    stream.synchronize()
    assert read(memory, "f4").tolist() == [5.0] * 500 + [2.5] * 500
    drv.launch(module.function("nothing"), (1, 2, 3), (4, 5, 6))
    module.device.synchronize()


def test_cooperative_launches(device: drv.Device) -> None:
    source = """
    extern "C" __global__ void meet(unsigned int* arrived, unsigned int* seen) {
        if (threadIdx.x) return;
        atomicAdd(arrived, 1u);
        while (*static_cast<volatile unsigned int*>(arrived) < gridDim.x) {}
        seen[blockIdx.x] = *static_cast<volatile unsigned int*>(arrived);
    }"""
    program = drv.compile_program(source, architecture_of(device))
    meet = drv.Module(program.image, device).function("meet")
    most = device.properties.multi_processor_count * meet.max_active_blocks(32)
    arrived, seen = drv.DeviceMemory(4, device), drv.DeviceMemory(4 * 6, device)
    drv.memset(arrived, 0, 4)
    meet.launch(6, 32, (arrived, seen), cooperative=True)
    assert read(seen, "u4").tolist() == [6] * 6
    with pytest.raises(drv.CudaError, match=r"cuLaunchCooperativeKernel.*TOO_LARGE"):
        meet.launch(most + 1, 32, (arrived, seen), cooperative=True)


def test_dynamic_shared_memory(module: drv.Module) -> None:
    memory = drv.DeviceMemory(256, module.device)
    module.function("reversed").launch(1, 64, (memory,), shared=256)
    assert read(memory, "i4").tolist() == list(range(63, -1, -1))


VALUES = {
    "?": st.booleans(),
    "b": st.integers(-(1 << 7), (1 << 7) - 1),
    "B": st.integers(0, (1 << 8) - 1),
    "h": st.integers(-(1 << 15), (1 << 15) - 1),
    "H": st.integers(0, (1 << 16) - 1),
    "i": st.integers(-(1 << 31), (1 << 31) - 1),
    "I": st.integers(0, (1 << 32) - 1),
    "q": st.integers(-(1 << 63), (1 << 63) - 1),
    "Q": st.integers(0, (1 << 64) - 1),
    "f": st.floats(width=32, allow_nan=False),
    "d": st.floats(allow_nan=False),
}
NUMPY = dict(
    zip("?bBhHiIqQfd", ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"], strict=True)
)
CTYPES = dict(
    zip(
        "?bBhHiIqQfd",
        [
            ctypes.c_bool,
            ctypes.c_int8,
            ctypes.c_uint8,
            ctypes.c_int16,
            ctypes.c_uint16,
            ctypes.c_int32,
            ctypes.c_uint32,
            ctypes.c_int64,
            ctypes.c_uint64,
            ctypes.c_float,
            ctypes.c_double,
        ],
        strict=True,
    )
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(values=st.tuples(*VALUES.values()), pair=st.tuples(VALUES["b"], VALUES["d"]))
def test_every_type_of_parameter(
    module: drv.Module, values: tuple[object, ...], pair: tuple[int, float]
) -> None:
    function = module.function("every_type")
    memory = drv.DeviceMemory(13 * 8, module.device)
    expected = [float(value) for value in (*values, *pair)]  # type: ignore[arg-type]
    packed = struct.pack("=b7xd", *pair)
    prepared = drv.prepare(function, [*VALUES, 16, "P"])
    stream = module.device.default_stream.handle
    prepared(1, 1, 1, 1, 1, 1, 0, stream, *values, packed, memory.address)
    assert read(memory, "f8").tolist() == expected
    for kinds in (NUMPY, CTYPES):
        drv.memset(memory, 0, memory.nbytes)
        typed = [
            np.dtype(kind).type(value) if isinstance(kind, str) else kind(value)
            for kind, value in zip(kinds.values(), values, strict=True)
        ]
        function.launch(1, 1, (*typed, packed, memory))
        assert read(memory, "f8").tolist() == expected
    memory.free()


def test_structures_by_value(module: drv.Module) -> None:
    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_char), ("b", ctypes.c_double))

    function = module.function("every_type")
    memory = drv.DeviceMemory(13 * 8, module.device)
    scalars = [np.dtype(kind).type(1) for kind in NUMPY.values()]
    record = np.array((5, 6.5), np.dtype([("a", "i1"), ("b", "f8")], align=True))
    for pair in (Pair(5, 6.5), record[()], record, bytearray(struct.pack("=b7xd", 5, 6.5))):
        drv.memset(memory, 0, memory.nbytes)
        function.launch(1, 1, (*scalars, pair, memory))
        assert read(memory, "f8").tolist() == [1.0] * 11 + [5.0, 6.5]


def test_arguments_are_checked_against_the_kernel(module: drv.Module) -> None:
    fill, memory = module.function("fill"), drv.DeviceMemory(4000, module.device)
    wrong = [
        ((memory, np.float32(1)), "kernel 'fill' takes 3 arguments, 2 were given"),
        (
            (memory, 1.0, np.int32(1)),
            r"argument 1 .*float64 \(8 bytes\), the kernel takes 4 bytes: a Python float is 64 .* numpy\.float32",
        ),
        ((memory, np.float32(1), 1000), r"argument 2 .* a Python int is 64 bits wide, pass numpy\.int32"),
        ((memory, np.float32(1), np.int8(1)), r"argument 2 .* int8 \(1 byte\), the kernel takes 4 bytes"),
        ((np.float32(1), np.float32(1), np.int32(1)), r"argument 0 .*float32 \(4 bytes\).* takes 8 bytes"),
        ((memory, np.float32(1), b"abc"), r"argument 2 .* is 3 bytes, the kernel takes 4 bytes"),
        ((memory, np.zeros(3), np.int32(1)), r"argument 1 .* ndarray of shape \(3,\) on the host: copy it"),
        ((memory, "text", np.int32(1)), "argument 1 of kernel 'fill' is a str; expected device memory"),
        ((memory, None, np.int32(1)), "argument 1 of kernel 'fill' is a NoneType"),
    ]
    for arguments, message in wrong:
        with pytest.raises(drv.InvalidValueError, match=message):
            fill.launch(1, 1, arguments)
    with pytest.raises(drv.InvalidValueError, match="unknown parameter type 'x'"):
        drv.prepare(fill, "Pfx")
    with pytest.raises(drv.InvalidValueError, match="takes 3 arguments, 2 were given"):
        drv.prepare(fill, "Pf")


def test_values_that_do_not_fit(module: drv.Module) -> None:
    fill = module.function("fill")
    prepared = drv.prepare(fill, "Pfi")
    stream = module.device.default_stream.handle
    for values in ((0, 1.0, 1 << 31), (-1, 1.0, 1), (0, "x", 1), (0, 1.0)):
        with pytest.raises(drv.InvalidValueError, match="arguments of kernel 'fill'"):
            prepared(1, 1, 1, 1, 1, 1, 0, stream, *values)


def test_refused_launches_tell_kernel_and_shape(module: drv.Module) -> None:
    fill, memory = module.function("fill"), drv.DeviceMemory(4000, module.device)
    arguments = (memory, np.float32(1), np.int32(1))
    for grid, block, shared in (
        (0, 1, 0),
        (1, 1025, 0),
        (1, (32, 32, 2), 0),
        (1, 1, 1 << 20),
        ((1, 70000), 1, 0),
    ):
        with pytest.raises((drv.InvalidValueError, drv.LaunchResourcesError)) as caught:
            fill.launch(grid, block, arguments, shared=shared)
        assert "cuLaunchKernel(grid (" in str(caught.value)
        assert "of kernel 'fill' failed: CUDA_ERROR_" in str(caught.value)
        assert caught.value.kernel == "fill"
    with pytest.raises(drv.InvalidValueError, match="1 to 3 numbers"):
        fill.launch((1, 1, 1, 1), 1, arguments)
    fill.launch(1, 1, arguments)
    module.device.synchronize()


def test_streams_of_another_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    fill = load(two_devices[0]).function("fill")
    memory = drv.DeviceMemory(4, two_devices[0])
    with pytest.raises(drv.InvalidValueError, match="loaded on device 0, the stream is on device 1"):
        fill.launch(1, 1, (memory, np.float32(1), np.int32(1)), stream=drv.Stream(two_devices[1]))


def test_a_context_changed_by_another_library(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    second.make_current()
    fill, memory = load(first).function("fill"), drv.DeviceMemory(4, first)
    fill.launch(1, 1, (memory, np.float32(1), np.int32(1)))
    first.runtime.driver.cuCtxSetCurrent(second.context)
    fill.launch(1, 1, (memory, np.float32(3), np.int32(1)))
    first.make_current()
    assert read(memory, "f4")[0] == 3


def test_parameters_are_copied_when_the_launch_returns(device: drv.Device) -> None:
    if device.runtime.simulated:
        drv.reset()
        drv.simulator.install(schedule="lazy")
        device = drv.Device(0)
    module = load(device)
    stream = drv.Stream(device)
    prepared = drv.prepare(module.function("fill"), "Pfi")
    memory = drv.DeviceMemory(4 * 50, device)
    for index in range(50):
        prepared(1, 1, 1, 1, 1, 1, 0, stream.handle, memory.address + 4 * index, float(index), 1)
    stream.synchronize()
    assert read(memory, "f4").tolist() == list(range(50))


def test_launches_from_many_threads(module: drv.Module) -> None:
    prepared = drv.prepare(module.function("fill"), "Pfi")
    device, threads, each = module.device, 6, 40
    memory = drv.DeviceMemory(4 * threads * each, device)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            stream = drv.Stream(device)
            for index in range(number * each, (number + 1) * each):
                prepared(1, 1, 1, 1, 1, 1, 0, stream.handle, memory.address + 4 * index, float(index), 1)
            stream.synchronize()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    device.synchronize()
    assert read(memory, "f4").tolist() == list(range(threads * each))


@pytest.mark.simulator_only
def test_launchers_of_a_dropped_runtime(module: drv.Module) -> None:
    prepared = drv.prepare(module.function("nothing"), "")
    stream = module.device.default_stream.handle
    prepared(1, 1, 1, 1, 1, 1, 0, stream)
    drv.reset()
    with pytest.raises(drv.DroppedRuntimeError):
        prepared(1, 1, 1, 1, 1, 1, 0, stream)


def test_one_launch_is_one_driver_call(module: drv.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    function = module.function("fill")
    driver, calls = function.runtime.driver, []

    class Counting:
        def __getattr__(self, name: str) -> object:
            def call(*arguments: object) -> object:
                calls.append(name)
                return getattr(driver, name)(*arguments)

            return call

    monkeypatch.setattr(function.runtime, "driver", Counting())
    memory = drv.DeviceMemory(4, module.device)
    prepared = drv.prepare(function, "Pfi")
    calls.clear()
    for _ in range(3):
        prepared(1, 1, 1, 1, 1, 1, 0, module.device.default_stream.handle, memory.address, 1.0, 1)
    assert calls == ["cuLaunchKernel"] * 3
    monkeypatch.undo()


def test_sizes_are_those_of_c() -> None:
    kinds = {code: ctypes.sizeof(kind) for code, kind in CTYPES.items()}
    assert {**kinds, "e": 2, "P": ctypes.sizeof(ctypes.c_void_p)} == SIZES


def test_the_source_of_these_tests_compiles_for_a_gpu() -> None:
    assert drv.compile_program(SOURCE, "sm_90").image.startswith(b"\x7fELF")
