"""Driver calls that share resources with OpenGL, EGL and VDPAU.

A simulated device draws nothing, and no graphics context is ever current on it: the calls answer as NVIDIA's driver does
to a program without one, once their arguments are right. So there is no resource that the others could be called with.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    CallError,
    call,
    integer,
    invalid_handle,
    invalid_value,
    listed,
    unsigned,
)
from drv.simulator.driver_state import DriverState

_REGISTER = sum(int(each) for each in cuda.CUgraphicsRegisterFlags)
_READ_ONLY_OR_DISCARD = 3
_MAP_FLAGS = tuple(int(each) for each in cuda.CUgraphicsMapResourceFlags)
_DEVICE_LISTS = tuple(int(each) for each in cuda.CUGLDeviceList)
_STREAM_FLAGS = tuple(int(each) for each in cuda.CUeglResourceLocationFlags)
#: Kinds of OpenGL images that CUDA can use.
_TARGETS = (0x0DE1, 0x84F5, 0x8513, 0x806F, 0x8C1A, 0x8D41)


class GraphicsCalls(DriverState):
    """``cuGraphics*``, ``cuGL*``, ``cuEGL*``, ``cuVDPAU*``, ``cuEventCreateFromEGLSync``."""

    # OpenGL

    @call(2)
    def cuGLGetDevices(self, cudaDeviceCount: Any, deviceList: Any) -> tuple[Any, ...]:
        unsigned(cudaDeviceCount, 32)
        if integer(deviceList) not in _DEVICE_LISTS:
            raise invalid_value()
        raise CallError(CUresult.CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)

    @call(1)
    def cuGraphicsGLRegisterBuffer(self, buffer: Any, Flags: Any) -> tuple[Any, ...]:
        unsigned(buffer, 32)
        raise self._no_graphics(Flags)

    @call(1)
    def cuGraphicsGLRegisterImage(self, image: Any, target: Any, Flags: Any) -> tuple[Any, ...]:
        unsigned(image, 32)
        if unsigned(target, 32) not in _TARGETS:
            raise invalid_value()
        raise self._no_graphics(Flags)

    def _no_graphics(
        self, flags: Any, status: CUresult = CUresult.CUDA_ERROR_INVALID_GRAPHICS_CONTEXT
    ) -> CallError:
        """The answer to a registration, whose flags are checked first."""
        self.current()
        bits = unsigned(flags, 32)
        if bits & ~_REGISTER or bits & _READ_ONLY_OR_DISCARD == _READ_ONLY_OR_DISCARD:
            raise invalid_value()
        return CallError(status)

    # Resources

    def _no_resource(self, resource: Any) -> CallError:
        """The answer about a resource: none was ever registered."""
        integer(resource)
        self.current()
        return invalid_handle()

    @call()
    def cuGraphicsUnregisterResource(self, resource: Any) -> tuple[Any, ...]:
        raise self._no_resource(resource)

    @call(1)
    def cuGraphicsSubResourceGetMappedArray(
        self, resource: Any, arrayIndex: Any, mipLevel: Any
    ) -> tuple[Any, ...]:
        unsigned(arrayIndex, 32), unsigned(mipLevel, 32)
        raise self._no_resource(resource)

    @call(1)
    def cuGraphicsResourceGetMappedMipmappedArray(self, resource: Any) -> tuple[Any, ...]:
        raise self._no_resource(resource)

    @call(2)
    def cuGraphicsResourceGetMappedPointer(self, resource: Any) -> tuple[Any, ...]:
        raise self._no_resource(resource)

    @call(1)
    def cuGraphicsResourceGetMappedEglFrame(
        self, resource: Any, index: Any, mipLevel: Any
    ) -> tuple[Any, ...]:
        unsigned(index, 32), unsigned(mipLevel, 32)
        raise self._no_resource(resource)

    @call()
    def cuGraphicsResourceSetMapFlags(self, resource: Any, flags: Any) -> tuple[Any, ...]:
        if unsigned(flags, 32) not in _MAP_FLAGS:
            raise invalid_value()
        raise self._no_resource(resource)

    @call()
    def cuGraphicsMapResources(self, count: Any, resources: Any, hStream: Any) -> tuple[Any, ...]:
        raise self._mapping(count, resources, hStream)

    @call()
    def cuGraphicsUnmapResources(self, count: Any, resources: Any, hStream: Any) -> tuple[Any, ...]:
        raise self._mapping(count, resources, hStream)

    def _mapping(self, count: Any, resources: Any, hStream: Any) -> CallError:
        self.stream(hStream)
        handles = listed(
            resources if isinstance(resources, (list, tuple)) else [resources], unsigned(count, 32)
        )
        return invalid_handle() if handles else invalid_value()

    # EGL

    @call(1)
    def cuGraphicsEGLRegisterImage(self, image: Any, flags: Any) -> tuple[Any, ...]:
        integer(image)
        raise self._no_graphics(flags, CUresult.CUDA_ERROR_INVALID_HANDLE)

    @call(1)
    def cuEGLStreamConsumerConnect(self, stream: Any) -> tuple[Any, ...]:
        raise self._no_stream(stream)

    @call(1)
    def cuEGLStreamConsumerConnectWithFlags(self, stream: Any, flags: Any) -> tuple[Any, ...]:
        if unsigned(flags, 32) not in _STREAM_FLAGS:
            raise invalid_value()
        raise self._no_stream(stream)

    @call(1)
    def cuEGLStreamProducerConnect(self, stream: Any, width: Any, height: Any) -> tuple[Any, ...]:
        integer(width), integer(height)
        raise self._no_stream(stream)

    def _no_stream(self, stream: Any) -> CallError:
        integer(stream)
        self.current()
        return invalid_handle()

    @call()
    def cuEGLStreamConsumerDisconnect(self, conn: Any) -> tuple[Any, ...]:
        raise self._no_stream(conn)

    @call()
    def cuEGLStreamProducerDisconnect(self, conn: Any) -> tuple[Any, ...]:
        raise self._no_stream(conn)

    @call()
    def cuEGLStreamConsumerAcquireFrame(
        self, conn: Any, pCudaResource: Any, pStream: Any, timeout: Any
    ) -> tuple[Any, ...]:
        unsigned(timeout, 32)
        raise self._no_stream(conn)

    @call()
    def cuEGLStreamConsumerReleaseFrame(self, conn: Any, pCudaResource: Any, pStream: Any) -> tuple[Any, ...]:
        raise self._no_stream(conn)

    @call()
    def cuEGLStreamProducerPresentFrame(self, conn: Any, eglframe: Any, pStream: Any) -> tuple[Any, ...]:
        raise self._no_stream(conn)

    @call()
    def cuEGLStreamProducerReturnFrame(self, conn: Any, eglframe: Any, pStream: Any) -> tuple[Any, ...]:
        raise self._no_stream(conn)

    @call(1)
    def cuEventCreateFromEGLSync(self, eglSync: Any, flags: Any) -> tuple[Any, ...]:
        integer(eglSync)
        self.current()
        unsigned(flags, 32)
        raise invalid_value()

    # VDPAU

    @call(1)
    def cuVDPAUGetDevice(self, vdpDevice: Any, vdpGetProcAddress: Any) -> tuple[Any, ...]:
        unsigned(vdpDevice, 32), integer(vdpGetProcAddress)
        raise invalid_value()

    @call(1)
    def cuVDPAUCtxCreate(
        self, flags: Any, device: Any, vdpDevice: Any, vdpGetProcAddress: Any
    ) -> tuple[Any, ...]:
        self.device(device)
        unsigned(flags, 32), unsigned(vdpDevice, 32), integer(vdpGetProcAddress)
        raise invalid_value()

    @call(1)
    def cuGraphicsVDPAURegisterVideoSurface(self, vdpSurface: Any, flags: Any) -> tuple[Any, ...]:
        unsigned(vdpSurface, 32)
        raise self._no_graphics(flags, CUresult.CUDA_ERROR_INVALID_HANDLE)

    @call(1)
    def cuGraphicsVDPAURegisterOutputSurface(self, vdpSurface: Any, flags: Any) -> tuple[Any, ...]:
        unsigned(vdpSurface, 32)
        raise self._no_graphics(flags, CUresult.CUDA_ERROR_INVALID_HANDLE)
