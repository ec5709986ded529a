"""Which exception an error becomes, and what it says."""

from __future__ import annotations

import numpy as np
import pytest

import drv
from drv import errors
from tests.drv.conftest import load


def test_every_error_is_a_cuda_error() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 25
    assert all(issubclass(kind, drv.CudaError) for kind in kinds)
    assert all(getattr(drv, kind.__name__) is kind for kind in kinds)
    assert issubclass(drv.CudaError, RuntimeError)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("INVALID_VALUE", drv.InvalidValueError),
        ("OUT_OF_MEMORY", drv.OutOfMemoryError),
        ("NO_DEVICE", drv.NoDeviceError),
        ("INVALID_HANDLE", drv.InvalidHandleError),
        ("ILLEGAL_ADDRESS", drv.IllegalAddressError),
        ("MISALIGNED_ADDRESS", drv.MisalignedAddressError),
        ("ASSERT", drv.DeviceAssertError),
        ("LAUNCH_FAILED", drv.LaunchError),
        ("ILLEGAL_INSTRUCTION", drv.IllegalInstructionError),
        ("LAUNCH_OUT_OF_RESOURCES", drv.LaunchResourcesError),
        ("DEVICE_UNAVAILABLE", drv.DeviceLostError),
        ("PEER_ACCESS_NOT_ENABLED", drv.PeerAccessError),
        ("INVALID_PTX", drv.ModuleLoadError),
        ("NOT_SUPPORTED", drv.NotSupportedError),
        ("NOT_PERMITTED", drv.NotPermittedError),
        ("STREAM_CAPTURE_UNSUPPORTED", drv.CaptureError),
        ("SYSTEM_DRIVER_MISMATCH", drv.NoDriverError),
        ("TIMEOUT", drv.CudaError),
    ],
)
def test_classes_of_statuses(name: str, kind: type[drv.CudaError]) -> None:
    from cuda.bindings.driver import CUresult

    status = getattr(CUresult, f"CUDA_ERROR_{name}")
    assert errors.error_class(int(status)) is kind
    assert errors.is_sticky(int(status)) is issubclass(kind, drv.DeviceFaultError)


def test_messages_name_status_text_and_call(device: drv.Device) -> None:
    with pytest.raises(drv.CudaError) as caught:
        device.runtime.check(device.runtime.driver.cuDeviceGet(77), "cuDeviceGet", 77)
    assert str(caught.value).startswith(
        "cuDeviceGet(77) failed: CUDA_ERROR_INVALID_DEVICE: invalid device ordinal"
    )
    assert caught.value.status == "CUDA_ERROR_INVALID_DEVICE"
    assert caught.value.call == "cuDeviceGet(77)"


def test_successful_results(device: drv.Device) -> None:
    from cuda.bindings.driver import CUresult

    success = CUresult.CUDA_SUCCESS
    check = device.runtime.check
    assert check((success,), "call") is None
    assert check((success, 5), "call") == 5
    assert check((success, 5, 6), "call") == (5, 6)


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_faults_are_asynchronous_sticky_and_explained(schedule: str) -> None:
    drv.simulator.install(schedule=schedule)
    device = drv.Device(0)
    module = load(device)
    stream, memory = drv.Stream(device), drv.DeviceMemory(64, device)
    module.function("stray").launch(1, 1, (memory,), stream=stream)
    with pytest.raises(drv.IllegalAddressError) as caught:
        stream.synchronize()
    text = str(caught.value)
    assert text.startswith("cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access")
    assert "stray" in text
    assert "kernels.cu:" in text
    assert "test_errors.py" in text
    assert "asynchronous" in text
    assert "CUDA_LAUNCH_BLOCKING=1" in text
    assert "context is lost" in text
    assert caught.value.sticky

    for use in (device.synchronize, lambda: drv.DeviceMemory(64, device), lambda: drv.memset(memory, 0, 4)):
        with pytest.raises(
            drv.IllegalAddressError, match="The context was lost earlier: cuStreamSynchronize"
        ) as later:
            use()
        assert "'stray'" in str(later.value)
        assert later.value.sticky


@pytest.mark.simulator_only
def test_a_lost_context_leaves_other_devices(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    load(first).function("stray").launch(1, 1, (drv.DeviceMemory(64, first),))
    with pytest.raises(drv.IllegalAddressError):
        first.synchronize()
    drv.memset(drv.DeviceMemory(64, second), 0, 64)
    second.synchronize()


@pytest.mark.simulator_only
def test_launch_blocking_raises_at_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    drv.simulator.install(schedule="lazy")
    device = drv.Device(0)
    stray = load(device).function("stray")
    memory, stream = drv.DeviceMemory(64, device), drv.Stream(device)
    with pytest.raises(drv.IllegalAddressError, match="cuLaunchKernel.* of kernel 'stray' failed") as caught:
        stray.launch(1, 1, (memory,), stream=stream)
    assert caught.value.kernel == "stray"
    assert "asynchronous" not in str(caught.value)
    assert caught.traceback[-1].path.name == "runtime.py"


@pytest.mark.simulator_only
def test_launch_blocking_raises_findings_at_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    drv.simulator.install(check="full")
    device = drv.Device(0)
    module = load(device)
    source, target = drv.DeviceMemory(64, device), drv.DeviceMemory(64, device)
    with pytest.raises(drv.UninitializedReadError):
        module.function("scale").launch(1, 16, (target, source, 2.0, 16))


@pytest.mark.simulator_only
def test_without_the_simulators_report_the_last_launches_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    drv.simulator.install(schedule="lazy")
    device = drv.Device(0)
    module = load(device)
    memory = drv.DeviceMemory(64, device)
    monkeypatch.setattr(device.runtime.driver, "fault_report", lambda: None)
    module.function("fill").launch(1, 1, (memory, np.float32(1), np.int32(1)))
    module.function("stray").launch(1, 1, (memory,))
    with pytest.raises(
        drv.IllegalAddressError, match="Launches before the error, the latest last: 'fill', 'stray'"
    ):
        device.synchronize()


@pytest.mark.simulator_only
def test_failed_launches_on_demand() -> None:
    drv.simulator.install()
    device = drv.Device(0)
    nothing = load(device).function("nothing")
    device.runtime.driver.inject.fail_launch(2, "nothing")
    nothing.launch(1, 1)
    nothing.launch(1, 1)
    with pytest.raises(drv.LaunchError, match="kernel 'nothing'"):
        device.synchronize()


@pytest.mark.simulator_only
def test_a_lost_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    first.make_current()
    first.runtime.driver.inject.lose_device(0)
    with pytest.raises(drv.DeviceLostError):
        first.synchronize()
    second.synchronize()


@pytest.mark.simulator_only
def test_findings_become_errors_of_their_kind() -> None:
    kinds = {
        "race": drv.DataRaceError,
        "shared race": drv.DataRaceError,
        "kernel race": drv.DataRaceError,
        "register race": drv.DataRaceError,
        "same value": drv.DataRaceError,
        "uninitialized": drv.UninitializedReadError,
        "freed while in use": drv.FreedInUseError,
    }
    from drv.simulator.checks.findings import Kind

    assert {kind: errors.finding_class(kind) for kind in Kind} == kinds
    assert errors.finding_class("another") is drv.FindingError


@pytest.mark.simulator_only
def test_findings_are_collected_when_a_tool_asks() -> None:
    drv.simulator.install(check="race")
    device = drv.Device(0)
    memory = drv.DeviceMemory(64, device)
    with drv.simulator.findings().collecting():
        drv.memset(memory, 1, 64, stream=drv.Stream(device))
        drv.memset(memory, 2, 64, stream=drv.Stream(device))
        device.synchronize()
    assert [finding.kind for finding in drv.simulator.findings()] == ["race"]
    device.synchronize()


def test_findings_need_the_simulator(device: drv.Device) -> None:
    if device.runtime.simulated:
        assert len(drv.simulator.findings()) == 0
    else:
        with pytest.raises(drv.NotSupportedError, match="GRAPHROOT_DRIVER=simulator"):
            drv.simulator.findings()
