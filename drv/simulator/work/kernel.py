"""Launches of kernels."""

from __future__ import annotations

import sys
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cuda.bindings.driver import CUgraphNodeType

from drv.simulator.execution import Launch
from drv.simulator.execution import run as run_kernel
from drv.simulator.faults import DeviceFault

from .work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuda.bindings.driver import CUresult

    from drv.simulator.api.modules.module import LoadedFunction
    from drv.simulator.driver_state import DriverState

Dimensions = tuple[int, int, int]
NO_ATTRIBUTES: Mapping[int, bytes] = MappingProxyType({})


class KernelWork(Work):
    """A launch: the kernel, grid and block, bytes of dynamic shared memory per block, and the parameter buffer.

    ``attributes`` are those of the launch by number, the bytes of ``CUlaunchAttributeValue``; ``cluster`` are the
    blocks of a cluster along ``(x, y, z)``, where there are any.
    """

    __slots__ = ("attributes", "block", "cluster", "cooperative", "function", "grid", "parameters", "shared")
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL

    def __init__(
        self,
        function: LoadedFunction,
        grid: Dimensions,
        block: Dimensions,
        shared: int,
        parameters: bytes,
        *,
        cooperative: bool = False,
        cluster: Dimensions | None = None,
        attributes: Mapping[int, bytes] = NO_ATTRIBUTES,
    ) -> None:
        super().__init__(function.context, function.label)
        self.function = function
        self.grid = grid
        self.block = block
        self.shared = shared
        self.parameters = parameters
        self.cooperative = cooperative
        self.cluster = cluster
        self.attributes = attributes

    def with_attributes(
        self, attributes: Mapping[int, bytes], *, cooperative: bool, cluster: Dimensions | None
    ) -> KernelWork:
        """The same launch with other attributes, and what follows from them."""
        return KernelWork(
            self.function,
            self.grid,
            self.block,
            self.shared,
            self.parameters,
            cooperative=cooperative,
            cluster=cluster,
            attributes=attributes,
        )

    def run(self, driver: DriverState) -> None:
        """Run the kernel."""
        function = self.function
        checker: Any = driver.scheduler.checker
        device = function.context.device
        launch = Launch(
            kernel=function.kernel,
            module=function.module.parsed,
            symbols=function.module.symbols,
            grid=self.grid,
            block=self.block,
            dynamic_shared=self.shared,
            params=self.parameters,
            device=device.ordinal,
            properties=device.execution_properties,
            checked=driver.options.check != "off",
            observer=driver.observer,
            printf=sys.stdout.write,
            cooperative=self.cooperative,
            cluster=self.cluster,
            set_condition=partial(driver.set_condition, self.context),
            schedule=driver.options.schedule,
            seed=driver.options.seed,
            native=driver.options.native,
            cores=driver.options.cores,
        )
        if checker is None:
            run_kernel(launch, driver.memory)
            return
        checker.launch_begins(launch)
        try:
            run_kernel(launch, driver.memory)
        finally:
            checker.launch_ends(launch)


class FailingKernelWork(KernelWork):
    """The launch ``work``, which fails with ``status``, as ``inject.fail_launch`` has asked."""

    __slots__ = ("status",)

    def __init__(self, work: KernelWork, status: CUresult) -> None:
        super().__init__(
            work.function,
            work.grid,
            work.block,
            work.shared,
            work.parameters,
            cooperative=work.cooperative,
            cluster=work.cluster,
            attributes=work.attributes,
        )
        self.status = status

    def run(self, driver: DriverState) -> None:
        """Fail."""
        raise DeviceFault(self.status, f"{self.function.label} failed: asked for by inject.fail_launch")
