# ruff: noqa: A002 - the names of the protocol
"""A transport between threads of one process, so that groups can be tested without processes or sockets."""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from parallel.groups.errors import DistBackendError
from parallel.groups.reduce_op import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable

_COMBINE: dict[ReduceOp, Any] = {
    ReduceOp.SUM: np.add,
    ReduceOp.AVG: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}


class ThreadWorld:
    """Where the transports of one group meet."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.changed = threading.Condition()
        self.calls: dict[int, dict[int, tuple[str, Any]]] = {}
        self.left: dict[int, set[int]] = {}
        self.mail: deque[tuple[int, int, int, Any]] = deque()
        self.gone: set[int] = set()

    def transports(self) -> list[ThreadTransport]:
        """One for each rank."""
        return [ThreadTransport(self, rank) for rank in range(self.size)]

    def wait(self, ready: Callable[[], bool], deadline: float, what: Callable[[], str]) -> None:
        """Wait, with the lock held, until ``ready()``."""
        while not ready():
            if self.gone:
                raise DistBackendError(f"{what()}: rank {min(self.gone)} has gone")
            missing = deadline - time.monotonic()
            if missing <= 0:
                raise DistBackendError(f"{what()}: not there in time")
            self.changed.wait(missing)


class ThreadTransport:
    """See :class:`parallel.backends.backend.HostTransport`."""

    name = "threads"

    def __init__(self, world: ThreadWorld, rank: int) -> None:
        self._world = world
        self.rank = rank
        self.size = world.size
        self._calls = 0
        self.closed = False

    def _exchange(self, signature: str, given: Any, deadline: float) -> list[Any]:
        """Every rank's ``given``."""
        world, number = self._world, self._calls
        self._calls += 1
        with world.changed:
            calls = world.calls.setdefault(number, {})
            calls[self.rank] = (signature, None if given is None else given.copy())
            world.changed.notify_all()

            def what() -> str:
                return f"{signature}: waits for ranks {sorted(set(range(self.size)) - calls.keys())}"

            world.wait(lambda: len(calls) == self.size, deadline, what)
            left = world.left.setdefault(number, set())
            left.add(self.rank)
            if len(left) == self.size:
                del world.calls[number], world.left[number]
        for rank, (other, _) in sorted(calls.items()):
            if other != signature:
                raise DistBackendError(f"rank {rank} called {other}, rank {self.rank} called {signature}")
        return [calls[rank][1] for rank in range(self.size)]

    def _combined(self, arrays: list[Any], op: ReduceOp) -> Any:
        dtype = arrays[0].dtype
        if dtype.itemsize < 4 and dtype.kind not in "iub":
            arrays = [each.astype(np.float32) for each in arrays]
        total = functools.reduce(_COMBINE[op], arrays)
        if op is ReduceOp.AVG:
            total = total / self.size
        return total.astype(dtype)

    def reaches_devices(self, op: ReduceOp | None, dtype: Any) -> bool:
        return False

    def all_reduce(self, array: Any, op: ReduceOp, deadline: float) -> None:
        array[:] = self._combined(
            self._exchange(f"all_reduce {op} {array.dtype} {array.size}", array, deadline), op
        )

    def reduce(self, array: Any, dst: int, op: ReduceOp, deadline: float) -> None:
        argument = self._exchange(f"reduce {op} {array.dtype} {array.size} to {dst}", array, deadline)
        if self.rank == dst:
            array[:] = self._combined(argument, op)

    def broadcast(self, array: Any, src: int, deadline: float) -> None:
        array[:] = self._exchange(f"broadcast {array.dtype} {array.size} from {src}", array, deadline)[src]

    def all_gather(self, output: Any, input: Any, deadline: float) -> None:
        output[:] = np.concatenate(self._exchange(f"all_gather {input.dtype} {input.size}", input, deadline))

    def reduce_scatter(self, output: Any, input: Any, op: ReduceOp, deadline: float) -> None:
        argument = self._exchange(f"reduce_scatter {op} {input.dtype} {input.size}", input, deadline)
        output[:] = self._combined(argument, op).reshape(self.size, -1)[self.rank]

    def gather(self, output: Any, input: Any, dst: int, deadline: float) -> None:
        argument = self._exchange(f"gather {input.dtype} {input.size} to {dst}", input, deadline)
        if self.rank == dst:
            output[:] = np.concatenate(argument)

    def scatter(self, output: Any, input: Any, src: int, deadline: float) -> None:
        argument = self._exchange(f"scatter {output.dtype} {output.size} from {src}", input, deadline)
        output[:] = argument[src].reshape(self.size, -1)[self.rank]

    def all_to_all(
        self, output: Any, input: Any, output_counts: Any, input_counts: Any, deadline: float
    ) -> None:
        chunks = np.empty(self.size, object)
        chunks[:] = np.split(input.copy(), np.cumsum(input_counts)[:-1])
        argument = [each[self.rank] for each in self._exchange(f"all_to_all {input.dtype}", chunks, deadline)]
        if [each.size for each in argument] != list(output_counts):
            raise DistBackendError(
                f"all_to_all: rank {self.rank} expects {list(output_counts)} elements and is sent "
                f"{[each.size for each in argument]}"
            )
        output[:] = np.concatenate(argument)

    def send(self, array: Any, dst: int, tag: int, deadline: float) -> None:
        world = self._world
        with world.changed:
            letter = (self.rank, dst, tag, array.copy())
            world.mail.append(letter)
            world.changed.notify_all()
            # As a long message over a wire: back when it was taken.
            world.wait(
                lambda: not any(each is letter for each in world.mail),
                deadline,
                lambda: f"send to rank {dst} with tag {tag}",
            )

    def recv(self, array: Any, src: int | None, tag: int, deadline: float) -> int:
        world = self._world

        def waiting() -> Any:
            return next(
                (each for each in world.mail if each[1:3] == (self.rank, tag) and src in (None, each[0])),
                None,
            )

        with world.changed:
            world.wait(lambda: waiting() is not None, deadline, lambda: f"recv from {src} with tag {tag}")
            letter = waiting()
            world.mail = deque(each for each in world.mail if each is not letter)
            world.changed.notify_all()
        if letter[3].size != array.size:
            raise DistBackendError(f"recv: rank {letter[0]} sent {letter[3].size} elements, not {array.size}")
        array[:] = letter[3]
        return int(letter[0])

    def barrier(self, deadline: float) -> None:
        self._exchange("barrier", None, deadline)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        with self._world.changed:
            self._world.gone.add(self.rank)
            self._world.changed.notify_all()
        self.closed = True
