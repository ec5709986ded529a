"""Programs on NVIDIA's bindings, with the simulated driver behind them: the path that a GPU takes, without one.

Each runs in a process of its own. ``pytest -p tests.drv.fake_libcuda --gpu ...`` puts other tests on it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from .test_tensor_map import SOURCE as LOADING

pytestmark = [
    pytest.mark.simulator_only,
    pytest.mark.skipif(
        platform.libc_ver()[0] != "glibc" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
    ),
]

_ROOT = Path(__file__).parents[2]
_START = """
from pathlib import Path
from tests.drv import fake_libcuda

fake = fake_libcuda.install(Path({folder!r}), **{options!r})
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the compiled libraries."""
    from . import fake_libcuda

    folder = tmp_path_factory.mktemp("libcuda")
    fake_libcuda.build(folder)
    return folder


def run(libraries: Path, code: str, environment: dict[str, str] | None = None, **options: str) -> str:
    """What ``code`` prints, which must end well and complain of nothing."""
    text = _START.format(folder=str(libraries), options=options) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=_ROOT,
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not done.stderr, done.stderr
    assert done.returncode == 0
    return done.stdout


def test_devices_memory_streams_and_callbacks(libraries: Path) -> None:
    run(
        libraries,
        """
        import threading
        import numpy as np
        import drv

        class Foreign:
            def __init__(self, stream):
                self.handle = int(stream.handle)

            def __cuda_stream__(self):
                return 0, self.handle

        first, second = drv.Device(0), drv.Device(1)
        assert drv.runtime().name == "nvidia" and not drv.runtime().simulated
        assert first.uuid != second.uuid and first.properties.pci_bus_id == 1
        free, total = first.memory_info()
        assert 0 < free <= total == first.total_memory

        # Every kind of copy, between the host, pinned memory and two devices.
        source = np.arange(1000, dtype=np.float32)
        stream, other = drv.Stream(first), drv.Stream(second, priority=-1)
        assert other.priority == -1 and other.non_blocking
        pinned = drv.PinnedMemory(source.nbytes, first)
        pinned.array("f4")[:] = source
        here, there = drv.DeviceMemory(source.nbytes, first), drv.DeviceMemory(source.nbytes, second)
        drv.copy_to_device(here, pinned, stream=stream)
        drv.memset(there, 0, source.nbytes, stream=other)
        first.enable_peer_access(second)
        other.wait_stream(stream)
        drv.copy_peer(there, second, here, first, stream=other)
        back = np.empty_like(source)
        drv.copy_to_host(back, there, stream=other)
        other.synchronize()
        assert (back == source).all()
        block = np.zeros((4, 10), np.float32)
        drv.copy_2d(block, 40, here, 400, 40, 4)
        assert (block == source.reshape(-1, 100)[:4, :10]).all()
        for bits in (8, 16, 32):
            for queue in (None, stream):
                drv.memset(here, 3, 8, bits=bits, stream=queue)
                drv.memset_2d(here, 64, -1, 4, 2, bits=bits, stream=queue)
                words = np.empty(256, np.dtype(f"u{bits // 8}"))
                drv.copy_to_host(words, here, words.nbytes, stream=queue)
                kind = f"D{bits}" + ("Async" if queue else "")
                assert fake.calls[f"cuMemset{kind}"] and fake.calls[f"cuMemsetD2{kind}"]
                step = 64 * 8 // bits
                assert words[:8].tolist() == [2**bits - 1] * 4 + [3] * 4
                assert (words[step : step + 4] == 2**bits - 1).all()
        drv.copy_to_device(here, source)

        # A thread of the driver's own calls back, and an error in there comes out where the host waits.
        threads = []
        stream.add_callback(lambda: threads.append(threading.get_ident()))
        stream.synchronize()
        assert threads and threads[0] != threading.get_ident()
        stream.add_callback(int, "no number")
        try:
            stream.synchronize()
        except drv.HostCallbackError as error:
            assert isinstance(error.__cause__, ValueError)
        else:
            raise AssertionError("the callback's error is lost")

        # Time, and an event that another process may open.
        start, end = drv.Event(first, timing=True), drv.Event(first, timing=True)
        start.record(stream)
        end.record(stream)
        end.synchronize()
        assert start.query() and start.elapsed_time(end) >= 0
        shared = drv.Event(first, interprocess=True).ipc_handle()
        assert len(shared) == 64 and drv.Event.from_ipc_handle(first, shared).query()

        array = np.zeros(100, np.float32)
        with drv.RegisteredMemory(array, first) as registered:
            drv.copy_to_host(registered, here, array.nbytes, stream=stream)
            stream.synchronize()
        assert (array == source[:100]).all()

        # What is left: copies that wait, rows on a stream, streams of others, and giving everything back.
        twice = drv.DeviceMemory(source.nbytes, first)
        drv.copy_on_device(twice, here)
        drv.copy_peer(there, second, twice, first)
        drv.copy_2d(there, 400, twice, 400, 40, 4, stream=other)
        other.synchronize()
        assert other.query() and drv.Stream.from_object(Foreign(other)) == other
        first.disable_peer_access(second)
        del pinned, registered
        drv.reset()
        assert fake.calls["cuMemFreeHost"] and fake.calls["cuDevicePrimaryCtxRelease"] == 2
        assert drv.DeviceMemory(8).address and drv.runtime().name == "nvidia"
        """,
        devices="2",
    )


_KERNEL = r"""
struct Pair { double a; int b; };
extern "C" __global__ void all(float *out, bool p, signed char b, short h, int i, long long q, float f, double d,
                               Pair pair, unsigned char *last)
{
    extern __shared__ float scratch[];
    scratch[threadIdx.x] = (p ? 1 : 0) + b + h + i + q + f + d + pair.a + pair.b;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
    *last = 7;
}
__device__ int counter = 3;
"""


def test_cubins_launches_and_occupancy(libraries: Path) -> None:
    log = run(
        libraries,
        """
        import os, struct
        import numpy as np
        import drv
        from drv.compiler import architecture_of, compile_program

        device = drv.Device(0)
        assert architecture_of(device) == "sm_90"
        image = compile_program(os.environ["SOURCE"], "sm_90").image
        assert image.startswith(b"\\x7fELF")
        module = drv.Module(image)
        kernel = module.function("all")
        assert [p.size for p in kernel.parameters] == [8, 1, 1, 2, 4, 8, 4, 8, 16, 8]
        address, size = module.global_variable("counter")
        value = np.zeros(1, np.int32)
        drv.copy_to_host(value, address, 4)
        assert (value[0], size) == (3, 4)

        out, last = drv.DeviceMemory(64 * 4), drv.DeviceMemory(1)
        pair = struct.pack("=di4x", 0.5, 8)
        kernel.launch(
            2, 32, (out, True, np.int8(2), np.int16(3), np.int32(4), 5, np.float32(6), 7.0, pair, last),
            shared=128, stream=drv.Stream(),
        )
        device.synchronize()
        found, byte = np.empty(64, np.float32), np.empty(1, np.uint8)
        drv.copy_to_host(found, out)
        drv.copy_to_host(byte, last)
        assert (found == 36.5).all() and byte[0] == 7
        drv.memset(out, 0, 256)
        kernel.launch(
            1, 32, (out, True, np.int8(2), np.int16(3), np.int32(4), 5, np.float32(6), 7.0, pair, last),
            shared=128, cooperative=True,
        )
        drv.copy_to_host(found, out)
        assert (found[:32] == 36.5).all() and not found[32:].any()
        kernel.max_dynamic_shared_bytes = 100 << 10
        assert kernel.max_dynamic_shared_bytes == 100 << 10
        assert kernel.max_active_blocks(128) > 0 and kernel.suggested_block_size()[0] > 0
        for wrong in ("no cubin", b"\\x7fELF and no more"):
            try:
                drv.Module(wrong)
            except drv.ModuleLoadError as error:
                assert "cuModuleLoadDataEx" in str(error)
                print(error.log)
            else:
                raise AssertionError("a damaged image was loaded")
        module.unload()
        """,
        environment={"SOURCE": _KERNEL},
        capability="9.0",
    )
    assert "neither PTX nor a binary" in log


def test_tensor_maps(libraries: Path) -> None:
    run(
        libraries,
        """
        import os
        import numpy as np
        import drv

        image = drv.compile_program(os.environ["SOURCE"], "sm_90").image
        load = drv.Module(image).function("load")
        rows = np.arange(20 * 16, dtype=np.uint8).reshape(20, 16)
        memory, out = drv.DeviceMemory(rows.nbytes), drv.DeviceMemory(8 * 16)
        drv.copy_to_device(memory, rows)
        tensor_map = drv.TensorMap("uint8", (20, 16), (16,), (8, 16), promotion=64)
        result = np.zeros((8, 16), np.uint8)
        for _ in range(2):
            arguments = tensor_map.at(memory), np.int32(0), np.int32(15), np.uint32(tensor_map.box_bytes), out
            drv.launch(load, 1, 64, arguments, shared=tensor_map.box_bytes)
            drv.copy_to_host(result, out)
            assert (result[:5] == rows[15:]).all() and not result[5:].any()
        # The second map is the first one.
        assert fake.calls["cuTensorMapEncodeTiled"] == 1
        """,
        environment={"SOURCE": LOADING},
        capability="9.0",
    )


def test_tensors_on_two_devices(libraries: Path) -> None:
    run(
        libraries,
        """
        import numpy as np
        import nn, parallel, tensor

        tensor.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).to("cuda")
        expected = [p.detach().cpu().clone() for p in model.parameters()]
        x = tensor.randn(12, 6)
        # A backward pass whose forward ran on another stream and two devices.
        side = tensor.cuda.Stream()
        side.wait_stream(tensor.cuda.current_stream())
        with tensor.cuda.stream(side):
            y = parallel.DataParallel(model)(x.pin_memory().to("cuda", non_blocking=True))
        tensor.cuda.current_stream().wait_stream(side)
        y.square().sum().backward()
        on_host = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
        for parameter, value in zip(on_host.parameters(), expected):
            parameter.data.copy_(value)
        on_host(x).square().sum().backward()
        for a, b in zip(model.parameters(), on_host.parameters()):
            assert np.allclose(a.grad.cpu().numpy(), b.grad.numpy(), rtol=1e-2, atol=1e-2)

        # Segments grew by mapping memory, and go back to the driver.
        assert fake.calls["cuMemMap"] and not fake.calls["cuMemAlloc"]
        other = tensor.ones(3, device="cuda:1")
        assert (other.to("cuda:0") + 1).tolist() == [2, 2, 2]
        interface = type("Array", (), {"__cuda_array_interface__": other.__cuda_array_interface__})()
        assert tensor.as_tensor(interface, device="cuda:1").device.index == 1
        del y, other, interface, model, a
        tensor.cuda.empty_cache()
        assert fake.calls["cuMemUnmap"] == fake.calls["cuMemRelease"] > 0

        # Out of memory can be caught, and everything works after it.
        try:
            tensor.empty(1 << 40, device="cuda")
        except tensor.cuda.OutOfMemoryError as error:
            assert "Tried to allocate" in str(error)
        assert tensor.arange(4, device="cuda").sum().item() == 6
        """,
        environment={"GRAPHROOT_CUDA_ALLOC_CONF": "expandable_segments:True"},
        devices="2",
    )


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_a_lost_context_says_so(libraries: Path, blocking: str) -> None:
    said = run(
        libraries,
        """
        import drv
        from drv.compiler import architecture_of, compile_program

        source = 'extern "C" __global__ void stray(int *p) { *p = 1; }'
        device = drv.Device(0)
        module = drv.Module(compile_program(source, architecture_of(device)).image)
        kept = drv.Stream(), drv.Event(), drv.DeviceMemory(8), drv.PinnedMemory(8)
        for attempt in (
            lambda: module.function("stray").launch(1, 1, (64,)),
            device.synchronize,
            lambda: drv.DeviceMemory(8),
        ):
            try:
                attempt()
            except drv.IllegalAddressError as error:
                assert error.sticky and error.status == "CUDA_ERROR_ILLEGAL_ADDRESS"
                print(str(error).replace("\\n", " "))
        """,
        environment={"CUDA_LAUNCH_BLOCKING": blocking},
    )
    lines = said.splitlines()
    assert len(lines) == (3 if blocking == "1" else 2)
    assert ("cuLaunchKernel" if blocking == "1" else "cuCtxSynchronize") in lines[0]
    assert "'stray'" in lines[0]
    assert all("The context was lost earlier" in line for line in lines[1:])


def test_a_child_that_was_forked_is_refused(libraries: Path) -> None:
    run(
        libraries,
        """
        import os
        import drv

        drv.DeviceMemory(8)
        child = os.fork()
        if child == 0:
            try:
                drv.DeviceMemory(8)
            except drv.ForkError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert drv.DeviceMemory(8).address
        """,
    )


def test_a_driver_without_devices_or_that_fails(libraries: Path) -> None:
    run(
        libraries,
        """
        import drv

        assert not drv.is_available() and drv.device_count() == 0
        try:
            drv.Device(0)
        except drv.NoDeviceError as error:
            assert "CUDA_VISIBLE_DEVICES" in str(error)
        """,
        environment={"CUDA_VISIBLE_DEVICES": ""},
    )
    run(
        libraries,
        """
        import drv, tensor

        fake.answers["cuInit"] = 999
        assert not drv.is_available() and not tensor.cuda.is_available()
        try:
            tensor.ones(3, device="cuda")
        except drv.NoDriverError as error:
            assert "does not start" in str(error) and error.status == "CUDA_ERROR_UNKNOWN"
        else:
            raise AssertionError("a tensor without a driver")
        """,
    )
