"""Traces that Chrome and Perfetto open (``chrome://tracing``, ui.perfetto.dev): the Trace Event Format, as PyTorch writes it."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING, Any

from .events import module_of, node_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tensor.core.spans import Span

    from .devices import DeviceEvent
    from .memory import MemoryEvent


def trace(
    spans: Iterable[Span],
    devices: Iterable[DeviceEvent],
    memory: Iterable[MemoryEvent],
    metadata: Mapping[str, Any],
) -> dict[str, Any]:
    """The trace as it is written to JSON. Times are in microseconds."""
    process = os.getpid()
    events: list[dict[str, Any]] = [_named("process_name", process, 0, "python: host")]
    threads: dict[int, int] = {}
    numbers: dict[int, int] = {}
    for number, span in enumerate(spans, 1):
        thread = threads.setdefault(span.thread, len(threads) + 1)
        numbers[id(span)] = number
        arguments: dict[str, Any] = {"External id": number}
        if span.sequence >= 0:
            arguments["Sequence number"] = span.sequence
        if span.shapes:
            arguments["Input Dims"] = span.shapes
        module = module_of(span)
        if module and span.category != "module":
            arguments["Module"] = module
        if span.stack:
            arguments["Call stack"] = ";".join(
                f"{file}({line}): {name}" for file, line, name in reversed(span.stack)
            )
        events.append(
            {
                "ph": "X",
                "cat": span.category,
                "name": span.name,
                "pid": process,
                "tid": thread,
                "ts": span.start / 1e3,
                "dur": max(span.end - span.start, 0) / 1e3,
                "args": arguments,
            }
        )
    events += [
        _named("thread_name", process, row, f"thread {identifier}") for identifier, row in threads.items()
    ]
    seen: set[tuple[int, int]] = set()
    for correlation, each in enumerate(devices, 1):
        row = _device_process(each.device)
        if each.device not in {device for device, _ in seen}:
            events.append(_named("process_name", row, 0, f"GPU {each.device}"))
        if (each.device, each.stream) not in seen:
            seen.add((each.device, each.stream))
            events.append(
                _named("thread_name", row, each.stream, f"stream {each.stream}: {each.stream_name}")
            )
        events.append(
            {
                "ph": "X",
                "cat": each.category,
                "name": each.name,
                "pid": row,
                "tid": each.stream,
                "ts": each.start / 1e3,
                "dur": (each.end - each.start) / 1e3,
                "args": _arguments(each, correlation, numbers),
            }
        )
        if each.span is not None and each.queued >= 0:
            thread = threads.get(each.span.thread, 1)
            flow = {"cat": "ac2g", "name": "ac2g", "id": correlation}
            events.append({"ph": "s", "pid": process, "tid": thread, "ts": each.queued / 1e3, **flow})
            events.append(
                {"ph": "f", "bp": "e", "pid": row, "tid": each.stream, "ts": each.start / 1e3, **flow}
            )
    for change in memory:
        events.append(
            {
                "ph": "i",
                "s": "t",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": process,
                "tid": 0,
                "ts": change.time / 1e3,
                "args": {
                    "Device Type": 1,
                    "Device Id": change.device,
                    "Addr": change.address,
                    "Bytes": change.size,
                    "Total Allocated": change.total,
                    "Line": change.line,
                },
            }
        )
    return {"schemaVersion": 1, **metadata, "displayTimeUnit": "ms", "traceEvents": events}


def write(path: str, content: Mapping[str, Any]) -> None:
    """Write a trace; compressed where the file's name ends in ``.gz``. Raises OSError if that fails."""
    text = json.dumps(content, default=str)
    if path.endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
        return
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - a path of the user's
        file.write(text)


def _device_process(device: int) -> int:
    """Below any process's number, so that devices come first."""
    return device


def _arguments(each: DeviceEvent, correlation: int, numbers: Mapping[int, int]) -> dict[str, Any]:
    arguments: dict[str, Any] = {"device": each.device, "stream": each.stream, "correlation": correlation}
    if each.span is not None:
        arguments["External id"] = numbers.get(id(each.span), 0)
        module, node = module_of(each.span), node_of(each.span)
        if module:
            arguments["Module"] = module
        if node:
            arguments["Autograd node"] = node
    if each.line:
        arguments["Python line"] = each.line
    details = each.details
    renamed = {
        "registers": "registers per thread",
        "shared_memory": "shared memory",
        "occupancy": "est. achieved occupancy %",
    }
    for name, value in details.items():
        arguments[renamed.get(name, name)] = round(100 * value) if name == "occupancy" else value
    if each.advice:
        arguments["advice"] = each.advice
    return arguments


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": {"name": name}}
