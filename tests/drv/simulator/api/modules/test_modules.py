from __future__ import annotations

import ctypes
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

import drv
from drv.disk_cache import DiskCache
from drv.simulator.api.modules import module_image
from drv.simulator.execution.translation import plan, translation_cache
from drv.simulator.execution.translation.blocks import translate
from drv.simulator.execution.translation.translation_cache import TranslationCache
from drv.simulator.ptx import parse
from tests.drv.simulator.compiled import KERNELS, ptx
from tests.drv.simulator.machine import Machine

ATTRIBUTE = cuda.CUfunction_attribute


@pytest.fixture
def image() -> bytes:
    return ptx(KERNELS)


@pytest.mark.parametrize("form", ["bytes", "bytearray", "array", "address", "buffer"])
def test_forms_of_an_image(machine: Machine, image: bytes, form: str) -> None:
    array = np.frombuffer(image, np.uint8)
    buffer = ctypes.create_string_buffer(image)
    argument = {
        "bytes": image,
        "bytearray": bytearray(image),
        "array": array,
        "address": array.ctypes.data,
        "buffer": buffer,
    }[form]
    module = machine.cuModuleLoadData(argument)
    assert machine.cuFuncGetName(machine.cuModuleGetFunction(module, b"axpy")) == b"axpy"


def test_what_a_module_holds(machine: Machine, image: bytes) -> None:
    module = machine.cuModuleLoadData(image)
    function = machine.cuModuleGetFunction(module, b"axpy")
    assert int(machine.cuModuleGetFunction(module, b"axpy")) == int(function)
    assert int(machine.cuFuncGetModule(function)) == int(module)
    assert machine.status("cuModuleGetFunction", module, b"no_such_kernel") == "NOT_FOUND"
    assert machine.status("cuModuleGetGlobal", module, b"no_such_variable") == "NOT_FOUND"
    count = machine.cuModuleGetFunctionCount(module)
    functions = machine.cuModuleEnumerateFunctions(count, module)
    names = {machine.cuFuncGetName(f) for f in functions}
    assert count == 12
    assert {b"axpy", b"nothing", b"mixed"} <= names
    with pytest.raises(TypeError):
        machine.driver.cuModuleGetFunction(module, "axpy")


def test_variables(machine: Machine, image: bytes) -> None:
    free = machine.cuMemGetInfo()[0]
    module = machine.cuModuleLoadData(image)
    counter, size = machine.cuModuleGetGlobal(module, b"counter")
    assert size == 4
    assert machine.peek(int(counter), 4).view(np.int32)[0] == 41
    table, size = machine.cuModuleGetGlobal(module, b"table")
    assert size == 16
    assert machine.peek(int(table), 16).view(np.float32).tolist() == [1, 2, 3, 4]
    pointer, size = machine.cuModuleGetGlobal(module, b"pointer_to_counter")
    assert machine.peek(int(pointer), 8).view(np.uint64)[0] == int(counter)
    back = np.zeros(1, np.int32)
    machine.cuMemcpyDtoH(back, counter, 4)
    assert back[0] == 41
    assert machine.status("cuMemFree", counter) == "INVALID_VALUE"
    machine.cuModuleUnload(module)
    assert machine.status("cuMemcpyDtoH", back, counter, 4) == "INVALID_VALUE"
    assert machine.cuMemGetInfo()[0] == free


def test_loads_are_independent_of_each_other(machine: Machine, image: bytes) -> None:
    first, second = machine.cuModuleLoadData(image), machine.cuModuleLoadData(image)
    machine.use(1)
    third = machine.cuModuleLoadData(image)
    counters = {int(machine.cuModuleGetGlobal(m, b"counter")[0]) for m in (first, second, third)}
    assert len(counters) == 3
    machine.cuModuleUnload(first)
    assert machine.status("cuModuleGetFunction", first, b"axpy") == "INVALID_HANDLE"
    machine.cuModuleGetFunction(second, b"axpy")
    function = machine.cuModuleGetFunction(third, b"axpy")
    machine.cuModuleUnload(third)
    assert machine.status("cuFuncGetName", function) == "INVALID_HANDLE"


@pytest.mark.parametrize("primary", [True, False])
def test_a_context_takes_its_modules_along(
    machine: Machine, image: bytes, primary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_image, "_idle", {})
    other = machine.cuModuleLoadData(image)
    machine.cuModuleUnload(other)
    free = machine.cuMemGetInfo()[0]
    if primary:
        context = machine.contexts[0]
    else:
        context = machine.cuCtxCreate(None, 0, 0)
        machine.cuCtxSetCurrent(context)
    module = machine.cuModuleLoadData(image)
    function = machine.cuModuleGetFunction(module, b"axpy")
    assert not module_image._idle
    if primary:
        machine.cuDevicePrimaryCtxReset(0)
    else:
        machine.cuCtxDestroy(context)
        machine.use(0)
    assert machine.status("cuModuleGetFunction", module, b"axpy") == "INVALID_HANDLE"
    assert machine.status("cuFuncGetName", function) == "INVALID_HANDLE"
    if not primary:
        assert machine.cuMemGetInfo()[0] == free
    # The next driver finds it parsed.
    assert len(module_image._idle) == 1


def test_a_runtime_that_is_dropped_leaves_its_kernels_to_the_next(
    image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_image, "_idle", {})
    texts = []
    parse_text = module_image.parse
    monkeypatch.setattr(module_image, "parse", lambda text: (texts.append(text), parse_text(text))[1])
    monkeypatch.setattr(TranslationCache, "of", lambda image: None)
    # A driver has cycles, and may be long in going.
    gc.disable()
    try:
        for _ in range(3):
            drv.simulator.install()
            drv.Module(image).function("axpy")
            drv.reset()
    finally:
        gc.enable()
    assert len(texts) == 1


def test_a_bad_image_fills_the_log(machine: Machine, image: bytes) -> None:
    bad = image.replace(b"ret;", b"frobnicate.u32 %r1;", 1)
    log = bytearray(4096)
    options = [
        cuda.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
        cuda.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ]
    cut = image[: image.index(b".entry") + 12] + b"\0"
    answer = machine.driver.cuModuleLoadDataEx(cut, 2, options, [log, len(log)])
    assert answer == (CUresult.CUDA_ERROR_INVALID_PTX, None)
    assert b"line" in log
    # An instruction that nobody knows is an error of the load or of the launch, and never silent.
    status, module = machine.driver.cuModuleLoadDataEx(bad, 2, options, [log, len(log)])
    assert status != CUresult.CUDA_SUCCESS or module is not None
    assert machine.status("cuModuleLoadDataEx", image, 1, options, [log, 4096]) == "INVALID_VALUE"


def test_ptx_for_a_newer_device_is_refused() -> None:
    machine = Machine(capability="8.0")
    log = bytearray(4096)
    options = [
        cuda.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
        cuda.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ]
    newer = ptx(KERNELS, architecture="compute_90")
    answer = machine.driver.cuModuleLoadDataEx(newer, 2, options, [log, len(log)])
    assert answer == (CUresult.CUDA_ERROR_INVALID_PTX, None)
    assert b"sm_90" in log
    assert b"8.0" in log
    specific = ptx(KERNELS, architecture="compute_90a")
    assert Machine(capability="9.0").status("cuModuleLoadData", specific) == "SUCCESS"
    assert Machine(capability="10.0").status("cuModuleLoadData", specific) == "INVALID_PTX"


def test_function_attributes(machine: Machine, image: bytes) -> None:
    module = machine.cuModuleLoadData(image)

    def attribute(kernel: bytes, name: str) -> int:
        function = machine.cuModuleGetFunction(module, kernel)
        return machine.cuFuncGetAttribute(getattr(ATTRIBUTE, f"CU_FUNC_ATTRIBUTE_{name}"), function)

    assert attribute(b"axpy", "MAX_THREADS_PER_BLOCK") == 1024
    assert attribute(b"bounded", "MAX_THREADS_PER_BLOCK") == 128
    assert attribute(b"axpy", "SHARED_SIZE_BYTES") == 0
    assert attribute(b"statically_shared", "SHARED_SIZE_BYTES") == 4096
    assert attribute(b"shares_at_module_scope", "SHARED_SIZE_BYTES") == 800
    assert attribute(b"axpy", "MAX_DYNAMIC_SHARED_SIZE_BYTES") == 48 << 10
    assert attribute(b"statically_shared", "MAX_DYNAMIC_SHARED_SIZE_BYTES") == (48 << 10) - 4096
    assert 16 <= attribute(b"axpy", "NUM_REGS") <= 255
    assert attribute(b"axpy", "PTX_VERSION") == attribute(b"axpy", "BINARY_VERSION") == 90
    function = machine.cuModuleGetFunction(module, b"statically_shared")
    dynamic = ATTRIBUTE.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    machine.cuFuncSetAttribute(function, dynamic, (227 << 10) - 4096)
    assert machine.cuFuncGetAttribute(dynamic, function) == (227 << 10) - 4096
    assert machine.status("cuFuncSetAttribute", function, dynamic, 227 << 10) == "INVALID_VALUE"
    assert machine.status("cuFuncSetAttribute", function, dynamic, -1) == "INVALID_VALUE"
    carveout = ATTRIBUTE.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    machine.cuFuncSetAttribute(function, carveout, 50)
    assert machine.cuFuncGetAttribute(carveout, function) == 50
    registers = ATTRIBUTE.CU_FUNC_ATTRIBUTE_NUM_REGS
    assert machine.status("cuFuncSetAttribute", function, registers, 8) == "INVALID_VALUE"


def test_parameters_are_told(machine: Machine, image: bytes) -> None:
    module = machine.cuModuleLoadData(image)
    function = machine.cuModuleGetFunction(module, b"mixed")
    assert machine.cuFuncGetParamCount(function) == 5
    devices = [machine.cuFuncGetParamInfo(function, index) for index in range(5)]
    assert devices == [(0, 1), (8, 8), (16, 2), (24, 16), (40, 1)]
    assert machine.status("cuFuncGetParamInfo", function, 5) == "INVALID_VALUE"
    assert machine.cuFuncGetParamCount(machine.cuModuleGetFunction(module, b"nothing")) == 0


def test_occupancy(machine: Machine, image: bytes) -> None:
    module = machine.cuModuleLoadData(image)
    nothing = machine.cuModuleGetFunction(module, b"nothing")
    shared = machine.cuModuleGetFunction(module, b"statically_shared")
    active = machine.cuOccupancyMaxActiveBlocksPerMultiprocessor
    assert active(nothing, 1024, 0) == 2
    assert active(nothing, 256, 0) == 8
    assert active(nothing, 32, 0) == 32
    assert active(nothing, 2048, 0) == 0
    # 228 KiB hold four blocks of 48 KiB and their reserved KiB.
    assert active(nothing, 32, 48 << 10) == 4
    assert active(shared, 32, 0) == 32
    assert active(shared, 32, 44 << 10) == 4
    grid, block = machine.cuOccupancyMaxPotentialBlockSize(nothing, 0, 0, 0)
    assert block == 1024
    assert grid == 2 * 132
    grid, block = machine.cuOccupancyMaxPotentialBlockSize(nothing, 0, 0, 100)
    assert block <= 100
    available = machine.cuOccupancyAvailableDynamicSMemPerBlock(nothing, 4, 32)
    assert active(nothing, 32, available) >= 4
    assert machine.status("cuOccupancyMaxActiveBlocksPerMultiprocessor", nothing, 0, 0) == "INVALID_VALUE"


def test_libraries(machine: Machine, image: bytes) -> None:
    library = machine.cuLibraryLoadData(image, [], [], 0, [], [], 0)
    kernel = machine.cuLibraryGetKernel(library, b"axpy")
    assert machine.cuKernelGetName(kernel) == b"axpy"
    assert int(machine.cuKernelGetLibrary(kernel)) == int(library)
    here = machine.cuKernelGetFunction(kernel)
    machine.use(1)
    there = machine.cuKernelGetFunction(kernel)
    assert int(here) != int(there)
    assert machine.cuKernelGetAttribute(ATTRIBUTE.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 0) == 1024
    assert machine.cuKernelGetParamCount(kernel) == 4
    address, size = machine.cuLibraryGetGlobal(library, b"counter")
    assert size == 4
    assert int(address) == int(machine.cuModuleGetGlobal(machine.cuLibraryGetModule(library), b"counter")[0])
    assert machine.status("cuLibraryGetKernel", library, b"nope") == "NOT_FOUND"
    assert len(machine.cuLibraryEnumerateKernels(100, library)) == machine.cuLibraryGetKernelCount(library)
    machine.cuLibraryUnload(library)
    assert machine.status("cuKernelGetFunction", kernel) == "INVALID_HANDLE"
    assert machine.status("cuFuncGetName", here) == "INVALID_HANDLE"


def test_a_module_from_a_file(machine: Machine, image: bytes, tmp_path: object) -> None:
    path = tmp_path / "kernels.ptx"  # type: ignore[operator]
    path.write_bytes(image)
    module = machine.cuModuleLoad(str(path).encode())
    machine.cuModuleGetFunction(module, b"axpy")
    assert int(machine.cuModuleGetLoadingMode()) == 2


def _count(image: bytes) -> tuple[Machine, weakref.ref[Any]]:
    """A machine that has run the kernel ``count``, and the memory that it wrote to."""
    machine = Machine()
    module = machine.cuModuleLoadData(image)
    out = machine.device_memory(4)
    kernel = machine.cuModuleGetFunction(module, b"count")
    machine.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, ((out,), (ctypes.c_void_p,)), 0)
    machine.cuCtxSynchronize()
    assert machine.peek(out, 4).view(np.int32)[0] == 41 + 42000
    return machine, weakref.ref(machine.driver.memory.find(out).data)


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that are parsed and blocks that are translated from now on."""
    done: list[str] = []
    monkeypatch.setattr(module_image, "parse", lambda text: (done.append("text"), parse(text))[1])
    monkeypatch.setattr(plan, "translate", lambda *which: (done.append("block"), translate(*which))[1])
    return done


def test_drivers_one_after_the_other_parse_and_translate_once(
    monkeypatch: pytest.MonkeyPatch, image: bytes
) -> None:
    monkeypatch.setattr(TranslationCache, "of", lambda image: None)
    done = _counted(monkeypatch)
    image += b"// for this test alone"
    machine, memory = _count(image)
    steps = len(done)
    assert steps > 1
    # Two at once share nothing.
    other, _ = _count(image)
    assert len(done) == 2 * steps
    del machine, other
    gc.collect()
    assert memory() is None
    _count(image)
    assert len(done) == 2 * steps


def test_processes_one_after_the_other_parse_and_translate_once(
    monkeypatch: pytest.MonkeyPatch, image: bytes, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRAPHROOT_CACHE_DIR", str(tmp_path))
    done = _counted(monkeypatch)

    def fresh() -> list[str]:
        """What a process that begins now parses and translates."""
        monkeypatch.setattr(module_image, "_idle", {})
        done.clear()
        _count(image)
        return list(done)

    assert fresh()[0] == "text"
    assert fresh() == []
    files = sorted((tmp_path / "simulator").iterdir())
    assert len(files) == 2
    # What cannot be read, or is not what was expected, is made again.
    for file in files:
        file.write_bytes(file.read_bytes()[:-1])
    assert fresh()[0] == "text"
    assert fresh() == []
    for payload in (b"", pickle.dumps(3), pickle.dumps({"module": 1}), b"cno_such_module\nname\n."):
        for file in files:
            DiskCache(file.parent).store(file.stem, payload)
        assert fresh()[0] == "text"
        assert fresh() == []
    # Another version of the simulator has entries of its own.
    monkeypatch.setattr(translation_cache, "version", lambda: b"another")
    assert fresh()[0] == "text"
    monkeypatch.setattr(translation_cache, "version", lambda: b"")
    assert fresh()[0] == "text"
    assert fresh()[0] == "text"


def test_parsed_text_that_nobody_uses_is_bounded(monkeypatch: pytest.MonkeyPatch, image: bytes) -> None:
    monkeypatch.setattr(module_image, "_idle", {})
    monkeypatch.setattr(module_image, "_IDLE_LIMIT", 3 * len(image))
    machine = Machine()
    for number in range(5):
        machine.cuModuleUnload(machine.cuModuleLoadData(image + b" " * number))
    assert [len(each) - len(image) for each in module_image._idle] == [3, 4]


def test_parsed_text_goes_with_the_last_module(machine: Machine, image: bytes) -> None:
    first, second = machine.cuModuleLoadData(image), machine.cuModuleLoadData(image)
    assert machine.driver.modules[int(first)].parsed is machine.driver.modules[int(second)].parsed
    machine.cuModuleUnload(first)
    machine.cuModuleUnload(second)
    assert not machine.driver.images._parsed
