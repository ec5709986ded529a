"""When a device can begin what is ready: kernels share it, and each direction of copies has an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .figures import figures_of, pipe_rates
from .metering.caches import Level2

if TYPE_CHECKING:
    from drv.simulator.device_properties import SimulatedDevice


class DeviceSchedule:
    """What of a device is in use when."""

    def __init__(self, device: SimulatedDevice) -> None:
        self.figures = figures_of(device.model)
        self.rates = pipe_rates(device.hardware)
        self.level2 = Level2(self.figures.l2_bytes)
        self._engines: dict[str, float] = {}
        #: Kernels that may still run: end and share of the device, by end.
        self._kernels: list[tuple[float, float]] = []

    def begin(self, engine: str, ready: float, share: float) -> float:
        """When an operation that is ready can start on an engine."""
        if engine != "compute":
            return max(ready, self._engines.get(engine, 0.0)) if engine else ready
        running = sorted(each for each in self._kernels if each[0] > ready)
        used = sum(each[1] for each in running)
        start = ready
        for end, other in running:
            if used + share <= 1.0 + 1e-9:
                break
            start, used = end, used - other
        return start

    def takes(self, engine: str, start: float, end: float, share: float) -> None:
        """It has the engine until ``end``."""
        if engine == "compute":
            self._kernels = [each for each in self._kernels if each[0] > start]
            self._kernels.append((end, share))
        elif engine:
            self._engines[engine] = max(self._engines.get(engine, 0.0), end)
