"""What a GPU did and when, by CUPTI's activity records."""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from .bindings import cupti
from .bindings.cupti import RECORDS, CUpti_ActivityKind
from .bindings.libraries import bind

if TYPE_CHECKING:
    from .bindings.cupti import Cupti

#: Bytes of a buffer of records, and their alignment.
_BUFFER, _ALIGNMENT = 1 << 20, 8
_KINDS = tuple(RECORDS)


@dataclass(frozen=True, slots=True)
class Activity:
    """A kernel, copy or fill. Times are in nanoseconds of ``time.perf_counter_ns``.

    Attributes
    ----------
    category : str
        ``kernel``, ``copy`` or ``fill``.
    external : int
        The number that was on top (:meth:`ActivityRecorder.push`) when it was queued; 0 if none was.
    """

    name: str
    category: str
    device: int
    stream: int
    start: int
    end: int
    external: int
    nbytes: int = 0
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int = 0
    shared: int = 0


class ActivityRecorder:
    """Records what the GPUs of this process do. One at a time, as CUPTI has one set of callbacks.

    Parameters
    ----------
    library : Cupti, optional
        CUPTI's functions; those of the installed library by default.

    Raises
    ------
    LibraryNotInstalledError
        If CUPTI is not installed.
    """

    def __init__(self, library: Cupti | None = None) -> None:
        self._library: Cupti = bind("cupti") if library is None else library
        self._buffers: dict[int, Any] = {}
        self._raw: list[tuple[Any, ...]] = []
        self._external: dict[int, int] = {}
        self._offset = 0
        self._requested = cupti.BufferRequested(self._give_buffer)
        self._completed = cupti.BufferCompleted(self._take_buffer)
        self.dropped = 0

    def start(self) -> None:
        """Begin. Raises :class:`NotPermittedError` where this user may not profile, else CudaError if CUPTI refuses."""
        self._library.cuptiActivityRegisterCallbacks(self._requested, self._completed)
        for kind in _KINDS:
            self._library.cuptiActivityEnable(kind)
        # Both clocks tick in nanoseconds; they differ by a constant.
        pairs = [(perf_counter_ns(), self._library.cuptiGetTimestamp(), perf_counter_ns()) for _ in range(9)]
        self._offset = round(median((before + after) / 2 - there for before, there, after in pairs))

    def stop(self) -> None:
        """End; devices must have been waited for."""
        self._library.cuptiActivityFlushAll(cupti.CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)
        for kind in _KINDS:
            self._library.cuptiActivityDisable(kind)

    def push(self, number: int) -> None:
        """What this thread queues from now on belongs to ``number``."""
        self._library.cuptiActivityPushExternalCorrelationId(
            cupti.CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, number
        )

    def pop(self) -> None:
        """What it queues from now on belongs to the number before."""
        with contextlib.suppress(Exception):
            self._library.cuptiActivityPopExternalCorrelationId(cupti.CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)

    @property
    def activities(self) -> list[Activity]:
        """What has been recorded, in order of its start."""
        result = [self._activity(*raw) for raw in self._raw]
        return sorted(result, key=lambda each: each.start)

    # Buffers

    def _give_buffer(self, buffer: Any, size: Any, most: Any) -> None:
        memory = ctypes.create_string_buffer(_BUFFER + _ALIGNMENT)
        address = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
        self._buffers[address] = memory
        buffer[0], size[0], most[0] = address, _BUFFER, 0

    def _take_buffer(self, context: Any, stream: int, buffer: int, size: int, valid: int) -> None:
        try:
            self._read(buffer, valid)
            self.dropped += self._library.cuptiActivityGetNumDroppedRecords(context or 0, stream)
        finally:
            self._buffers.pop(buffer, None)

    def _read(self, buffer: int, valid: int) -> None:
        if not valid:
            return
        record = ctypes.c_void_p()
        before = None
        while True:
            self._library.cuptiActivityGetNextRecord(buffer, valid, ctypes.byref(record))
            if record.value is None or record.value == before:
                return
            before = record.value
            kind = ctypes.c_uint32.from_address(before).value
            known = RECORDS.get(kind)
            if known is None:
                continue
            entry: Any = known[0].from_address(before)
            if kind == CUpti_ActivityKind.CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
                self._external[entry.correlationId] = entry.externalId
            else:
                # Copied, as the buffer is given back.
                name = ""
                if kind == CUpti_ActivityKind.CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL and entry.name:
                    name = ctypes.string_at(entry.name).decode(errors="replace")
                self._raw.append((kind, name, known[0].from_buffer_copy(entry)))

    def _activity(self, kind: int, name: str, entry: Any) -> Activity:
        common = (entry.deviceId, entry.streamId, entry.start + self._offset, entry.end + self._offset)
        external = self._external.get(entry.correlationId, 0)
        if kind == CUpti_ActivityKind.CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
            return Activity(
                name,
                "kernel",
                *common,
                external,
                0,
                (entry.gridX, entry.gridY, entry.gridZ),
                (entry.blockX, entry.blockY, entry.blockZ),
                entry.registersPerThread,
                entry.staticSharedMemory + entry.dynamicSharedMemory,
            )
        if kind == CUpti_ActivityKind.CUPTI_ACTIVITY_KIND_MEMSET:
            return Activity(f"fill of {entry.bytes} bytes", "fill", *common, external, entry.bytes)
        words = cupti.COPY_KINDS.get(entry.copyKind, "of arrays")
        return Activity(f"copy of {entry.bytes} bytes {words}", "copy", *common, external, entry.bytes)
