"""The current device, and what the devices are."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import drv
import tensor
from tensor import cuda
from tensor.core.devices import device as devices
from tensor.core.devices.state import cuda_state


@pytest.mark.simulator_only
def test_importing_and_counting_make_no_context() -> None:
    drv.simulator.install(devices=3)
    assert cuda.is_available()
    assert cuda.device_count() == 3
    assert cuda.current_device() == 0
    assert cuda.get_device_name(2)
    assert cuda.get_device_capability("cuda:1") == (9, 0)
    assert cuda.memory_allocated() == 0
    assert not cuda.is_initialized()
    cuda.init()
    assert cuda.is_initialized()
    assert [result.context is not None for result in drv.runtime().devices] == [True, False, False]


def test_importing_loads_no_driver() -> None:
    check = (
        "import sys; import tensor.cuda as cuda; "
        "assert not cuda.is_initialized(); assert cuda.memory_stats()['allocated_bytes.all.peak'] == 0; "
        "import drv; assert not drv.is_initialized(); assert 'cuda.bindings.driver' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True, cwd=Path(__file__).parents[3])


@pytest.mark.simulator_only
def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    from drv import selection

    def refuse(_: object) -> None:
        raise drv.NoDriverError("no driver here")

    drv.reset()
    monkeypatch.setattr(selection, "_nvidia", refuse)
    monkeypatch.setenv("GRAPHROOT_DRIVER", "auto")
    assert not cuda.is_available()
    assert cuda.device_count() == 0
    assert not cuda.is_initialized()
    assert not cuda.is_bf16_supported()
    assert cuda.memory_snapshot() == []
    cuda.empty_cache()
    cuda.manual_seed_all(3)
    for use in (cuda.current_device, cuda.init, cuda.synchronize, cuda.current_stream, cuda.Stream):
        with pytest.raises(RuntimeError, match="no driver here"):
            use()


def test_the_device_context(two_devices: tuple[drv.Device, drv.Device]) -> None:
    for argument in (1, "cuda:1", devices.device("cuda", 1)):
        with cuda.device(argument):
            assert cuda.current_device() == 1
            assert drv.current_device() is two_devices[1]
            assert cuda_state().ordinal == 1
            with cuda.device(0):
                assert cuda.current_device() == 0
            assert cuda.current_device() == 1
        assert cuda.current_device() == 0
    for argument in (None, -1, "cuda"):
        with cuda.device(1), cuda.device(argument):
            assert cuda.current_device() == 1


def test_the_device_context_restores_after_exceptions(two_devices: tuple[drv.Device, drv.Device]) -> None:
    with pytest.raises(ZeroDivisionError), cuda.device(1):
        cuda.set_device(0)
        raise ZeroDivisionError
    assert cuda.current_device() == 0
    with cuda.device(0), pytest.raises(RuntimeError, match="no device 7"), cuda.device(7):
        pass
    assert cuda.current_device() == 0


def test_a_device_context_can_be_entered_again(two_devices: tuple[drv.Device, drv.Device]) -> None:
    one, zero = cuda.device(1), cuda.device(0)
    with one, zero, one:
        assert cuda.current_device() == 1
        with zero:
            assert cuda.current_device() == 0
        assert cuda.current_device() == 1
    assert cuda.current_device() == 0


@pytest.mark.simulator_only
def test_leaving_makes_no_context() -> None:
    drv.simulator.install(devices=2)
    with cuda.device(1), cuda.device(0), cuda.device(1):
        assert drv.Device(1).context is not None
        assert drv.Device(0).context is not None
    drv.reset()
    drv.simulator.install(devices=2)
    with cuda.device(0), cuda.device(1):
        assert drv.Device(1).context is not None
    assert drv.Device(0).context is None


def test_other_libraries_find_the_context_again(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first = two_devices[0]
    first.use()
    with cuda.device(1):
        pass
    current = first.runtime.check(first.runtime.driver.cuCtxGetCurrent(), "cuCtxGetCurrent")
    assert int(current) == int(first.context)


def test_device_of(two_devices: tuple[drv.Device, drv.Device]) -> None:
    with cuda.device_of(SimpleNamespace(device=devices.device("cuda:1"))):
        assert cuda.current_device() == 1
        with cuda.device_of(SimpleNamespace(device=devices.device("cpu"))):
            assert cuda.current_device() == 1
    assert cuda.current_device() == 0


def test_set_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    cuda.set_device("cuda:1")
    assert cuda.current_device() == 1
    cuda.set_device(-1)
    assert cuda.current_device() == 1
    cuda.set_device(0)
    assert cuda.current_device() == 0
    for argument in (None, "cuda"):
        with pytest.raises(ValueError, match="specified index"):
            cuda.set_device(argument)
    with pytest.raises(ValueError, match="but got: cpu"):
        cuda.set_device("cpu")
    with pytest.raises(RuntimeError, match="no device 2"):
        cuda.set_device(2)
    with pytest.raises(TypeError, match="expected a device"):
        cuda.set_device(1.5)  # type: ignore[arg-type]
    assert cuda.current_device() == 0


def test_the_current_device_is_per_thread(two_devices: tuple[drv.Device, drv.Device]) -> None:
    cuda.set_device(1)
    seen = []

    def work() -> None:
        seen.append(cuda.current_device())
        with cuda.device(1):
            seen.append(cuda.current_device())
        seen.append(cuda.current_device())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0, 1, 0]
    assert cuda.current_device() == 1


def test_properties(two_devices: tuple[drv.Device, drv.Device]) -> None:
    properties = cuda.get_device_properties("cuda:1")
    assert properties is two_devices[1].properties
    assert cuda.get_device_name() == cuda.get_device_properties().name
    assert cuda.get_device_capability() == two_devices[0].compute_capability
    assert cuda.is_bf16_supported(including_emulation=False) == (cuda.get_device_capability() >= (8, 0))
    free, total = cuda.mem_get_info(1)
    assert 0 < free <= total
    for ask in (cuda.get_device_properties, cuda.get_device_name, cuda.mem_get_info):
        for wrong in (2, -1):
            with pytest.raises(RuntimeError, match=f"no device {wrong}"):
                ask(wrong)


def test_synchronize_waits_for_all_streams(two_devices: tuple[drv.Device, drv.Device]) -> None:
    streams = [cuda.Stream(1) for _ in range(3)]
    memory = [drv.DeviceMemory(1 << 20, two_devices[1]) for _ in streams]
    for stream, each in zip(streams, memory, strict=True):
        drv.memset(each, 1, 1 << 20, stream=stream.native)
    cuda.synchronize("cuda:1")
    assert all(stream.query() for stream in streams)
    cuda.synchronize()
    cuda.synchronize(-1)
    with pytest.raises(RuntimeError, match="no device 2"):
        cuda.synchronize(2)


def test_peer_access(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    if not cuda.can_device_access_peer(0, 1):
        pytest.skip("needs peer access")
    assert not cuda.can_device_access_peer(0, 0)
    cuda.enable_peer_access(1)
    cuda.enable_peer_access(1, 0)
    assert first.peer_access_enabled(second)
    assert not second.peer_access_enabled(first)
    cuda.enable_peer_access("cuda:0", device="cuda:1")
    assert second.peer_access_enabled(first)
    cuda.disable_peer_access(1)
    assert not first.peer_access_enabled(second)
    cuda.disable_peer_access(0, device=1)
    with pytest.raises(drv.PeerAccessError):
        cuda.disable_peer_access(1)
    with pytest.raises(drv.PeerAccessError, match="not its own peer"):
        cuda.enable_peer_access(0)


@pytest.mark.simulator_only
def test_peer_access_that_the_hardware_lacks() -> None:
    drv.simulator.install(devices=2, peers="none")
    assert not cuda.can_device_access_peer(0, 1)
    with pytest.raises(drv.PeerAccessError, match="cannot access"):
        cuda.enable_peer_access(1)
    with pytest.raises(drv.PeerAccessError):
        cuda.disable_peer_access(1)


def test_seeds(two_devices: tuple[drv.Device, drv.Device]) -> None:
    from tensor.operations.random.generator import default_generator

    cuda.manual_seed_all(7)
    assert cuda.initial_seed() == 7
    with cuda.device(1):
        cuda.manual_seed(8)
        assert cuda.initial_seed() == 8
    assert cuda.initial_seed() == 7
    cuda.seed()
    assert cuda.initial_seed() != 7
    assert default_generator(1).initial_seed() == 8
    cuda.seed_all()
    assert default_generator(0).initial_seed() == default_generator(1).initial_seed() != 8


@pytest.mark.simulator_only
def test_operands_on_peers_are_refused_as_in_pytorch() -> None:
    drv.simulator.install(devices=2)
    cuda.enable_peer_access(1, 0)
    x, y = (tensor.ones(2, device=f"cuda:{k}") for k in (0, 1))
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cuda:1"):
        x + y
    with pytest.raises(RuntimeError, match="on the same device|at least two devices"):
        x @ y
    x.copy_(y)
    assert x.tolist() == [1, 1]
