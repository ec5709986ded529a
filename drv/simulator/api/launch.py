"""Driver calls that launch kernels, and occupancy."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.api.clusters import FIRST_CAPABILITY, cluster_of, clusters_at_once, largest_cluster
from drv.simulator.api.modules.kernel_parameters import gather
from drv.simulator.api.modules.module import LoadedFunction, ModuleCalls
from drv.simulator.device_properties import MAX_BLOCK, MAX_GRID, WARP_SIZE
from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_handle,
    invalid_value,
    structure,
    unsigned,
)
from drv.simulator.timing.occupancy import SHARED_UNIT, occupancy
from drv.simulator.work.kernel import FailingKernelWork, KernelWork

if TYPE_CHECKING:
    from drv.simulator.scheduler import Stream

_BLOCK_SIZE_TO_SHARED = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)


class LaunchCalls(ModuleCalls):
    """``cuLaunch*`` of kernels and ``cuOccupancy*``."""

    def launchable(self, f: Any) -> LoadedFunction:
        """The function that a launch names."""
        return self.function(f)

    @call()
    def cuLaunchKernel(
        self,
        f: Any,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: Any,
        kernelParams: Any,
        extra: Any,
    ) -> tuple[Any, ...]:
        function, stream = self.launchable(f), self.stream(hStream)
        grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        return self._launch(function, grid, block, sharedMemBytes, stream, kernelParams, extra)

    @call()
    def cuLaunchCooperativeKernel(
        self,
        f: Any,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: Any,
        kernelParams: Any,
    ) -> tuple[Any, ...]:
        function, stream = self.launchable(f), self.stream(hStream)
        grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        check_cooperative(function, grid, block, sharedMemBytes)
        return self._launch(function, grid, block, sharedMemBytes, stream, kernelParams, 0, cooperative=True)

    @call()
    def cuLaunchKernelEx(self, config: Any, f: Any, kernelParams: Any, extra: Any) -> tuple[Any, ...]:
        structure(config, cuda.CUlaunchConfig)
        function, stream = self.launchable(f), self.stream(config.hStream)
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        attribute_ids = cuda.CUlaunchAttributeID
        cooperative = False
        cluster = None
        for attribute in config.attrs[: config.numAttrs]:
            if attribute.id == attribute_ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE and attribute.value.cooperative:
                check_cooperative(function, grid, block, config.sharedMemBytes)
                cooperative = True
            elif attribute.id == attribute_ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                dimensions = attribute.value.clusterDim
                cluster = dimensions.x, dimensions.y, dimensions.z
        return self._launch(
            function,
            grid,
            block,
            config.sharedMemBytes,
            stream,
            kernelParams,
            extra,
            cooperative=cooperative,
            cluster=cluster,
        )

    def _launch(
        self,
        function: LoadedFunction,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        stream: Stream,
        kernel_parameters: Any,
        extra: Any,
        *,
        cooperative: bool = False,
        cluster: tuple[int, int, int] | None = None,
    ) -> tuple[Any, ...]:
        context = stream.context
        if function.context is not context or self.thread.contexts[-1:] != [context]:
            raise invalid_handle()
        check_dimensions(function, grid, block, shared)
        if cluster is not None or function.kernel.cluster is not None or function.kernel.explicit_cluster:
            cluster = cluster_of(function, grid, cluster)
        fault = None
        if self.inject.asked:
            fault = self.inject.launch_fault(function.kernel.name)
            if fault is not None and not fault[1]:
                raise CallError(fault[0])
        if not self.execute and stream.capture is None:
            return OK
        work = KernelWork(
            function,
            grid,
            block,
            shared,
            gather(function, kernel_parameters, extra),
            cooperative=cooperative,
            cluster=cluster,
        )
        operation = self.submit(stream, work if fault is None else FailingKernelWork(work, fault[0]))
        if self.launch_blocking and operation is not None:
            self.wait(operation)
            return self.status(stream.context)
        return OK

    # Occupancy

    @call(1)
    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, func: Any, blockSize: Any, dynamicSMemSize: Any
    ) -> tuple[Any, ...]:
        return SUCCESS, _blocks(self.launchable(func), integer(blockSize), unsigned(dynamicSMemSize))

    @call(1)
    def cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        self, func: Any, blockSize: Any, dynamicSMemSize: Any, flags: Any
    ) -> tuple[Any, ...]:
        if unsigned(flags, 32) > 1:
            raise invalid_value()
        return SUCCESS, _blocks(self.launchable(func), integer(blockSize), unsigned(dynamicSMemSize))

    @call(2)
    def cuOccupancyMaxPotentialBlockSize(
        self, func: Any, blockSizeToDynamicSMemSize: Any, dynamicSMemSize: Any, blockSizeLimit: Any
    ) -> tuple[Any, ...]:
        return self._potential(func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit)

    @call(2)
    def cuOccupancyMaxPotentialBlockSizeWithFlags(
        self,
        func: Any,
        blockSizeToDynamicSMemSize: Any,
        dynamicSMemSize: Any,
        blockSizeLimit: Any,
        flags: Any,
    ) -> tuple[Any, ...]:
        if unsigned(flags, 32) > 1:
            raise invalid_value()
        return self._potential(func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit)

    @call(1)
    def cuOccupancyMaxPotentialClusterSize(self, func: Any, config: Any) -> tuple[Any, ...]:
        structure(config, cuda.CUlaunchConfig)
        function = self.launchable(func)
        threads = config.blockDimX * config.blockDimY * config.blockDimZ
        if not _blocks(function, threads, config.sharedMemBytes):
            raise invalid_value()
        if function.context.device.capability < FIRST_CAPABILITY:
            return SUCCESS, 1
        required = function.kernel.cluster
        return SUCCESS, largest_cluster(function) if required is None else prod(required)

    @call(1)
    def cuOccupancyMaxActiveClusters(self, func: Any, config: Any) -> tuple[Any, ...]:
        structure(config, cuda.CUlaunchConfig)
        function = self.launchable(func)
        cluster = _cluster_blocks(function, config)
        if cluster is None:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE)
        threads = config.blockDimX * config.blockDimY * config.blockDimZ
        blocks = _blocks(function, threads, config.sharedMemBytes)
        return SUCCESS, clusters_at_once(blocks, function.context.device.multiprocessors, cluster)

    def _potential(self, func: Any, callback: Any, dynamic: Any, limit: Any) -> tuple[Any, ...]:
        function = self.launchable(func)
        address, fixed = integer(callback), unsigned(dynamic)
        largest = min(integer(limit) or function.max_threads, function.max_threads)
        needs = _BLOCK_SIZE_TO_SHARED(address) if address else None
        best = (0, 0, 0)
        for size in range(-(-largest // WARP_SIZE) * WARP_SIZE, 0, -WARP_SIZE):
            threads = min(size, largest)
            blocks = _blocks(function, threads, needs(threads) if needs else fixed)
            best = max(best, (blocks * threads, threads, blocks))
        _, threads, blocks = best
        return SUCCESS, blocks * function.context.device.multiprocessors, threads

    @call(1)
    def cuOccupancyAvailableDynamicSMemPerBlock(
        self, func: Any, numBlocks: Any, blockSize: Any
    ) -> tuple[Any, ...]:
        function, blocks = self.launchable(func), integer(numBlocks)
        if blocks <= 0 or integer(blockSize) <= 0:
            raise invalid_value()
        limits = function.context.device.architecture
        each = limits.shared_per_multiprocessor // blocks // SHARED_UNIT * SHARED_UNIT
        free = each - limits.reserved_shared_per_block - function.static_shared
        return SUCCESS, max(0, min(free, limits.shared_per_block_optin - function.static_shared))


def _cluster_blocks(function: LoadedFunction, config: Any) -> int | None:
    """Blocks in a cluster of a launch; ``None`` where it does not say."""
    attribute_id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    asked = [each.value.clusterDim for each in config.attrs[: config.numAttrs] if each.id == attribute_id]
    dimensions = (asked[-1].x, asked[-1].y, asked[-1].z) if asked else None
    cluster = cluster_of(function, (config.gridDimX, config.gridDimY, config.gridDimZ), dimensions)
    return None if cluster is None else prod(cluster)


def check_dimensions(
    function: LoadedFunction, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int
) -> None:
    """Refuse a grid or block that no device has, or that the kernel cannot be launched with."""
    gx, gy, gz = grid
    bx, by, bz = block
    if not (
        0 < gx <= MAX_GRID[0]
        and 0 < gy <= MAX_GRID[1]
        and 0 < gz <= MAX_GRID[2]
        and 0 < bx <= MAX_BLOCK[0]
        and 0 < by <= MAX_BLOCK[1]
        and 0 < bz <= MAX_BLOCK[2]
        and bx * by * bz <= function.max_threads
        and 0 <= shared <= function.max_dynamic_shared
    ):
        raise invalid_value()


def check_cooperative(
    function: LoadedFunction, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int
) -> None:
    """Refuse a cooperative launch whose blocks do not all fit on the device at once."""
    threads = block[0] * block[1] * block[2]
    if not 0 < threads <= function.max_threads:
        raise invalid_value()
    resident = _blocks(function, threads, shared) * function.context.device.multiprocessors
    if grid[0] * grid[1] * grid[2] > resident:
        raise CallError(CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)


def _blocks(function: LoadedFunction, threads: int, dynamic: int) -> int:
    """Blocks of ``threads`` threads that fit on a multiprocessor at once (CUDA's occupancy calculator)."""
    if threads <= 0:
        raise invalid_value()
    if threads > function.max_threads:
        return 0
    limits = function.context.device.architecture
    return occupancy(limits, threads, function.registers, function.static_shared + dynamic).blocks
