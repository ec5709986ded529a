"""Driver calls about links between devices and machines: multicast objects, logical endpoints, fabrics, remote writes.

Simulated devices have no such links, as the attributes of devices say. The calls check their arguments and say so.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_value,
    listed,
    structure,
    unsigned,
)
from drv.simulator.driver_state import DriverState

_OPERATIONS = tuple(int(each) for each in cuda.CUatomicOperation)
_CAPABILITY = cuda.CUatomicOperationCapability
_ATOMICS = cuda.CUatomicOperation
_EITHER_SIGN = int(_CAPABILITY.CU_ATOMIC_CAPABILITY_SIGNED | _CAPABILITY.CU_ATOMIC_CAPABILITY_UNSIGNED)
_SCALARS = int(_CAPABILITY.CU_ATOMIC_CAPABILITY_SCALAR_32 | _CAPABILITY.CU_ATOMIC_CAPABILITY_SCALAR_64)
_REDUCED = int(_CAPABILITY.CU_ATOMIC_CAPABILITY_REDUCTION)


def _not_supported() -> CallError:
    return CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)


class FabricCalls(DriverState):
    """``cuMulticast*``, ``cuLogicalEndpoint*``, ``cuDeviceGetClique*``, ``cuDevice*AtomicCapabilities``, ..."""

    # Atomics over links

    @call(1)
    def cuDeviceGetHostAtomicCapabilities(self, operations: Any, count: Any, dev: Any) -> tuple[Any, ...]:
        self.device(dev)
        # Over PCIe there are none.
        return SUCCESS, [0 for _ in _asked(operations, count)]

    @call(1)
    def cuDeviceGetP2PAtomicCapabilities(
        self, operations: Any, count: Any, srcDevice: Any, dstDevice: Any
    ) -> tuple[Any, ...]:
        source, target = self.device(srcDevice), self.device(dstDevice)
        if source is target:
            raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)
        reachable = (source.index, target.index) in self.options.peers
        return SUCCESS, [_capabilities(each) if reachable else 0 for each in _asked(operations, count)]

    # Multicast

    @call(1)
    def cuMulticastCreate(self, prop: Any) -> tuple[Any, ...]:
        raise self._no_multicast(prop)

    @call(1)
    def cuMulticastGetGranularity(self, prop: Any, option: Any) -> tuple[Any, ...]:
        if integer(option) not in (0, 1):
            raise invalid_value()
        raise self._no_multicast(prop)

    def _no_multicast(self, prop: Any) -> CallError:
        properties = structure(prop, cuda.CUmulticastObjectProp)
        if properties.numDevices == 0 or properties.size == 0 or properties.flags:
            return invalid_value()
        if properties.numDevices > len(self.devices):
            return CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)
        return _not_supported()

    @call()
    def cuMulticastAddDevice(self, mcHandle: Any, dev: Any) -> tuple[Any, ...]:
        self.device(dev)
        raise _no_object(mcHandle)

    @call()
    def cuMulticastBindMem(
        self, mcHandle: Any, mcOffset: Any, memHandle: Any, memOffset: Any, size: Any, flags: Any
    ) -> tuple[Any, ...]:
        unsigned(mcOffset), unsigned(memOffset), unsigned(size), unsigned(flags)
        raise _no_object(mcHandle)

    @call()
    def cuMulticastBindMem_v2(
        self, mcHandle: Any, dev: Any, mcOffset: Any, memHandle: Any, memOffset: Any, size: Any, flags: Any
    ) -> tuple[Any, ...]:
        self.device(dev)
        unsigned(mcOffset), unsigned(memOffset), unsigned(size), unsigned(flags)
        raise _no_object(mcHandle)

    @call()
    def cuMulticastBindAddr(
        self, mcHandle: Any, mcOffset: Any, memptr: Any, size: Any, flags: Any
    ) -> tuple[Any, ...]:
        unsigned(mcOffset), integer(memptr), unsigned(size), unsigned(flags)
        raise _no_object(mcHandle)

    @call()
    def cuMulticastBindAddr_v2(
        self, mcHandle: Any, dev: Any, mcOffset: Any, memptr: Any, size: Any, flags: Any
    ) -> tuple[Any, ...]:
        self.device(dev)
        unsigned(mcOffset), integer(memptr), unsigned(size), unsigned(flags)
        raise _no_object(mcHandle)

    @call()
    def cuMulticastUnbind(self, mcHandle: Any, dev: Any, mcOffset: Any, size: Any) -> tuple[Any, ...]:
        self.device(dev)
        unsigned(mcOffset), unsigned(size)
        raise _no_object(mcHandle)

    # Logical endpoints

    @call(1)
    def cuLogicalEndpointIdReserve(self, count: Any) -> tuple[Any, ...]:
        raise invalid_value() if unsigned(count, 32) == 0 else _not_supported()

    @call()
    def cuLogicalEndpointIdRelease(self, baseLeId: Any, count: Any) -> tuple[Any, ...]:
        integer(baseLeId), unsigned(count, 32)
        raise invalid_value()

    @call()
    def cuLogicalEndpointCreate(self, leId: Any, prop: Any) -> tuple[Any, ...]:
        integer(leId), structure(prop, cuda.CUlogicalEndpointProp)
        raise _not_supported()

    @call(2)
    def cuLogicalEndpointGetLimits(self, prop: Any) -> tuple[Any, ...]:
        structure(prop, cuda.CUlogicalEndpointProp)
        raise _not_supported()

    @call()
    def cuLogicalEndpointDestroy(self, leId: Any) -> tuple[Any, ...]:
        raise _no_object(leId)

    @call()
    def cuLogicalEndpointAddDevice(self, leId: Any, dev: Any) -> tuple[Any, ...]:
        self.device(dev)
        raise _no_object(leId)

    @call()
    def cuLogicalEndpointBindAddr(
        self, leId: Any, dev: Any, offset: Any, ptr: Any, size: Any, flags: Any
    ) -> tuple[Any, ...]:
        self.device(dev)
        unsigned(offset), integer(ptr), unsigned(size), unsigned(flags)
        raise _no_object(leId)

    @call()
    def cuLogicalEndpointBindMem(
        self, leId: Any, dev: Any, offset: Any, memHandle: Any, memOffset: Any, size: Any, flags: Any
    ) -> tuple[Any, ...]:
        self.device(dev)
        unsigned(offset), unsigned(memOffset), unsigned(size), unsigned(flags)
        raise _no_object(leId)

    @call()
    def cuLogicalEndpointUnbind(self, leId: Any, dev: Any, offset: Any, size: Any) -> tuple[Any, ...]:
        self.device(dev)
        unsigned(offset), unsigned(size)
        raise _no_object(leId)

    @call(1)
    def cuLogicalEndpointExport(self, leId: Any, handleType: Any) -> tuple[Any, ...]:
        integer(handleType)
        raise _no_object(leId)

    @call()
    def cuLogicalEndpointImport(self, leId: Any, handle: Any, handleType: Any) -> tuple[Any, ...]:
        integer(leId), integer(handleType)
        raise _not_supported()

    @call(1)
    def cuLogicalEndpointQuery(self, leId: Any, count: Any) -> tuple[Any, ...]:
        unsigned(count, 32)
        raise _no_object(leId)

    # Fabrics

    @call(1)
    def cuDeviceGetCliqueCount(self, dev: Any) -> tuple[Any, ...]:
        self.device(dev)
        raise _not_supported()

    @call(2)
    def cuDeviceGetCliqueInfo(self, count: Any, dev: Any) -> tuple[Any, ...]:
        unsigned(count, 32)
        self.device(dev)
        raise _not_supported()

    @call(1)
    def cuDeviceGetFabricClusterUuid(self, dev: Any) -> tuple[Any, ...]:
        self.device(dev)
        raise _not_supported()

    # Writes of others over a bus

    @call()
    def cuFlushGPUDirectRDMAWrites(self, target: Any, scope: Any) -> tuple[Any, ...]:
        self.current()
        targets = tuple(int(each) for each in cuda.CUflushGPUDirectRDMAWritesTarget)
        scopes = tuple(int(each) for each in cuda.CUflushGPUDirectRDMAWritesScope)
        if integer(target) not in targets or integer(scope) not in scopes:
            raise invalid_value()
        raise _not_supported()

    @call(1)
    def cuMemGetHandleForAddressRange(
        self, dptr: Any, size: Any, handleType: Any, flags: Any
    ) -> tuple[Any, ...]:
        address, nbytes, bits = integer(dptr), unsigned(size), unsigned(flags)
        dma_buf = int(cuda.CUmemRangeHandleType.CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
        if integer(handleType) != dma_buf or bits & ~1 or address % 4096 or nbytes % 4096 or not nbytes:
            raise invalid_value()
        raise _not_supported()


def _no_object(handle: Any) -> CallError:
    """The answer about an object of a kind that could not be made."""
    integer(handle)
    return invalid_value()


def _asked(operations: Any, count: Any) -> list[int]:
    number = unsigned(count, 32)
    asked = [integer(each) for each in listed(operations, number)]
    if not asked or any(each not in _OPERATIONS for each in asked):
        raise invalid_value()
    return asked


def _capabilities(operation: int) -> int:
    """What a link that does atomics does of an operation."""
    if operation in (int(_ATOMICS.CU_ATOMIC_OPERATION_CAS), int(_ATOMICS.CU_ATOMIC_OPERATION_EXCHANGE)):
        return _EITHER_SIGN | _SCALARS
    if "FLOAT" in _ATOMICS(operation).name:
        return _SCALARS | _REDUCED
    return _EITHER_SIGN | _SCALARS | _REDUCED
