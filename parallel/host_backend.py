"""Collectives on tensors by way of host memory, whatever carries that between ranks."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from tensor.autograd.graph import increment_version

from .errors import DistBackendError
from .lanes import Lane
from .staging import Staging
from .works import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from tensor import Tensor
    from tensor.core.devices.state import CudaPlace

    from .backend import Array, HostTransport
    from .reduce_op import ReduceOp

    #: Works on the arrays of an operation's tensors until the deadline; of a ``recv``, gives the source.
    Carry = Callable[[list[Array], float], int | None]


class HostBackend:
    """Collectives of one group on a transport of host memory. See :class:`parallel.backend.Backend`.

    One thread carries out the collectives of the group, in order; ``send`` and ``recv`` have one for each peer and tag,
    so that neither waits for the other. The threads come with the first operation and go when idle.

    CPU tensors are used in place. CUDA tensors are copied to pinned memory and back on streams of the group's own:
    the host goes on at once, and what the caller's current stream holds comes before the copies.

    Parameters
    ----------
    transport : HostTransport
        What carries the bytes. :meth:`close` and :meth:`abort` end it.
    timeout : timedelta
        How long an operation may take once it has begun.
    """

    def __init__(self, transport: HostTransport, timeout: timedelta) -> None:
        self.name = transport.name
        self.rank = transport.rank
        self.size = transport.size
        self.timeout = timeout
        self._transport = transport
        self._lock = threading.Lock()
        self._collectives = Lane(f"{transport.name} collectives")
        self._lanes: dict[tuple[str, int | None, int], Lane] = {}
        self._staging: dict[CudaPlace, Staging] = {}
        self._ended: str | None = None

    def __repr__(self) -> str:
        return f"<HostBackend {self.name} rank {self.rank} of {self.size}>"

    # Reductions

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> Work:
        """See :meth:`Backend.all_reduce`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.all_reduce(arrays[0], op, deadline)

        return self._queue("all_reduce", [tensor], carry, reads=(0,), writes=(0,))

    def reduce(self, tensor: Tensor, dst: int, op: ReduceOp) -> Work:
        """See :meth:`Backend.reduce`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.reduce(arrays[0], dst, op, deadline)

        return self._queue("reduce", [tensor], carry, reads=(0,), writes=(0,) if self.rank == dst else ())

    def reduce_scatter(self, output: Tensor, input: Tensor, op: ReduceOp) -> Work:
        """See :meth:`Backend.reduce_scatter`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.reduce_scatter(arrays[0], arrays[1], op, deadline)

        return self._queue("reduce_scatter", [output, input], carry, reads=(1,), writes=(0,))

    # Copies

    def broadcast(self, tensor: Tensor, src: int) -> Work:
        """See :meth:`Backend.broadcast`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.broadcast(arrays[0], src, deadline)

        sends = self.rank == src
        return self._queue(
            "broadcast", [tensor], carry, reads=(0,) if sends else (), writes=() if sends else (0,)
        )

    def all_gather(self, output: Tensor, input: Tensor) -> Work:
        """See :meth:`Backend.all_gather`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.all_gather(arrays[0], arrays[1], deadline)

        return self._queue("all_gather", [output, input], carry, reads=(1,), writes=(0,))

    def gather(self, output: Tensor | None, input: Tensor, dst: int) -> Work:
        """See :meth:`Backend.gather`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.gather(arrays[1] if len(arrays) > 1 else None, arrays[0], dst, deadline)

        if output is None:
            return self._queue("gather", [input], carry, reads=(0,))
        return self._queue("gather", [input, output], carry, reads=(0,), writes=(1,))

    def scatter(self, output: Tensor, input: Tensor | None, src: int) -> Work:
        """See :meth:`Backend.scatter`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.scatter(arrays[0], arrays[1] if len(arrays) > 1 else None, src, deadline)

        if input is None:
            return self._queue("scatter", [output], carry, writes=(0,))
        return self._queue("scatter", [output, input], carry, reads=(1,), writes=(0,))

    def all_to_all(
        self, output: Tensor, input: Tensor, output_counts: Sequence[int], input_counts: Sequence[int]
    ) -> Work:
        """See :meth:`Backend.all_to_all`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.all_to_all(arrays[0], arrays[1], output_counts, input_counts, deadline)

        return self._queue("all_to_all", [output, input], carry, reads=(1,), writes=(0,))

    # Between two ranks

    def send(self, tensor: Tensor, dst: int, tag: int) -> Work:
        """See :meth:`Backend.send`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.send(arrays[0], dst, tag, deadline)

        return self._queue("send", [tensor], carry, reads=(0,), lane=self._lane("send", dst, tag))

    def recv(self, tensor: Tensor, src: int | None, tag: int) -> Work:
        """See :meth:`Backend.recv`."""

        def carry(arrays: list[Array], deadline: float) -> int:
            return self._transport.recv(arrays[0], src, tag, deadline)

        return self._queue("recv", [tensor], carry, writes=(0,), lane=self._lane("recv", src, tag))

    def barrier(self) -> Work:
        """See :meth:`Backend.barrier`."""

        def carry(_: list[Array], deadline: float) -> None:
            self._transport.barrier(deadline)

        return self._queue("barrier", [], carry)

    # The end

    def close(self) -> None:
        """See :meth:`Backend.close`."""
        for lane in self._end("was destroyed"):
            lane.close()
        self._transport.close()

    def abort(self) -> None:
        """See :meth:`Backend.abort`."""
        lanes = self._end("was aborted")
        error = DistBackendError(f"{self!r}: the process group was aborted")
        for lane in lanes:
            lane.abort(error)
        self._transport.abort()

    def _end(self, how: str) -> list[Lane]:
        with self._lock:
            self._ended = self._ended or how
            return [self._collectives, *self._lanes.values()]

    # What all operations share

    def _lane(self, kind: str, peer: int | None, tag: int) -> Lane:
        """What orders messages with one peer and tag, and runs them in a thread of its own."""
        with self._lock:
            if len(self._lanes) > 64:
                self._lanes = {key: lane for key, lane in self._lanes.items() if not lane.idle()}
            found = self._lanes.get((kind, peer, tag))
            if found is None:
                name = f"{self.name} {kind} {'any' if peer is None else peer}"
                found = self._lanes[kind, peer, tag] = Lane(name)
            return found

    def _queue(
        self,
        operation: str,
        given: list[Tensor],
        carry: Carry,
        *,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
        lane: Lane | None = None,
    ) -> Work:
        """Have ``carry`` called with the tensors' arrays; ``reads`` and ``writes`` say which it reads and fills."""
        if self._ended is not None:
            raise DistBackendError(f"{operation}: the process group {self!r} {self._ended}")
        outputs = [given[each] for each in writes]
        place: Any = given[0]._layout.place if given else None
        if place is None or not place.is_cuda:
            work = Work(operation, outputs)
            run = self._on_host(given, carry, reads, writes)
        else:
            staging = self._staging_of(place)
            work = Work(operation, outputs, streams=(staging.inbound,))
            run = self._on_device(staging, given, carry, reads, writes)
        increment_version(outputs)
        (lane or self._collectives).submit(work, run)
        return work

    def _on_host(
        self, given: list[Tensor], carry: Carry, reads: Sequence[int], writes: Sequence[int]
    ) -> Callable[[], int | None]:
        def run() -> int | None:
            # Here and not before: of pinned memory, the simulated driver notes that the host accesses it now.
            arrays = [
                (each._writable if index in writes else each._host).reshape(-1)
                for index, each in enumerate(given)
            ]
            return carry(arrays, self._deadline())

        return run

    def _on_device(
        self,
        staging: Staging,
        given: list[Tensor],
        carry: Carry,
        reads: Sequence[int],
        writes: Sequence[int],
    ) -> Callable[[], int | None]:
        staged = staging.stage([(each, index in reads, index in writes) for index, each in enumerate(given)])

        def run() -> int | None:
            source = carry(staged.arrays(), self._deadline())
            staged.bring_back()
            return source

        return run

    def _staging_of(self, place: CudaPlace) -> Staging:
        with self._lock:
            found = self._staging.get(place)
            if found is None:
                found = self._staging[place] = Staging(place)
            return found

    def _deadline(self) -> float:
        return time.monotonic() + self.timeout.total_seconds()
