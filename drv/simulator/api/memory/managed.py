"""Driver calls about managed memory, which the host and all devices have at one address."""

from __future__ import annotations

import ctypes
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_value,
    listed,
    structure,
    unsigned,
)
from drv.simulator.memory.address_space import MemoryKind
from drv.simulator.memory.managed_pages import PAGE, ManagedPages
from drv.simulator.memory.records import MemoryBook

from .locations import DEVICE, HOST, NONE, location_of

if TYPE_CHECKING:
    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.memory.managed_pages import Location
    from drv.simulator.memory.records import MemoryRecord
    from drv.simulator.scheduler import Operation, Stream

_ATTACH = cuda.CUmemAttach_flags
_GLOBAL, _HOST = int(_ATTACH.CU_MEM_ATTACH_GLOBAL), int(_ATTACH.CU_MEM_ATTACH_HOST)
_SINGLE = int(_ATTACH.CU_MEM_ATTACH_SINGLE)
_ADVICE = cuda.CUmem_advise
_ATTRIBUTES = cuda.CUmem_range_attribute
_CONCURRENT = int(cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)
_CPU, _INVALID = int(cuda.CU_DEVICE_CPU), int(cuda.CU_DEVICE_INVALID)
_INVALID_TYPE = int(cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_INVALID)
_WITHOUT_LOCATION = (
    _ADVICE.CU_MEM_ADVISE_SET_READ_MOSTLY,
    _ADVICE.CU_MEM_ADVISE_UNSET_READ_MOSTLY,
    _ADVICE.CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
)

#: Managed memory, and the bytes of it that a call is about.
Range = tuple["MemoryRecord", int, int]


class ManagedCalls(MemoryBook):
    """``cuMemAllocManaged``, ``cuMemPrefetch*``, ``cuMemDiscard*``, ``cuMemAdvise``, ``cuMemRangeGet*``."""

    @call(1, unsafe=True)
    def cuMemAllocManaged(self, bytesize: Any, flags: Any) -> tuple[Any, ...]:
        context, size, bits = self.current(), unsigned(bytesize), unsigned(flags, 32)
        if size == 0 or bits not in (_GLOBAL, _HOST):
            raise invalid_value()
        if self.inject.refuses(size):
            raise self.no_memory()
        stack = self.recorder.take()
        record = self.book_host_memory(size, MemoryKind.MANAGED, context, "cuMemAllocManaged", stack, bits)
        record.pages, record.attached = ManagedPages(size), bits
        return SUCCESS, cuda.CUdeviceptr(record.allocation.base)

    def _range(self, pointer: Any, count: Any) -> Range:
        """Managed memory that a range of addresses is in, and where in it the range begins and ends."""
        address, size = integer(pointer), unsigned(count)
        record = self.record_at(address)
        if record is None or record.allocation.kind is not MemoryKind.MANAGED or size == 0:
            raise invalid_value()
        start = address - record.allocation.base
        if start + size > -(-record.allocation.size // PAGE) * PAGE:
            raise invalid_value()
        if record.pages is None:
            record.pages = ManagedPages(record.allocation.size)
        return record, start, min(start + size, record.allocation.size)

    def _target(self, location: Any) -> Location:
        target = location_of(self, structure(location, cuda.CUmemLocation))
        if target[0] == NONE:
            raise invalid_value()
        if target[0] == DEVICE:
            _check_concurrent(self.device(target[1]))
        return target

    # Prefetches

    @call()
    def cuMemPrefetchAsync(
        self, devPtr: Any, count: Any, location: Any, flags: Any, hStream: Any
    ) -> tuple[Any, ...]:
        stream = self._uncaptured(hStream)
        if unsigned(flags, 32) != 0:
            raise invalid_value()
        target = self._target(location)
        self._prefetch(self._range(devPtr, count), target, stream)
        return OK

    def _uncaptured(self, hStream: Any) -> Stream:
        """A stream for what cannot be captured; asking for it does not make the capture void."""
        stream = self.stream(hStream)
        if stream.capture is not None:
            raise CallError(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        _check_concurrent(stream.context.device)
        return stream

    def _prefetch(self, managed: Range, target: Location, stream: Stream) -> None:
        record, start, stop = managed
        assert record.pages is not None
        record.pages.prefetch(start, stop, target)
        if self.execute:
            self.enqueue(stream, f"prefetch of {stop - start} bytes", None)

    @call()
    def cuMemPrefetchBatchAsync(
        self,
        dptrs: Any,
        sizes: Any,
        count: Any,
        prefetchLocs: Any,
        prefetchLocIdxs: Any,
        numPrefetchLocs: Any,
        flags: Any,
        hStream: Any,
    ) -> tuple[Any, ...]:
        stream = self._uncaptured(hStream)
        ranges = self._ranges(dptrs, sizes, count, flags)
        targets = self._locations(prefetchLocs, prefetchLocIdxs, numPrefetchLocs, len(ranges))
        for managed, target in zip(ranges, targets, strict=True):
            self._prefetch(managed, target, stream)
        return OK

    @call()
    def cuMemDiscardBatchAsync(
        self, dptrs: Any, sizes: Any, count: Any, flags: Any, hStream: Any
    ) -> tuple[Any, ...]:
        stream = self._uncaptured(hStream)
        self._discard(self._ranges(dptrs, sizes, count, flags), stream)
        return OK

    @call()
    def cuMemDiscardAndPrefetchBatchAsync(
        self,
        dptrs: Any,
        sizes: Any,
        count: Any,
        prefetchLocs: Any,
        prefetchLocIdxs: Any,
        numPrefetchLocs: Any,
        flags: Any,
        hStream: Any,
    ) -> tuple[Any, ...]:
        stream = self._uncaptured(hStream)
        ranges = self._ranges(dptrs, sizes, count, flags)
        targets = self._locations(prefetchLocs, prefetchLocIdxs, numPrefetchLocs, len(ranges))
        self._discard(ranges, stream)
        for managed, target in zip(ranges, targets, strict=True):
            self._prefetch(managed, target, stream)
        return OK

    def _ranges(self, pointers: Any, sizes: Any, count: Any, flags: Any) -> list[Range]:
        number = unsigned(count)
        if number == 0 or unsigned(flags) != 0:
            raise invalid_value()
        pairs = zip(listed(pointers, number), listed(sizes, number), strict=True)
        return [self._range(pointer, size) for pointer, size in pairs]

    def _locations(self, locations: Any, starts: Any, count: Any, ranges: int) -> list[Location]:
        """The location of each range: location ``i`` is that of ranges from ``starts[i]`` on."""
        number = unsigned(count)
        structures, begins = listed(locations, number), [unsigned(each) for each in listed(starts, number)]
        if not begins or begins[0] != 0 or sorted(set(begins)) != begins or begins[-1] >= ranges:
            raise invalid_value()
        targets = [self._target(each) for each in structures]
        ends = [*begins[1:], ranges]
        return [
            target
            for target, start, end in zip(targets, begins, ends, strict=True)
            for _ in range(end - start)
        ]

    def _discard(self, ranges: list[Range], stream: Stream) -> None:
        """What was in the ranges is not needed any more: reading it before it is written would be a mistake."""
        if not self.execute:
            return
        observer = self.observer
        for record, start, stop in ranges:
            allocation = record.allocation
            run = None
            if observer is not None:

                def run(
                    allocation: Any = allocation,
                    start: int = start,
                    stop: int = stop,
                    observer: Any = observer,
                ) -> None:
                    observer.range_discarded(allocation, start, stop)

            self.enqueue(stream, f"discard of {stop - start} bytes", run)

    # Advice

    @call()
    def cuMemAdvise(self, devPtr: Any, count: Any, advice: Any, location: Any) -> tuple[Any, ...]:
        try:
            said = _ADVICE(integer(advice))
        except ValueError:
            raise invalid_value() from None
        record, start, stop = self._range(devPtr, count)
        pages = record.pages
        assert pages is not None
        if said in _WITHOUT_LOCATION:
            if said == _ADVICE.CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
                pages.prefer(start, stop, None)
            else:
                value = said == _ADVICE.CU_MEM_ADVISE_SET_READ_MOSTLY
                pages.advise_read_mostly(start, stop, value=value)
            return OK
        target = self._target(location)
        if said == _ADVICE.CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
            pages.prefer(start, stop, target)
            return OK
        if target[0] not in (DEVICE, HOST):
            raise invalid_value()
        value = said == _ADVICE.CU_MEM_ADVISE_SET_ACCESSED_BY
        pages.advise_accessed_by(start, stop, target, value=value)
        return OK

    @call(1)
    def cuMemRangeGetAttribute(
        self, dataSize: Any, attribute: Any, devPtr: Any, count: Any
    ) -> tuple[Any, ...]:
        return SUCCESS, self._attribute_of(unsigned(dataSize), attribute, self._range(devPtr, count))

    @call(1)
    def cuMemRangeGetAttributes(
        self, dataSizes: Any, attributes: Any, numAttributes: Any, devPtr: Any, count: Any
    ) -> tuple[Any, ...]:
        number = unsigned(numAttributes)
        pairs = list(zip(listed(dataSizes, number), listed(attributes, number), strict=True))
        managed = self._range(devPtr, count)
        if number == 0:
            raise invalid_value()
        return SUCCESS, [self._attribute_of(unsigned(size), attribute, managed) for size, attribute in pairs]

    def _attribute_of(self, size: int, attribute: Any, managed: Range) -> Any:
        try:
            asked = _ATTRIBUTES(integer(attribute))
        except ValueError:
            raise invalid_value() from None
        record, start, stop = managed
        pages = record.pages
        assert pages is not None
        if asked == _ATTRIBUTES.CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
            if size == 0 or size % 4:
                raise invalid_value()
            numbers = [_number(target) for target in pages.accessed_by(start, stop)]
            return (numbers + [_INVALID] * (size // 4))[: size // 4]
        if size != 4:
            raise invalid_value()
        if asked == _ATTRIBUTES.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
            return int(pages.read_mostly(start, stop))
        name = asked.name.removeprefix("CU_MEM_RANGE_ATTRIBUTE_")
        target = (pages.preferred if name.startswith("PREFERRED") else pages.prefetched)(start, stop)
        if name.endswith("_TYPE"):
            return _INVALID_TYPE if target is None else target[0]
        if name.endswith("_ID"):
            return 0 if target is None else target[1]
        return _INVALID if target is None else _number(target)

    @call()
    def cuMemGetLocationInfo(
        self, ptr: Any, size: Any, summaryGranularity: Any, samplingGranularity: Any, location_out: Any
    ) -> tuple[Any, ...]:
        step, sampling = unsigned(summaryGranularity), unsigned(samplingGranularity)
        target = structure(location_out, cuda.CUmemLocation)
        for device in self.devices:
            if not device.attributes[_CONCURRENT]:
                raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        record, start, stop = self._range(ptr, size)
        pages = record.pages
        assert pages is not None
        if not 0 < step <= unsigned(size) or sampling > step:
            raise invalid_value()
        targets = [
            pages.common_prefetched(first, min(first + step, stop)) or (NONE, 0)
            for first in range(start, stop, step)
        ]
        # The structure is the first of an array that is the caller's.
        ctypes.memmove(
            target.getPtr(), b"".join(struct.pack("<ii", *each) for each in targets), 8 * len(targets)
        )
        return OK

    @call(1)
    def cuMemBatchDecompressAsync(
        self, paramsArray: Any, count: Any, flags: Any, stream: Any
    ) -> tuple[Any, ...]:
        structure(paramsArray, cuda.CUmemDecompressParams)
        self.stream(stream)
        if unsigned(count) == 0 or unsigned(flags, 32):
            raise invalid_value()
        # No algorithm is among those that devices say they have.
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    # Streams

    @call()
    def cuStreamAttachMemAsync(self, hStream: Any, dptr: Any, length: Any, flags: Any) -> tuple[Any, ...]:
        stream, address = self.stream(hStream), integer(dptr)
        size, bits = unsigned(length), unsigned(flags, 32)
        if stream.capture is not None:
            status = CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            raise stream.capture.invalidate(status, "cuStreamAttachMemAsync cannot be captured")
        record = self.records.get(address)
        if record is None or record.allocation.kind is not MemoryKind.MANAGED:
            raise invalid_value()
        if size not in (0, record.allocation.size) or bits not in (_GLOBAL, _HOST, _SINGLE):
            raise invalid_value()
        if bits == _SINGLE and stream is stream.context.legacy:
            raise invalid_value()
        attached = partial(_attach, record, bits, stream if bits == _SINGLE else None)
        if self.execute:
            self.enqueue(stream, "attachment of managed memory", attached)
        else:
            attached()
        return OK

    def alone_with(self, record: MemoryRecord) -> list[Operation]:
        """Devices without concurrent access have managed memory to themselves while they work."""
        if record.allocation.kind is not MemoryKind.MANAGED:
            return []
        streams = [stream for context in self.contexts.values() for stream in context.all_streams()]
        bits, attached = record.attached, record.attached_stream
        if attached is not None and attached not in streams:
            # A destroyed stream leaves what was said at the allocation.
            bits, attached = record.flags, None
        if bits == _HOST:
            return []
        return [
            stream.last
            for stream in streams
            if stream.last is not None
            and attached in (None, stream)
            and not stream.context.device.attributes[_CONCURRENT]
        ]


def _check_concurrent(device: SimulatedDevice) -> None:
    """Refuse ``device`` where it and the host cannot use managed memory at a time."""
    if not device.attributes[_CONCURRENT]:
        raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)


def _attach(record: MemoryRecord, bits: int, stream: Stream | None) -> None:
    record.attached, record.attached_stream = bits, stream


def _number(target: Location) -> int:
    """The number by which older attributes name a location."""
    return target[1] if target[0] == DEVICE else _CPU
