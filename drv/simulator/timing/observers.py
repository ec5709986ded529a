"""What stands beside the race checker while times are recorded, and passes on to it what it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drv.simulator.checks.observation import Access
    from drv.simulator.memory.address_space import Allocation
    from drv.simulator.scheduler import Operation

    from .recorder import Recorder


class CheckerAndRecorder:
    """The race checker and the recorder, in the place of one."""

    def __init__(self, checker: Any, recorder: Recorder) -> None:
        self._checker, self._recorder = checker, recorder

    def submit(self, op: Operation, stream_key: Any, after: Iterable[Operation]) -> None:
        after = list(after)
        self._checker.submit(op, stream_key, after)
        self._recorder.submit(op, stream_key, after)

    def start(self, op: Operation) -> None:
        self._checker.start(op)
        self._recorder.start(op)

    def finish(self, op: Operation) -> None:
        self._recorder.finish(op)
        self._checker.finish(op)

    def host_waits(self, op: Operation, *, asked: bool = False) -> None:
        self._checker.host_waits(op, asked=asked)
        self._recorder.host_waits(op, asked=asked)

    def launch_begins(self, launch: Any) -> None:
        self._checker.launch_begins(launch)
        self._recorder.launch_begins(launch)

    def launch_ends(self, launch: Any) -> None:
        self._checker.launch_ends(launch)

    def submit_inside(self, op: Any, name: Any, outer: Operation, after: Iterable[Any]) -> None:
        after = list(after)
        self._checker.submit_inside(op, name, outer, after)
        self._recorder.submit_inside(op, name, outer, after)

    def suspend(self) -> Any:
        return self._checker.suspend(), self._recorder.suspend()

    def resume(self, running: Any) -> None:
        self._checker.resume(running[0])
        self._recorder.resume(running[1])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._checker, name)


class ByteCounter:
    """Counts the bytes that a library call touches, and tells the race checker of them where there is one."""

    def __init__(self, other: Any) -> None:
        self.other = other
        self.moved = 0

    def range_access(self, allocation: Allocation, start: int, stop: int, kind: Access) -> None:
        self.moved += stop - start
        if self.other is not None:
            self.other.range_access(allocation, start, stop, kind)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.other, name)
