from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import drv
from drv.simulator.timing.recorder import recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.simulator.timing.records import TimedOperation


class Bench:
    """Runs kernels on a simulated GPU and gives what the model says of them."""

    def __init__(self, runtime: Any, model: str) -> None:
        self.runtime = runtime
        self.model = model
        self._modules: dict[str, drv.Module] = {}

    def kernel(self, source: str, name: str) -> drv.Function:
        major, minor = self.runtime.devices[0].compute_capability
        module = self._modules.get(source)
        if module is None:
            program = drv.compile_program(source, f"compute_{major}{minor}", line_info=True)
            module = self._modules[source] = drv.Module(program.image)
        return module.function(name)

    def time(
        self, source: str, name: str, grid: Any, block: Any, arguments: Any, *, results: bool = False
    ) -> TimedOperation:
        with recording(self.runtime.driver, results=results) as recorder:
            self.kernel(source, name).launch(grid, block, arguments)
            drv.Device(0).synchronize()
        (operation,) = [each for each in recorder.operations if each.category == "kernel"]
        return operation


@pytest.fixture
def h200() -> Iterator[Bench]:
    with drv.simulator.installed(model="h200", check="off") as runtime:
        yield Bench(runtime, "h200")
