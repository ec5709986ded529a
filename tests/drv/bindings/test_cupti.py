"""CUPTI's declarations against NVIDIA's headers and library, and the records of a stand-in."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import pytest

from drv.activity import ActivityRecorder
from drv.bindings import cupti
from drv.bindings.cupti import RECORDS, Cupti, CUpti_ActivityKind, CUptiResult
from drv.bindings.libraries import bind
from drv.bindings.prototypes import prototypes
from drv.errors import CudaError, LibraryNotInstalledError, NotPermittedError

from . import c_headers

_C_TYPES = {
    ctypes.c_int: ("CUpti_ActivityKind", "CUpti_ExternalCorrelationKind"),
    ctypes.c_uint32: ("uint32_t",),
    # One type for ctypes.
    ctypes.c_uint64: ("uint64_t", "size_t"),
    ctypes.c_void_p: ("CUcontext", "uint8_t*"),
    cupti.BufferRequested: ("CUpti_BuffersCallbackRequestFunc",),
    cupti.BufferCompleted: ("CUpti_BuffersCallbackCompleteFunc",),
}


def _header() -> str:
    # Packages of one CUDA share a folder of headers.
    return c_headers.header("cudart", "cupti_activity.h", "cupti_result.h", "cupti_version.h")


def test_functions_are_those_of_the_headers() -> None:
    text = _header()
    for prototype in prototypes(Cupti).values():
        match = re.search(rf"CUptiResult\s+CUPTIAPI\s+{prototype.symbol}\s*\(([^)]*)\)", text)
        assert match is not None, prototype.symbol
        parameters = [
            part.split()
            for part in match[1].replace("*", " * ").split(",")
            if part.strip() not in ("", "void")
        ]
        types = ["".join(words[:-1]) for words in parameters]
        assert len(types) == len(prototype.argtypes), prototype.symbol
        for number, (ours, theirs) in enumerate(zip(prototype.argtypes, types, strict=True)):
            if prototype.output is not None and number == prototype.output.index:
                assert theirs in {f"{name}*" for name in _C_TYPES[prototype.output.type]}
            elif theirs == "CUpti_Activity**":
                assert ours is ctypes.POINTER(ctypes.c_void_p)
            else:
                assert theirs in _C_TYPES[ours], (prototype.symbol, number)


def test_enumerators_are_those_of_the_headers() -> None:
    values = c_headers.enums(_header())
    for enum in (CUpti_ActivityKind, CUptiResult):
        for member in enum:
            assert values[member.name] == member.value
    assert values["CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0"] == cupti.CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0


#: Bytes of C's types in records; enumerations have four.
_SIZES = {
    "uint8_t": 1,
    "uint16_t": 2,
    "uint32_t": 4,
    "int32_t": 4,
    "uint64_t": 8,
    "int64_t": 8,
    "char*": 8,
    "void*": 8,
}


def _offsets(text: str, name: str) -> dict[str, int]:
    """Where the fields of the newest version of a record lie, up to the last that is declared here. Records are packed."""
    versions = [int(number or 0) for number in re.findall(rf"\}}\s*{name}(\d*)\s*;", text)]
    newest = f"{name}{max(versions) or ''}"
    end = re.search(rf"\}}\s*{newest}\s*;", text)
    assert end is not None
    start = text.rindex("typedef struct PACKED_ALIGNMENT {", 0, end.start())
    body = text[text.index("{", start) + 1 : end.start()]
    # The one union within is a byte, of which a part has a name of its own.
    body = re.sub(r"union\s*\{.*?\}\s*config;\s*\}\s*(\w+);", r"uint8_t \1;", body, flags=re.DOTALL)
    offset, result = 0, {}
    for declaration in body.split(";"):
        words = declaration.replace("*", "* ").replace("const ", "").split()
        if len(words) < 2 or words[0].startswith("#"):
            break
        kind, field = "".join(words[:-1]), words[-1]
        result[field] = offset
        offset += _SIZES.get(kind, 4)
    return result


def test_fields_of_records_lie_where_the_headers_put_them() -> None:
    text = _header()
    for record, name in RECORDS.values():
        places = _offsets(text, name)
        for field, *_ in record._fields_:
            assert getattr(record, field).offset == places[field], (name, field)


def test_the_library_answers() -> None:
    try:
        library = bind("cupti")
    except LibraryNotInstalledError:
        pytest.skip("CUPTI is not installed")
    try:
        assert library.cuptiGetVersion() > 0
    except CudaError as error:
        # Without NVIDIA's driver it answers nothing.
        assert "cuptiGetVersion() failed" in str(error)


def test_what_needs_privileges_says_who_can_give_them() -> None:
    error = cupti.failure(CUptiResult.CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "cuptiActivityEnable(kind=10)")
    assert isinstance(error, NotPermittedError)
    assert "NVreg_RestrictProfilingToAdminUsers" in str(error)
    assert "CUptiResult 999" in str(cupti.failure(999, "call"))


class FakeCupti:
    """Gives the records of one buffer, as CUPTI does when it is flushed."""

    def __init__(self, records: list[ctypes.Structure]) -> None:
        self.records = records
        self.enabled: set[int] = set()
        self.stack: list[int] = []

    def cuptiActivityRegisterCallbacks(self, requested: Any, completed: Any) -> None:
        self.requested, self.completed = requested, completed

    def cuptiActivityEnable(self, kind: int) -> None:
        self.enabled.add(int(kind))

    def cuptiActivityDisable(self, kind: int) -> None:
        self.enabled.discard(int(kind))

    def cuptiGetTimestamp(self) -> int:
        from time import perf_counter_ns

        return perf_counter_ns() - 1_000_000

    def cuptiActivityPushExternalCorrelationId(self, kind: int, number: int) -> None:
        self.stack.append(number)

    def cuptiActivityPopExternalCorrelationId(self, kind: int) -> int:
        return self.stack.pop()

    def cuptiActivityFlushAll(self, flag: int) -> None:
        buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        self.requested(ctypes.byref(buffer), ctypes.byref(size), ctypes.byref(most))
        assert buffer.value is not None
        assert buffer.value % 8 == 0
        self.places = []
        at = buffer.value
        for record in self.records:
            ctypes.memmove(at, ctypes.addressof(record), ctypes.sizeof(record))
            self.places.append(at)
            at += -(-ctypes.sizeof(record) // 8) * 8 + 64
        self.completed(None, 0, buffer.value, size.value, at - buffer.value)

    def cuptiActivityGetNextRecord(self, buffer: int, valid: int, record: Any) -> None:
        held = record._obj
        following = [place for place in self.places if held.value is None or place > held.value]
        if following:
            held.value = following[0]

    def cuptiActivityGetNumDroppedRecords(self, context: int, stream: int) -> int:
        return 2


def test_records_become_activities() -> None:
    name = ctypes.create_string_buffer(b"scale")
    kernel = cupti.Kernel(
        kind=10, start=1000, end=3000, deviceId=1, streamId=7, gridX=4, gridY=1, gridZ=1, blockX=256, blockY=1, blockZ=1,
        registersPerThread=20, dynamicSharedMemory=64, correlationId=5, name=ctypes.addressof(name),
    )  # fmt: skip
    records = [
        kernel,
        cupti.ExternalCorrelation(kind=39, externalKind=3, externalId=42, correlationId=5),
        cupti.Memcpy(
            kind=1, copyKind=1, bytes=4096, start=100, end=900, deviceId=1, streamId=7, correlationId=6
        ),
        cupti.Memset(kind=2, bytes=64, start=10, end=20, deviceId=0, streamId=0, correlationId=7),
        cupti.Memset(kind=99, bytes=64, start=10, end=20),
    ]
    library = FakeCupti(records)
    recorder = ActivityRecorder(library)  # type: ignore[arg-type]
    recorder.start()
    assert library.enabled == set(map(int, RECORDS))
    recorder.push(42)
    recorder.pop()
    assert library.stack == []
    recorder.pop()
    recorder.stop()
    assert library.enabled == set()
    fill, copy, launch = recorder.activities
    assert (fill.category, fill.nbytes, fill.external) == ("fill", 64, 0)
    assert (copy.name, copy.end - copy.start) == ("copy of 4096 bytes host to device", 800)
    assert (launch.name, launch.device, launch.stream, launch.external) == ("scale", 1, 7, 42)
    assert (launch.grid, launch.block, launch.registers, launch.shared) == ((4, 1, 1), (256, 1, 1), 20, 64)
    assert launch.end - launch.start == 2000
    assert abs(launch.start - (1000 + 1_000_000)) < 500_000
    assert recorder.dropped == 2
