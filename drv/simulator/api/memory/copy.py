"""Driver calls that copy memory.

What blocks the host, and when a pageable source may be reused, follows "API synchronization behavior" of the
CUDA driver API: a copy to or from pageable memory goes through a staging buffer, a copy from pageable memory is
staged by the call itself, a copy to pageable memory is complete when its call returns, copies between host ranges
are synchronous, copies between device ranges never block the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    CallError,
    call,
    host_address,
    integer,
    invalid_value,
    structure,
    unsigned,
)
from drv.simulator.memory.queued_copy import Endpoint, pageable_rows
from drv.simulator.work.copy import CopyWork
from drv.simulator.work.simulated_library import LibraryWork

from .arrays import ArrayCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.driver_state import Context
    from drv.simulator.memory.arrays import CudaArray
    from drv.simulator.memory.library_memory import LibraryMemory
    from drv.simulator.scheduler import Operation, Stream
    from drv.simulator.work.simulated_library import LibraryCost


class CopyCalls(ArrayCalls):
    """``cuMemcpy*`` of ranges and boxes, in linear memory and arrays, and work that the simulated libraries queue."""

    def library_call(
        self,
        stream: Any,
        label: str,
        run: Callable[[LibraryMemory], None],
        device: int | None = None,
        cost: LibraryCost | None = None,
    ) -> tuple[Any, ...]:
        """Queue work of a library (cuBLAS, cuFFT): ``run`` gets the memory as the stream's device sees it.

        With ``device``, the ordinal of the one that the library's handle belongs to, a stream of another is refused.
        ``cost`` says how much work it is.
        """
        with self.lock:
            try:
                target = self.stream(stream)
                if target.capture is not None:
                    target.capture.check()
            except CallError as error:
                return (error.status,)
            if device is None:
                device = target.context.device.ordinal
            elif target.context.device.ordinal != device:
                return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
            if self.execute or target.capture is not None:
                operation = self.submit(target, LibraryWork(target.context, label, device, run, cost))
                if self.launch_blocking and operation is not None:
                    self.wait_stream(target)
                    return self.status(target.context)
            return OK

    # Copies of one range

    @call(unsafe=True)
    def cuMemcpy(self, dst: Any, src: Any, ByteCount: Any) -> tuple[Any, ...]:
        return self._linear(integer(dst), integer(src), unsigned(ByteCount), None)

    @call()
    def cuMemcpyAsync(self, dst: Any, src: Any, ByteCount: Any, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        return self._linear(integer(dst), integer(src), unsigned(ByteCount), stream)

    @call(unsafe=True)
    def cuMemcpyHtoD(self, dstDevice: Any, srcHost: Any, ByteCount: Any) -> tuple[Any, ...]:
        return self._linear(
            integer(dstDevice),
            host_address(srcHost),
            unsigned(ByteCount),
            None,
            source="host",
            target="device",
        )

    @call()
    def cuMemcpyHtoDAsync(
        self, dstDevice: Any, srcHost: Any, ByteCount: Any, hStream: Any
    ) -> tuple[Any, ...]:
        address, size, stream = host_address(srcHost), unsigned(ByteCount), self.stream(hStream)
        return self._linear(integer(dstDevice), address, size, stream, source="host", target="device")

    @call(unsafe=True)
    def cuMemcpyDtoH(self, dstHost: Any, srcDevice: Any, ByteCount: Any) -> tuple[Any, ...]:
        return self._linear(
            host_address(dstHost),
            integer(srcDevice),
            unsigned(ByteCount),
            None,
            source="device",
            target="host",
        )

    @call()
    def cuMemcpyDtoHAsync(
        self, dstHost: Any, srcDevice: Any, ByteCount: Any, hStream: Any
    ) -> tuple[Any, ...]:
        address, size, stream = host_address(dstHost), unsigned(ByteCount), self.stream(hStream)
        return self._linear(address, integer(srcDevice), size, stream, source="device", target="host")

    @call(unsafe=True)
    def cuMemcpyDtoD(self, dstDevice: Any, srcDevice: Any, ByteCount: Any) -> tuple[Any, ...]:
        return self._linear(
            integer(dstDevice),
            integer(srcDevice),
            unsigned(ByteCount),
            None,
            source="device",
            target="device",
        )

    @call()
    def cuMemcpyDtoDAsync(
        self, dstDevice: Any, srcDevice: Any, ByteCount: Any, hStream: Any
    ) -> tuple[Any, ...]:
        size, stream = unsigned(ByteCount), self.stream(hStream)
        return self._linear(
            integer(dstDevice), integer(srcDevice), size, stream, source="device", target="device"
        )

    @call(unsafe=True)
    def cuMemcpyPeer(
        self, dstDevice: Any, dstContext: Any, srcDevice: Any, srcContext: Any, ByteCount: Any
    ) -> tuple[Any, ...]:
        contexts = [self.usable(self.context(each)) for each in (dstContext, srcContext)]
        target, source, size = integer(dstDevice), integer(srcDevice), unsigned(ByteCount)
        return self.between_contexts(
            contexts,
            lambda after: self._linear(
                target, source, size, None, source="device", target="device", after=after
            ),
        )

    def between_contexts(
        self, contexts: list[Context], copy: Callable[[list[Operation]], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """Queue a copy after all work of the current context and of ``contexts``, and before all their later work."""
        here = self.current()
        contexts = list(dict.fromkeys((here, *contexts)))
        streams = [stream for context in contexts for stream in context.all_streams()]
        queue = self.legacy_stream(here)
        before = queue.last
        answer = copy([stream.last for stream in streams if stream.last is not None])
        if queue.last is not before:
            for context in contexts:
                context.barrier = queue.last
        return answer

    @call()
    def cuMemcpyPeerAsync(
        self,
        dstDevice: Any,
        dstContext: Any,
        srcDevice: Any,
        srcContext: Any,
        ByteCount: Any,
        hStream: Any,
    ) -> tuple[Any, ...]:
        self.usable(self.context(dstContext))
        self.usable(self.context(srcContext))
        size, stream = unsigned(ByteCount), self.stream(hStream)
        return self._linear(
            integer(dstDevice), integer(srcDevice), size, stream, source="device", target="device"
        )

    def _linear(
        self,
        dst: int,
        src: int,
        nbytes: int,
        stream: Stream | None,
        *,
        source: str = "any",
        target: str = "any",
        after: list[Operation] | None = None,
    ) -> tuple[Any, ...]:
        if stream is None:
            self.current()
        if nbytes == 0:
            return OK
        shape = (1, 1, nbytes)
        to = self._endpoint(dst, shape, nbytes, target)
        return self._copy(to, self._endpoint(src, shape, nbytes, source), shape, stream, after)

    # Copies of one range, to or from an array of one dimension

    @call(unsafe=True)
    def cuMemcpyAtoH(self, dstHost: Any, srcArray: Any, srcOffset: Any, ByteCount: Any) -> tuple[Any, ...]:
        shape = (1, 1, unsigned(ByteCount))
        source = self._row(srcArray, srcOffset, shape)
        return self._with_array(host_address(dstHost), "host", source, shape, None, to_array=False)

    @call()
    def cuMemcpyAtoHAsync(
        self, dstHost: Any, srcArray: Any, srcOffset: Any, ByteCount: Any, hStream: Any
    ) -> tuple[Any, ...]:
        shape, stream = (1, 1, unsigned(ByteCount)), self.stream(hStream)
        source = self._row(srcArray, srcOffset, shape)
        return self._with_array(host_address(dstHost), "host", source, shape, stream, to_array=False)

    @call(unsafe=True)
    def cuMemcpyHtoA(self, dstArray: Any, dstOffset: Any, srcHost: Any, ByteCount: Any) -> tuple[Any, ...]:
        shape = (1, 1, unsigned(ByteCount))
        target = self._row(dstArray, dstOffset, shape)
        return self._with_array(host_address(srcHost), "host", target, shape, None, to_array=True)

    @call()
    def cuMemcpyHtoAAsync(
        self, dstArray: Any, dstOffset: Any, srcHost: Any, ByteCount: Any, hStream: Any
    ) -> tuple[Any, ...]:
        shape, stream = (1, 1, unsigned(ByteCount)), self.stream(hStream)
        target = self._row(dstArray, dstOffset, shape)
        return self._with_array(host_address(srcHost), "host", target, shape, stream, to_array=True)

    @call(unsafe=True)
    def cuMemcpyAtoD(self, dstDevice: Any, srcArray: Any, srcOffset: Any, ByteCount: Any) -> tuple[Any, ...]:
        shape = (1, 1, unsigned(ByteCount))
        source = self._row(srcArray, srcOffset, shape)
        return self._with_array(integer(dstDevice), "device", source, shape, None, to_array=False)

    @call(unsafe=True)
    def cuMemcpyDtoA(self, dstArray: Any, dstOffset: Any, srcDevice: Any, ByteCount: Any) -> tuple[Any, ...]:
        shape = (1, 1, unsigned(ByteCount))
        target = self._row(dstArray, dstOffset, shape)
        return self._with_array(integer(srcDevice), "device", target, shape, None, to_array=True)

    @call(unsafe=True)
    def cuMemcpyAtoA(
        self, dstArray: Any, dstOffset: Any, srcArray: Any, srcOffset: Any, ByteCount: Any
    ) -> tuple[Any, ...]:
        shape = (1, 1, unsigned(ByteCount))
        target, source = self._row(dstArray, dstOffset, shape), self._row(srcArray, srcOffset, shape)
        if self.array(dstArray).format.nbytes != self.array(srcArray).format.nbytes:
            raise invalid_value()
        self.current()
        return self._copy(target, source, shape, None) if shape[2] else OK

    def _row(self, handle: Any, offset: Any, shape: tuple[int, int, int]) -> Endpoint:
        array = self.array(handle)
        if array.height or array.depth:
            raise invalid_value()
        return self.in_array(array, shape, unsigned(offset))

    def _with_array(
        self,
        address: int,
        allowed: str,
        row: Endpoint,
        shape: tuple[int, int, int],
        stream: Stream | None,
        *,
        to_array: bool,
    ) -> tuple[Any, ...]:
        if stream is None:
            self.current()
        if shape[2] == 0:
            return OK
        linear = self._endpoint(address, shape, shape[2], allowed)
        target, source = (row, linear) if to_array else (linear, row)
        return self._copy(target, source, shape, stream)

    # Copies of rows

    @call(unsafe=True)
    def cuMemcpy2D(self, pCopy: Any) -> tuple[Any, ...]:
        return self._rectangle(pCopy, None)

    @call(unsafe=True)
    def cuMemcpy2DUnaligned(self, pCopy: Any) -> tuple[Any, ...]:
        return self._rectangle(pCopy, None)

    @call()
    def cuMemcpy2DAsync(self, pCopy: Any, hStream: Any) -> tuple[Any, ...]:
        return self._rectangle(pCopy, self.stream(hStream))

    @call(unsafe=True)
    def cuMemcpy3D(self, pCopy: Any) -> tuple[Any, ...]:
        return self._box(pCopy, None)

    @call()
    def cuMemcpy3DAsync(self, pCopy: Any, hStream: Any) -> tuple[Any, ...]:
        return self._box(pCopy, self.stream(hStream))

    def _rectangle(self, copy: Any, stream: Stream | None) -> tuple[Any, ...]:
        structure(copy, cuda.CUDA_MEMCPY2D)
        if stream is None:
            self.current()
        shape = (1, copy.Height, copy.WidthInBytes)
        target = self._described(copy, "dst", shape)
        source = self._described(copy, "src", shape)
        return self._copy(target, source, shape, stream) if 0 not in shape else OK

    def _box(self, copy: Any, stream: Stream | None) -> tuple[Any, ...]:
        if stream is None:
            self.current()
        target, source, shape = self._described_box(copy)
        return self._copy(target, source, shape, stream) if 0 not in shape else OK

    def copy_work(self, context: Context, copy: Any) -> CopyWork:
        """The copy that a ``CUDA_MEMCPY3D`` describes, in ``context``; of something, as a node of a graph is."""
        target, source, shape = self._described_box(copy)
        if 0 in shape:
            raise invalid_value()
        return CopyWork(context, target, source, shape)

    def _described_box(self, copy: Any) -> tuple[Endpoint, Endpoint, tuple[int, int, int]]:
        structure(copy, cuda.CUDA_MEMCPY3D)
        if copy.srcLOD or copy.dstLOD:
            raise invalid_value()
        shape = (copy.Depth, copy.Height, copy.WidthInBytes)
        target = self._described(copy, "dst", shape, copy.dstHeight, copy.dstZ)
        return target, self._described(copy, "src", shape, copy.srcHeight, copy.srcZ), shape

    def _described(
        self, copy: Any, side: str, shape: tuple[int, int, int], whole_height: int = 0, z: int = 0
    ) -> Endpoint:
        """One side of a copy as its descriptor gives it."""
        try:
            memory_type = getattr(copy, f"{side}MemoryType")
        except ValueError:
            raise invalid_value() from None
        memory_types = cuda.CUmemorytype
        if memory_type == memory_types.CU_MEMORYTYPE_HOST:
            address, allowed = integer(getattr(copy, f"{side}Host")), "host"
        elif memory_type == memory_types.CU_MEMORYTYPE_DEVICE:
            address, allowed = integer(getattr(copy, f"{side}Device")), "device"
        elif memory_type == memory_types.CU_MEMORYTYPE_UNIFIED:
            address, allowed = integer(getattr(copy, f"{side}Device")), "any"
        skipped, y = getattr(copy, f"{side}XInBytes"), getattr(copy, f"{side}Y")
        if memory_type == memory_types.CU_MEMORYTYPE_ARRAY:
            return self.in_array(self.array(getattr(copy, f"{side}Array")), shape, skipped, y, z)
        depth, height, width = shape
        pitch = getattr(copy, f"{side}Pitch") or width + skipped
        whole_height = whole_height or height + y
        if pitch < width + skipped or (depth > 1 and whole_height < height + y):
            raise invalid_value()
        start = address + (z * whole_height + y) * pitch + skipped
        if 0 in shape:
            return Endpoint(start, pitch, None)
        return self._endpoint(start, shape, pitch, allowed, whole_height * pitch)

    def in_array(
        self, array: CudaArray, shape: tuple[int, int, int], skipped: int = 0, y: int = 0, z: int = 0
    ) -> Endpoint:
        """The box of ``shape`` bytes ``(depth, height, width)`` in an array that begins at ``(skipped, y, z)``."""
        self.usable(array.context)
        depth, height, width = shape
        item = array.format.nbytes
        if skipped % item or width % item:
            raise invalid_value()
        if skipped + width > array.row_bytes or y + height > max(array.height, 1):
            raise invalid_value()
        if z + depth > max(array.depth, 1):
            raise invalid_value()
        start = array.address + z * array.slice_pitch + y * array.pitch + skipped
        return Endpoint(start, array.pitch, array.record.allocation, array.slice_pitch, array)

    # How a copy is queued

    def _endpoint(
        self, address: int, shape: tuple[int, int, int], pitch: int, allowed: str, slice_pitch: int = 0
    ) -> Endpoint:
        depth, height, width = shape
        span = (depth - 1) * slice_pitch + (height - 1) * pitch + width
        allocation = self.simulated_range(address, span)
        if allowed == "device" and allocation is None:
            raise invalid_value()
        if allowed == "host" and allocation is not None and allocation.device is not None:
            raise invalid_value()
        return Endpoint(address, pitch, allocation, slice_pitch)

    def _copy(
        self,
        target: Endpoint,
        source: Endpoint,
        shape: tuple[int, int, int],
        stream: Stream | None,
        after: list[Operation] | None = None,
    ) -> tuple[Any, ...]:
        queue = stream if stream is not None else self.legacy_stream(self.current())
        work = CopyWork(queue.context, target, source, shape)
        if queue.capture is not None:
            self.submit(queue, work)
            return OK
        if stream is None and self.captures:
            self.refuse_implicit(queue.context)
        if not self.execute:
            return OK
        both_host = source.host and target.host
        staged = None
        if source.allocation is None:
            if stream is None or both_host:
                self.wait_stream(queue)
                self.usable(queue.context)
            staged = [
                pageable_rows(source.address + z * source.slice_pitch, shape[1], shape[2], source.pitch)
                for z in range(shape[0])
            ]
        operation, copy = work.queue_staged(self, queue, staged, after, delivered=True)
        between_devices = not source.host and not target.host
        if (
            both_host
            or target.allocation is None
            or self.launch_blocking
            or (stream is None and not between_devices and staged is None)
        ):
            self.wait(operation)
            copy.deliver()
            return self.status(queue.context)
        return OK
