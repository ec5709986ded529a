"""Driver calls about the driver itself and about devices."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    filled,
    integer,
    invalid_value,
    signed,
    text,
    unsigned,
)
from drv.simulator.driver_state import DriverState

from .error_text import ERROR_TEXT

DRIVER_VERSION = 13000


class DeviceCalls(DriverState):
    """``cuInit``, ``cuDriver*``, ``cuDevice*`` (without primary contexts) and error texts."""

    @call(uninitialised=True)
    def cuInit(self, Flags: Any) -> tuple[Any, ...]:
        if unsigned(Flags, 32) != 0:
            raise invalid_value()
        if not self.initialised:
            self.find_devices()
            if not self.devices:
                raise CallError(CUresult.CUDA_ERROR_NO_DEVICE)
            self.initialised = True
        return OK

    @call(1, uninitialised=True)
    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return SUCCESS, DRIVER_VERSION

    @call(1, uninitialised=True)
    def cuGetErrorName(self, error: Any) -> tuple[Any, ...]:
        return SUCCESS, _known_error(error).name.encode()

    @call(1, uninitialised=True)
    def cuGetErrorString(self, error: Any) -> tuple[Any, ...]:
        known = _known_error(error)
        return SUCCESS, ERROR_TEXT.get(known.name, known.name).encode()

    @call(1)
    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return SUCCESS, len(self.devices)

    @call(1)
    def cuDeviceGet(self, ordinal: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUdevice(self.device(ordinal).ordinal)

    @call(1)
    def cuDeviceGetName(self, length: Any, dev: Any) -> tuple[Any, ...]:
        size = signed(length)
        if size <= 0:
            raise invalid_value()
        return SUCCESS, self.device(dev).name.encode()[: size - 1].ljust(size, b"\0")

    @call(1)
    def cuDeviceGetUuid(self, dev: Any) -> tuple[Any, ...]:
        return SUCCESS, filled(cuda.CUuuid(), self.device(dev).uuid)

    @call(2)
    def cuDeviceGetLuid(self, dev: Any) -> tuple[Any, ...]:
        self.device(dev)
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    @call(1)
    def cuDeviceTotalMem(self, dev: Any) -> tuple[Any, ...]:
        return SUCCESS, self.device(dev).total

    @call(1)
    def cuDeviceGetAttribute(self, attrib: Any, dev: Any) -> tuple[Any, ...]:
        value = self.device(dev).attributes.get(integer(attrib))
        if value is None:
            raise invalid_value()
        return SUCCESS, value

    @call(2)
    def cuDeviceComputeCapability(self, dev: Any) -> tuple[Any, ...]:
        return (SUCCESS, *self.device(dev).capability)

    @call(1)
    def cuDeviceGetPCIBusId(self, length: Any, dev: Any) -> tuple[Any, ...]:
        size = signed(length)
        bus_id = self.device(dev).pci_bus_id.encode()
        if size <= len(bus_id):
            raise invalid_value()
        return SUCCESS, bus_id.ljust(size, b"\0")

    @call(1)
    def cuDeviceGetByPCIBusId(self, pciBusId: Any) -> tuple[Any, ...]:
        bus_id = text(pciBusId).decode(errors="replace").upper()
        for device in self.devices:
            if bus_id in (device.pci_bus_id, device.pci_bus_id.removesuffix(".0")):
                return SUCCESS, cuda.CUdevice(device.ordinal)
        raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)

    @call(1)
    def cuDeviceGetExecAffinitySupport(self, typename: Any, dev: Any) -> tuple[Any, ...]:
        self.device(dev)
        return SUCCESS, 0

    @call(1)
    def cuDeviceCanAccessPeer(self, dev: Any, peerDev: Any) -> tuple[Any, ...]:
        pair = (self.device(dev).index, self.device(peerDev).index)
        return SUCCESS, int(pair in self.options.peers)

    @call(1)
    def cuDeviceGetP2PAttribute(self, attrib: Any, srcDevice: Any, dstDevice: Any) -> tuple[Any, ...]:
        source, destination = self.device(srcDevice), self.device(dstDevice)
        if source is destination:
            raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)
        try:
            attribute = cuda.CUdevice_P2PAttribute(integer(attrib))
        except ValueError:
            raise invalid_value() from None
        reachable = (source.index, destination.index) in self.options.peers
        attributes = cuda.CUdevice_P2PAttribute
        answers = {
            attributes.CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: reachable,
            attributes.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: reachable,
        }
        return SUCCESS, int(answers.get(attribute, 0))

    @call(1)
    def cuDeviceGetProperties(self, dev: Any) -> tuple[Any, ...]:
        attributes, result = self.device(dev).attributes, cuda.CUdevprop()

        def value(name: str) -> int:
            return attributes[int(getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"))]

        result.maxThreadsPerBlock = value("MAX_THREADS_PER_BLOCK")
        result.maxThreadsDim = [value(f"MAX_BLOCK_DIM_{axis}") for axis in "XYZ"]
        result.maxGridSize = [value(f"MAX_GRID_DIM_{axis}") for axis in "XYZ"]
        result.sharedMemPerBlock = value("MAX_SHARED_MEMORY_PER_BLOCK")
        result.totalConstantMemory = value("TOTAL_CONSTANT_MEMORY")
        result.SIMDWidth = value("WARP_SIZE")
        result.memPitch = value("MAX_PITCH")
        result.regsPerBlock = value("MAX_REGISTERS_PER_BLOCK")
        result.clockRate = value("CLOCK_RATE")
        result.textureAlign = value("TEXTURE_ALIGNMENT")
        return SUCCESS, result

    @call(1)
    def cuDeviceRegisterAsyncNotification(
        self, device: Any, callbackFunc: Any, userData: Any
    ) -> tuple[Any, ...]:
        self.device(device)
        if integer(callbackFunc) == 0:
            raise invalid_value()
        # There is only the one about too much memory, which a driver sends that has such a limit.
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    @call()
    def cuDeviceUnregisterAsyncNotification(self, device: Any, callback: Any) -> tuple[Any, ...]:
        self.device(device)
        integer(callback)
        raise invalid_value()

    @call()
    def cuProfilerStart(self) -> tuple[Any, ...]:
        self.current()
        return OK

    @call()
    def cuProfilerStop(self) -> tuple[Any, ...]:
        self.current()
        return OK


def _known_error(error: Any) -> CUresult:
    try:
        return CUresult(integer(error))
    except ValueError:
        raise invalid_value() from None
