"""Commands on a simulated GPU: ``graphroot simulate``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

from tools.simulate.command_line import FINDINGS_STATUS

ROOT = Path(__file__).resolve().parents[2]
RACE = """
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
memory = driver.cuMemAlloc(64)[1]
for _ in range(2):
    flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
    driver.cuMemsetD8Async(memory, 1, 64, driver.cuStreamCreate(flags)[1])
driver.cuCtxSynchronize()
"""


def simulate(*arguments: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.simulate", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | (variables or {}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def program(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return simulate(*options, sys.executable, "-c", dedent(code))


def test_programs_on_the_bindings() -> None:
    run = program(
        "from cuda.bindings import driver as d; d.cuInit(0); print(d.cuDeviceGetCount())", "devices=3"
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "(<CUresult.CUDA_SUCCESS: 0>, 3)\n"
    assert not run.stderr


@pytest.mark.skipif(find_spec("cuda.core") is None, reason="cuda.core is not installed")
@pytest.mark.parametrize("kind", ["ptx", "cubin"])
def test_objects_of_cuda_core(kind: str) -> None:
    run = program(
        f"""
        import numpy as np
        from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

        device = Device()
        device.set_current()
        stream = device.create_stream()
        code = '''extern "C" __global__ void saxpy(float a, const float* x, float* y, size_t n) {{
            size_t i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] += a * x[i];
        }}'''
        program = Program(code, code_type="c++", options=ProgramOptions(std="c++17", arch="sm_90"))
        kernel = program.compile({kind!r}).get_kernel("saxpy")
        memory = LegacyPinnedMemoryResource()
        buffers = [memory.allocate(4000, stream=stream) for _ in range(2)]
        x, y = (np.from_dlpack(buffer).view(np.float32) for buffer in buffers)
        x[:], y[:] = np.arange(1000), 1
        launch(stream, LaunchConfig(grid=8, block=128), kernel, np.float32(2), *buffers, np.uint64(1000))
        stream.sync()
        print(device.name, np.array_equal(y, np.arange(1000) * 2 + 1))
        """,
        "check=full",
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "Simulated GPU sm_90 True\n"


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_kernels_of_numba(tmp_path: Path) -> None:
    script = tmp_path / "sums.py"
    script.write_text(
        dedent("""
        import numpy as np
        from numba import cuda, float32

        @cuda.jit
        def total(x, result):
            tile = cuda.shared.array(128, float32)
            thread, i = cuda.threadIdx.x, cuda.grid(1)
            tile[thread] = x[i] if i < x.size else 0
            cuda.syncthreads()
            half = 64
            while half > 0:
                if thread < half:
                    tile[thread] += tile[thread + half]
                cuda.syncthreads()
                half //= 2
            if thread == 0:
                cuda.atomic.add(result, 0, tile[0])

        x, result = np.arange(1000, dtype=np.float32), np.zeros(1, np.float32)
        stream = cuda.stream()
        on_device, sums = cuda.to_device(x, stream=stream), cuda.to_device(result, stream=stream)
        total[8, 128, stream](on_device, sums)
        sums.copy_to_host(result, stream=stream)
        stream.synchronize()
        print(result[0] == x.sum())
        """)
    )
    run = simulate("check=full,schedule=random", sys.executable, str(script))
    assert run.returncode == 0, run.stderr
    assert run.stdout == "True\n"


def test_our_own_programs_are_on_the_same_device() -> None:
    run = program(
        """
        import tensor
        from cuda.bindings import driver
        x = tensor.arange(4, device="cuda", dtype=tensor.uint8)
        host = bytearray(4)
        assert not driver.cuMemcpyDtoH(host, x.data_ptr(), 4)[0]
        print(list(host))
        """
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "[0, 1, 2, 3]\n"


def test_lists_structures_and_values_that_calls_take_and_give() -> None:
    run = program(
        """
        import numpy as np
        from cuda.bindings import driver as d

        def ok(answer):
            assert not answer[0], answer
            return answer[1] if len(answer) == 2 else answer[1:]

        ok(d.cuInit(0))
        ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(0))))
        # Graphs: lists of nodes, unions of parameters, what was said of a node.
        memory, host = ok(d.cuMemAlloc(64)), np.zeros(64, np.uint8)
        graph, fill, copy = ok(d.cuGraphCreate(0)), d.CUgraphNodeParams(), d.CUgraphNodeParams()
        fill.type = d.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
        fill.memset.elementSize, fill.memset.width, fill.memset.height = 1, 64, 1
        fill.memset.dst, fill.memset.value = memory, 7
        first = ok(d.cuGraphAddNode(graph, None, None, 0, fill))
        copy.type = d.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMCPY
        box = copy.memcpy.copyParams
        box.srcMemoryType, box.srcDevice = d.CUmemorytype.CU_MEMORYTYPE_DEVICE, memory
        box.dstMemoryType, box.dstHost = d.CUmemorytype.CU_MEMORYTYPE_HOST, host.ctypes.data
        box.WidthInBytes, box.Height, box.Depth = 64, 1, 1
        second = ok(d.cuGraphAddNode(graph, [first], None, 1, copy))
        executable = ok(d.cuGraphInstantiate(graph, 0))
        ok(d.cuGraphLaunch(executable, 0))
        ok(d.cuCtxSynchronize())
        assert (host == 7).all()
        asked = ok(d.cuGraphMemcpyNodeGetParams(second))
        assert int(asked.srcDevice) == int(memory) and asked.WidthInBytes == 64
        # Managed memory and pointers: values of several sizes.
        managed, pointers = ok(d.cuMemAllocManaged(4096, 1)), d.CUpointer_attribute
        ranges = d.CUmem_range_attribute
        kinds = [ranges.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ranges.CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY]
        assert ok(d.cuMemRangeGetAttributes([4, 12], kinds, 2, managed, 4096)) == [0, [-2, -2, -2]]
        assert ok(d.cuMemRangeGetAttribute(12, kinds[1], managed, 4096)) == [-2, -2, -2]
        for value in (True, False):
            ok(d.cuPointerSetAttribute(value, pointers.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, managed))
            assert ok(d.cuPointerGetAttribute(pointers.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, managed)) == value
        assert int(ok(d.cuPointerGetAttribute(pointers.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, memory))) == 3
        settings = d.CUcoredumpSettings
        for setting, value in ((settings.CU_COREDUMP_LIGHTWEIGHT, True), (settings.CU_COREDUMP_FILE, b"here")):
            ok(d.cuCoredumpSetAttributeGlobal(setting, value))
            assert ok(d.cuCoredumpGetAttributeGlobal(setting)) == value
        # Arrays and textures: structures as results.
        described = d.CUDA_ARRAY3D_DESCRIPTOR()
        described.Width, described.Height, described.NumChannels = 8, 4, 1
        described.Format = d.CUarray_format.CU_AD_FORMAT_FLOAT
        array = ok(d.cuArray3DCreate(described))
        back = ok(d.cuArray3DGetDescriptor(array))
        assert (back.Width, back.Height, back.Depth, back.Format) == (8, 4, 0, described.Format)
        resource, texture = d.CUDA_RESOURCE_DESC(), d.CUDA_TEXTURE_DESC()
        resource.resType, resource.res.array.hArray = d.CUresourcetype.CU_RESOURCE_TYPE_ARRAY, array
        texture.filterMode = d.CUfilter_mode.CU_TR_FILTER_MODE_LINEAR
        image = ok(d.cuTexObjectCreate(resource, texture, None))
        seen, sampled = ok(d.cuTexObjectGetResourceDesc(image)), ok(d.cuTexObjectGetTextureDesc(image))
        assert int(seen.res.array.hArray) == int(array) and sampled.filterMode == texture.filterMode
        reference = ok(d.cuTexRefCreate())
        ok(d.cuTexRefSetBorderColor(reference, 2.0))
        assert ok(d.cuTexRefGetBorderColor(reference)) == 2.0
        print("all of it")
        """
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "all of it\n"
    assert not run.stderr


def test_findings_are_told_and_end_with_a_status_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "findings.json"
    run = simulate("--json", str(file), sys.executable, "-c", dedent(RACE))
    assert run.returncode == FINDINGS_STATUS
    # What to do and where comes first.
    first = re.match(
        r"graphroot: \[1\] race: let stream \d+ wait for stream \d+ before <string>:8\n", run.stderr
    )
    assert first, run.stderr
    assert "nothing orders fill of 64 bytes on stream" in run.stderr
    assert "more: graphroot memcheck --explain race" in run.stderr
    assert run.stderr.endswith(f"graphroot: 1 error in how {sys.executable} uses the simulated GPU\n")
    written = json.loads(file.read_text(encoding="utf-8"))
    assert (written["tool"], written["errors"], written["status"]) == ("simulate", 1, FINDINGS_STATUS)
    assert written["findings"][0]["page"] == "findings.html#race"
    assert program(RACE, "check=on").returncode == 0
    # The program's own status goes first.
    assert program(RACE + "raise SystemExit(7)").returncode == 7


def test_what_stops_a_kernel_is_told_to_programs_that_know_a_status_only() -> None:
    run = program(
        """
        import ctypes
        from cuda.bindings import driver, nvrtc

        driver.cuInit(0)
        driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
        source = b"template <class T> __global__ void fill(T* x) { x[threadIdx.x] = 1; } template __global__ void fill(int*);"
        unit = nvrtc.nvrtcCreateProgram(source, b"fill.cu", 0, [], [])[1]
        nvrtc.nvrtcCompileProgram(unit, 2, [b"-arch=compute_90", b"-lineinfo"])
        ptx = b" " * nvrtc.nvrtcGetPTXSize(unit)[1]
        nvrtc.nvrtcGetPTX(unit, ptx)
        function = driver.cuModuleGetFunction(driver.cuModuleLoadData(ptx)[1], b"_Z4fillIiEvPT_")[1]
        arguments = (int(driver.cuMemAlloc(64)[1]),), (ctypes.c_void_p,)
        driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0)
        print(int(driver.cuCtxSynchronize()[0]))
        """
    )
    assert run.stdout == "700\n"
    assert run.returncode == FINDINGS_STATUS
    assert "[1] out of bounds: kernel 'fill<int>' writes 4 bytes right past the end" in run.stderr
    assert "at fill.cu:1" in run.stderr


def test_processes_that_the_command_starts(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {RACE!r}], check=True)")
    run = simulate("sh", "-c", f"{sys.executable} {script}")
    assert run.returncode == FINDINGS_STATUS, run.stderr


def test_functions_that_are_not_simulated_are_named() -> None:
    # The form of CUDA 2, with addresses of 32 bits.
    run = program(
        "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuMemAlloc(ctypes.byref(ctypes.c_uint()), 64))"
    )
    assert run.returncode == 0
    assert run.stdout == "801\n"
    assert (
        "answered with CUDA_ERROR_NOT_SUPPORTED, as not simulated:\n  cuMemAlloc: https://docs.nvidia.com/"
        in run.stderr
    )


def test_a_sitecustomize_of_the_users_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('of the user')")
    variables = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))}
    run = simulate(sys.executable, "-c", "print('the program')", variables=variables)
    # Once in the tool's own process, and once in the program's.
    assert run.stdout.splitlines() == ["of the user", "of the user", "the program"]


@pytest.mark.parametrize("status", ["3", "-15"])
def test_the_commands_status(status: str) -> None:
    code = (
        f"import os, signal, sys; os.kill(os.getpid(), {status[1:]}) if {status} < 0 else sys.exit({status})"
    )
    run = simulate(sys.executable, "-c", code)
    assert run.returncode == (int(status) if int(status) > 0 else 128 - int(status))


def test_command_lines_that_are_wrong() -> None:
    for arguments, status, words in (
        (("devices=none", "true"), 2, "devices"),
        (("chek=full", "true"), 2, "chek"),
        ((), 2, "expected a command"),
        (("no-such-command-anywhere",), 127, "no such command"),
    ):
        run = simulate(*arguments)
        assert run.returncode == status, arguments
        assert words in run.stderr
    assert "OPTIONS are those of GRAPHROOT_SIMULATOR" in simulate("--help").stdout


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    run = simulate(sys.executable, "-c", "pass", variables={"TMPDIR": str(tmp_path)})
    assert run.returncode == 0
    assert not list(tmp_path.iterdir())
    assert Path(tempfile.gettempdir()).exists()
