"""GPUs that a device stands for: what their figures say of work of known size."""

from __future__ import annotations

import pytest

from drv.simulator.device_models import MODELS
from drv.simulator.device_properties import SimulatedDevice
from drv.simulator.options import parse_options
from drv.simulator.timing.device_schedule import DeviceSchedule
from drv.simulator.timing.work_time import PEAK, product_seconds
from drv.simulator.work.simulated_library import ProductCost


def _device(model: str) -> SimulatedDevice:
    return SimulatedDevice(parse_options(model=model), 0)


@pytest.mark.parametrize("model", MODELS)
def test_large_products_take_most_of_the_peak(model: str) -> None:
    device = _device(model)
    size = 8192
    for unit in ("f16", "f32"):
        cost = ProductCost(size, size, size, 1, unit, 3 * size * size * 4)
        seconds, _ = product_seconds(
            cost, DeviceSchedule(device).figures, device.multiprocessors, device.hardware
        )
        assert 0.6 < 2 * size**3 / seconds / 1e12 / PEAK[MODELS[model].name][unit] < 1


def test_a_v100_computes_in_double_precision_where_what_runs_its_code_does_not() -> None:
    rates = {model: DeviceSchedule(_device(model)).rates.double for model in ("v100", "v100-32gb", "t4")}
    assert rates == {"v100": 32, "v100-32gb": 32, "t4": 2}
