"""Choosing the driver, dropping it, what importing costs, and what survives a fork or an exit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import drv

ROOT = Path(__file__).resolve().parents[2]
simulator_only = pytest.mark.simulator_only


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a fresh interpreter, on the driver of the tests unless told otherwise."""
    chosen = {"GRAPHROOT_DRIVER": os.environ.get("GRAPHROOT_DRIVER", "simulator")} | environment
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env={**os.environ, **chosen},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def expect_quiet(code: str, **environment: str) -> None:
    """Run ``code``, which must end well and print nothing."""
    done = run_python(code, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_loads_no_driver_and_no_numpy() -> None:
    expect_quiet(
        """
        import sys, drv, nvrtc_kernels
        loaded = [name for name in sys.modules if name.startswith(("cuda", "numpy"))]
        assert not loaded, loaded
        assert not drv.is_initialized()
        """
    )


@simulator_only
def test_the_simulator_is_never_chosen_silently() -> None:
    expect_quiet(
        """
        import drv
        assert not drv.is_available()
        assert drv.device_count() == 0
        for choose in (drv.runtime, drv.Device, drv.Stream):
            try:
                choose()
            except (drv.NoDriverError, drv.NoDeviceError) as error:
                assert "GRAPHROOT_DRIVER" in str(error) or "CUDA_VISIBLE_DEVICES" in str(error)
            else:
                raise AssertionError(choose)
        """,
        GRAPHROOT_DRIVER="auto",
        CUDA_VISIBLE_DEVICES="",
    )


@simulator_only
def test_the_variables_choose_the_simulator() -> None:
    expect_quiet(
        """
        import drv
        assert drv.device_count() == 3
        assert drv.runtime().name == "simulator"
        assert drv.Device(2).compute_capability == (8, 0)
        """,
        GRAPHROOT_SIMULATOR="devices=3,capability=8.0",
    )


@simulator_only
def test_visible_devices_are_renumbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    drv.simulator.install(devices=3, memory=(1 << 20, 2 << 20, 3 << 20))
    assert [drv.Device(ordinal).total_memory for ordinal in range(2)] == [3 << 20, 1 << 20]
    assert drv.device_count() == 2


@simulator_only
def test_no_visible_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("GRAPHROOT_DRIVER", "simulator")
    assert not drv.is_available()
    with pytest.raises(drv.NoDeviceError, match="CUDA_VISIBLE_DEVICES"):
        drv.Device(0)


@simulator_only
def test_options_of_install_win_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_SIMULATOR", "devices=3,capability=8.0")
    drv.simulator.install(devices=2)
    assert drv.device_count() == 2
    assert drv.Device(1).compute_capability == (8, 0)


@simulator_only
def test_install_comes_before_the_first_use() -> None:
    drv.simulator.install()
    with pytest.raises(drv.CudaError, match=r"simulator driver is already in use.*drv\.reset\(\)"):
        drv.simulator.install(devices=2)
    assert drv.device_count() == 1


@simulator_only
@pytest.mark.parametrize("options", [{"device": 2}, {"devices": "many"}, {"schedule": "late"}])
def test_bad_options_change_nothing(options: dict[str, object]) -> None:
    (name,) = options
    with pytest.raises(drv.InvalidValueError, match=name):
        drv.simulator.install(**options)
    assert not drv.is_initialized()


@simulator_only
def test_installed_drops_the_driver_after_the_block() -> None:
    with drv.simulator.installed(devices=2) as runtime:
        assert drv.runtime() is runtime
        assert runtime.alive
    assert not drv.is_initialized()
    assert not runtime.alive
    with drv.simulator.installed(devices=1) as second:
        assert len(second.devices) == 1


def test_one_runtime_and_one_object_per_device(device: drv.Device) -> None:
    assert drv.runtime() is drv.runtime()
    assert drv.Device(0) is device
    assert drv.Device() is device
    assert drv.current_device() is device


def test_no_such_device(device: drv.Device) -> None:
    for ordinal in (-1, drv.device_count()):
        with pytest.raises(drv.InvalidValueError, match=f"no device {ordinal}"):
            drv.Device(ordinal)


@simulator_only
def test_counting_devices_makes_no_context() -> None:
    drv.simulator.install(devices=2)
    assert drv.device_count() == 2
    assert drv.is_available()
    assert drv.Device(1).name
    assert drv.Device(1).properties.total_memory
    assert all(device.context is None for device in drv.runtime().devices)
    assert drv.runtime().driver.cuDevicePrimaryCtxGetState(0)[2] == 0


def test_the_cache_of_the_runtime_makes_a_value_once(device: drv.Device) -> None:
    result = [device.runtime.cache("a key of this test", object) for _ in range(3)]
    assert result[0] is result[1] is result[2]
    assert device.runtime.cache("a key that holds none", lambda: None) is None


@simulator_only
def test_objects_of_a_dropped_runtime_say_so() -> None:
    drv.simulator.install()
    device = drv.Device(0)
    runtime = drv.runtime()
    stream, event = drv.Stream(device), drv.Event(device)
    memory, pinned = drv.DeviceMemory(1024, device), drv.PinnedMemory(1024, device)
    array = pinned.array()
    drv.reset()
    uses = [
        device.synchronize,
        device.memory_info,
        lambda: device.attribute("WARP_SIZE"),
        stream.synchronize,
        stream.query,
        lambda: event.record(stream),
        lambda: stream.wait_event(event),
        event.query,
        lambda: drv.copy_to_device(memory, b"1234", 4),
        lambda: drv.memset(memory, 0, 4, stream=stream),
        lambda: drv.DeviceMemory(16, device),
        lambda: drv.Stream(device),
        lambda: stream.add_callback(print),
        lambda: runtime.cache("new", object),
        memory.free,
        stream.close,
    ]
    for use in uses:
        with pytest.raises(drv.DroppedRuntimeError, match=r"drv\.reset\(\)"):
            use()
    array[:] = 1
    pinned.free()
    assert int(array.sum()) == 1024
    drv.simulator.install()
    assert drv.Device(0) is not device


@simulator_only
def test_reset_gives_back_what_the_runtime_holds() -> None:
    drv.simulator.install()
    runtime = drv.runtime()
    driver = runtime.driver
    device = drv.Device(0)
    runtime.cache("kept", lambda: drv.DeviceMemory(1 << 20, device))
    assert device.memory_info().free < device.memory_info().total
    drv.reset()
    assert driver.cuDevicePrimaryCtxGetState(0)[2] == 0
    assert driver.devices[0].used == 0


@simulator_only
@pytest.mark.timeout(60)
def test_callbacks_that_a_reset_waits_for_may_call_the_library() -> None:
    entered, done = threading.Event(), []

    def callback() -> None:
        entered.set()
        # Another thread is waiting for this function by now, or is about to.
        time.sleep(0.1)
        done.append((drv.runtime() is before, drv.device_count()))

    before, count = drv.simulator.install(), drv.device_count()
    drv.Stream().add_callback(callback)
    drv.reset()
    assert entered.is_set()
    assert done == [(True, count)]


@simulator_only
def test_a_child_forked_without_a_context_works() -> None:
    expect_quiet(
        """
        import os, drv
        drv.simulator.install(devices=2)
        assert drv.device_count() == 2
        child = os.fork()
        if child == 0:
            try:
                assert drv.device_count() == 2
                drv.DeviceMemory(1024).free()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )


def test_a_child_forked_after_a_context_is_told_to_spawn() -> None:
    expect_quiet(
        """
        import gc, os, drv
        memory, pinned, stream = drv.DeviceMemory(1024), drv.PinnedMemory(1024), drv.Stream()
        runtime, devices = drv.runtime(), drv.device_count()
        child = os.fork()
        if child == 0:
            try:
                uses = [drv.runtime, drv.Stream, lambda: drv.DeviceMemory(8), stream.synchronize, memory.free,
                        lambda: drv.copy_to_device(memory, bytes(1024)), lambda: drv.Device(0),
                        lambda: runtime.device(0), lambda: runtime.cache("anything", dict)]
                for use in uses:
                    try:
                        use()
                    except drv.ForkError as error:
                        assert "spawn" in str(error)
                    else:
                        raise AssertionError(use)
                assert drv.is_available()
                assert drv.device_count() == devices
                del memory, pinned, stream, uses, use
                gc.collect()
                os._exit(0)
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        drv.copy_to_device(memory, bytes(1024))
        memory.free()
        stream.synchronize()
        """
    )


def test_spawned_children_work(device: drv.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    device.make_current()
    if device.runtime.simulated:
        monkeypatch.setenv("GRAPHROOT_DRIVER", "simulator")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_allocate, 1024).result(60) == 1024


def _allocate(nbytes: int) -> int:
    with drv.DeviceMemory(nbytes) as memory:
        return memory.nbytes


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_exit_with_live_handles_is_quiet(schedule: str) -> None:
    expect_quiet(
        """
        import sys, drv
        device = drv.Device(0)
        memory, pinned = drv.DeviceMemory(1024), drv.PinnedMemory(1024)
        stream, event = drv.Stream(), drv.Event()
        array = pinned.array()
        drv.copy_to_device(memory, pinned, stream=stream)
        event.record(stream)
        stream.add_callback(len, "abc")
        kept = [memory, pinned, stream, event, array]
        kept.append(kept)
        sys.kept = kept
        """,
        GRAPHROOT_SIMULATOR=f"schedule={schedule}",
    )


def test_exit_reports_what_a_callback_raised() -> None:
    done = run_python(
        """
        import drv
        drv.Stream().add_callback(int, "no number")
        """
    )
    assert done.returncode == 0
    assert "HostCallbackError" in done.stderr
    assert "ValueError: invalid literal for int()" in done.stderr


@simulator_only
def test_exit_reports_findings_that_nothing_has_raised() -> None:
    done = run_python(
        """
        import drv
        memory = drv.DeviceMemory(64)
        drv.memset(memory, 1, 64, stream=drv.Stream())
        drv.memset(memory, 2, 64, stream=drv.Stream())
        """,
        GRAPHROOT_SIMULATOR="check=race",
    )
    assert done.returncode == 0
    assert "drv.errors.DataRaceError" in done.stderr
