"""Times of the hardware: CUPTI's records belong to the spans that queued them; events stand in where it is not installed."""

from __future__ import annotations

import sys

import pytest

import drv
import tensor
from drv.activity import Activity
from tensor.profiler import DeviceType, devices, profile, record_function

pytestmark = pytest.mark.simulator_only

PROFILE = sys.modules[profile.__module__]


class FakeRecorder:
    """Notes the number that is on top when something is queued, as CUPTI does."""

    dropped = 0

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.activities: list[Activity] = []

    def start(self) -> None:
        assert not self.stack

    def stop(self) -> None:
        assert not self.stack

    def push(self, number: int) -> None:
        self.stack.append(number)

    def pop(self) -> None:
        self.stack.pop()

    def queued(self, name: str, start: int) -> None:
        top = self.stack[-1] if self.stack else 0
        self.activities.append(
            Activity(name, "kernel", 0, 3, start, start + 5000, top, 0, (2, 1, 1), (64, 1, 1), 24, 128)
        )


def test_records_belong_to_the_operation_that_was_running(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = FakeRecorder()
    with drv.simulator.installed():
        monkeypatch.setattr(PROFILE, "source_of_devices", lambda *_, **__: devices.Measured(recorder))  # type: ignore[arg-type]
        x = tensor.ones(8, device="cuda")
        with profile(with_stack=True) as run, record_function("outer"):
            x * 3
            recorder.queued("kernel", 10**6)
    events = run.events()
    (kernel,) = [each for each in events if each.device_type is DeviceType.CUDA]
    outer = next(each for each in events if each.key == "outer")
    assert outer.kernels == [kernel]
    assert kernel.details == {"grid": [2, 1, 1], "block": [64, 1, 1], "registers": 24, "shared_memory": 128}
    assert run.device_times == "measured by CUPTI"
    assert "CUDA times are measured by CUPTI" in run.key_averages().table()


def test_events_stand_in_for_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    with drv.simulator.installed():
        monkeypatch.setattr(PROFILE, "source_of_devices", lambda *_, **__: devices.Events())
        x = tensor.ones(1 << 16, device="cuda", requires_grad=True)
        with profile() as run:
            ((x * 3).sum()).backward()
        names = [each.name for each in run.device_events()]
    assert {"aten::mul", "aten::sum", "SumBackward0", "MulBackward0"} <= set(names)
    assert "aten::backward" not in names
    assert run.device_times.startswith("measured by events")
    assert all(each.nanoseconds > 0 for each in run.device_events())
