"""Programs of operations on streams, run through the race checker without any driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drv.simulator.checks.findings import Findings
from drv.simulator.checks.observation import Access
from drv.simulator.checks.races import RaceChecker
from drv.simulator.memory.address_space import Allocation, MemoryKind


@dataclass(eq=False)
class FakeOperation:
    label: str
    stream_name: str
    stack: tuple[tuple[str, int, str], ...] = ()
    clock: Any = None
    launch: Any = None
    inside: tuple[int, ...] = ()
    after: list[Any] = field(default_factory=list)


@dataclass
class FakeSite:
    ptx_line: int = 1
    text: str = "st.global.f32 [%rd1], %f1;"
    source: tuple[str, int] | None = None


@dataclass
class FakeLanes:
    block: np.ndarray
    thread: np.ndarray


def allocation(size: int = 256, kind: MemoryKind = MemoryKind.DEVICE, base: int = 1 << 48) -> Allocation:
    device = 0 if kind is MemoryKind.DEVICE else None
    return Allocation(base, size, kind, np.zeros(size, np.uint8), device)


@dataclass
class Program:
    """Queues operations and runs each one at once; every access is to one allocation."""

    full: bool = False
    memory: Allocation = field(default_factory=allocation)
    findings: Findings = field(default_factory=Findings)
    count: int = 0

    def __post_init__(self) -> None:
        self.checker = RaceChecker(self.full, self.findings)

    def queue(self, stream: str, after: tuple[FakeOperation, ...] = (), label: str = "") -> FakeOperation:
        self.count += 1
        label = label or f"operation {self.count}"
        op = FakeOperation(label, f"stream {stream}", (("program.py", self.count, "main"),))
        self.checker.submit(op, stream, after)
        return op

    def run(self, op: FakeOperation, *accesses: tuple[int, int, Access]) -> FakeOperation:
        self.checker.start(op)
        for start, stop, kind in accesses:
            self.checker.range_access(self.memory, start, stop, kind)
        self.checker.finish(op)
        return op

    def do(self, stream: str, *accesses: tuple[int, int, Access], after=()) -> FakeOperation:
        return self.run(self.queue(stream, tuple(after)), *accesses)

    def host(self, start: int, stop: int, kind: Access) -> None:
        self.checker.host_access(self.memory, start, stop, kind, ())
