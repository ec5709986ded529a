"""Collectives on tensors through host memory, over any transport between ranks."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from drv import CaptureError
from parallel.groups.errors import DistBackendError
from parallel.groups.works import Work
from tensor import no_grad
from tensor.autograd.graph import increment_version
from tensor.core.devices.graph_capture import capture_of
from tensor.cuda import Event, StreamContext

from .device_arrays import DeviceArray
from .staging import Staging
from .worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from parallel.groups.reduce_op import ReduceOp
    from tensor import Tensor
    from tensor.core.devices.state import CudaState

    from .backend import Array, HostTransport

    #: Works on the arrays of an operation's tensors until the deadline; for a ``recv``, returns the source.
    Carry = Callable[[list[Array], float], int | None]


class HostBackend:
    """Collectives of one group on a transport of host memory. See :class:`parallel.backends.backend.Backend`.

    One thread carries out the collectives of the group, in order; ``send`` and ``recv`` have one for each peer and tag,
    so that neither waits for the other. The threads come with the first operation and go when idle.

    CPU tensors are used in place, and CUDA tensors where the transport reaches them. Others are copied to pinned memory and
    back on streams of the group's own: the host goes on at once, and what the caller's current stream holds comes before the
    copies.

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
        self._collectives = Worker(f"{transport.name} collectives")
        self._workers: dict[tuple[str, int | None, int], Worker] = {}
        self._staging: dict[CudaState, Staging] = {}
        self._ended: str | None = None

    def __repr__(self) -> str:
        return f"<HostBackend {self.name} rank {self.rank} of {self.size}>"

    # Reductions

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> Work:
        """See :meth:`Backend.all_reduce`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.all_reduce(arrays[0], op, deadline)

        return self._queue("all_reduce", [tensor], carry, reads=(0,), writes=(0,), op=op)

    def reduce(self, tensor: Tensor, dst: int, op: ReduceOp) -> Work:
        """See :meth:`Backend.reduce`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.reduce(arrays[0], dst, op, deadline)

        writes = (0,) if self.rank == dst else ()
        return self._queue("reduce", [tensor], carry, reads=(0,), writes=writes, op=op)

    def reduce_scatter(self, output: Tensor, input: Tensor, op: ReduceOp) -> Work:
        """See :meth:`Backend.reduce_scatter`."""

        def carry(arrays: list[Array], deadline: float) -> None:
            self._transport.reduce_scatter(arrays[0], arrays[1], op, deadline)

        return self._queue("reduce_scatter", [output, input], carry, reads=(1,), writes=(0,), op=op)

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

        return self._queue("send", [tensor], carry, reads=(0,), worker=self._worker("send", dst, tag))

    def recv(self, tensor: Tensor, src: int | None, tag: int) -> Work:
        """See :meth:`Backend.recv`."""

        def carry(arrays: list[Array], deadline: float) -> int:
            return self._transport.recv(arrays[0], src, tag, deadline)

        return self._queue("recv", [tensor], carry, writes=(0,), worker=self._worker("recv", src, tag))

    def barrier(self) -> Work:
        """See :meth:`Backend.barrier`."""

        def carry(_: list[Array], deadline: float) -> None:
            self._transport.barrier(deadline)

        return self._queue("barrier", [], carry)

    # The end

    def close(self) -> None:
        """See :meth:`Backend.close`."""
        for worker in self._end("was destroyed"):
            worker.close()
        self._transport.close()

    def abort(self) -> None:
        """See :meth:`Backend.abort`."""
        workers = self._end("was aborted")
        error = DistBackendError(f"{self!r}: the process group was aborted")
        for worker in workers:
            worker.abort(error)
        self._transport.abort()

    def _end(self, how: str) -> list[Worker]:
        with self._lock:
            self._ended = self._ended or how
            return [self._collectives, *self._workers.values()]

    # What all operations share

    def _worker(self, direction: str, peer: int | None, tag: int) -> Worker:
        """What orders messages with one peer and tag, and runs them in a thread of its own."""
        with self._lock:
            if len(self._workers) > 64:
                self._workers = {key: worker for key, worker in self._workers.items() if not worker.idle()}
            worker = self._workers.get((direction, peer, tag))
            if worker is None:
                name = f"{self.name} {direction} {'any' if peer is None else peer}"
                worker = self._workers[direction, peer, tag] = Worker(name)
            return worker

    def _queue(
        self,
        operation: str,
        tensors: list[Tensor],
        carry: Carry,
        *,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
        worker: Worker | None = None,
        op: ReduceOp | None = None,
    ) -> Work:
        """Have ``carry`` called with the tensors' arrays; ``reads`` and ``writes`` say which it reads and fills.

        ``op``: by which it combines elements.
        """
        if self._ended is not None:
            raise DistBackendError(f"{operation}: the process group {self!r} {self._ended}")
        outputs = [tensors[each] for each in writes]
        state: Any = tensors[0]._layout.device_state if tensors else None
        if state is None or not state.is_cuda:
            work = Work(operation, outputs)
            run = self._on_host(tensors, carry, reads, writes)
        else:
            if capture_of(state) is not None:
                raise CaptureError(
                    f"{operation}: the process group {self!r} carries tensors through memory of the host, in threads, which a "
                    "CUDA graph cannot do at a replay. Use the backend 'nccl', or capture what lies between collectives: "
                    "with DistributedDataParallel the step of the optimizer, or parts by cuda.make_graphed_callables"
                )
            staging = self._staging_of(state)
            if self._transport.reaches_devices(op, tensors[0].dtype):
                work = Work(operation, outputs)
                run = self._in_place(staging, tensors, carry)
            else:
                work = Work(operation, outputs, streams=(staging.inbound,))
                run = self._on_device(staging, tensors, carry, reads, writes)
        increment_version(outputs)
        (worker or self._collectives).submit(work, run)
        return work

    def _on_host(
        self, tensors: list[Tensor], carry: Carry, reads: Sequence[int], writes: Sequence[int]
    ) -> Callable[[], int | None]:
        def run() -> int | None:
            # Here and not before: of pinned memory, the simulated driver notes that the host accesses it now.
            arrays = [
                (each._writable if index in writes else each._host).reshape(-1)
                for index, each in enumerate(tensors)
            ]
            return carry(arrays, self._deadline())

        return run

    def _on_device(
        self,
        staging: Staging,
        tensors: list[Tensor],
        carry: Carry,
        reads: Sequence[int],
        writes: Sequence[int],
    ) -> Callable[[], int | None]:
        staged = staging.stage(
            [(each, index in reads, index in writes) for index, each in enumerate(tensors)]
        )

        def run() -> int | None:
            source = carry(staged.arrays(), self._deadline())
            staged.bring_back()
            return source

        return run

    def _in_place(self, staging: Staging, tensors: list[Tensor], carry: Carry) -> Callable[[], int | None]:
        """``carry`` on the tensors' own memory, once what the caller's current stream holds is done."""
        ready = staging.state.local.stream.record_event(Event(blocking=True))

        def run() -> int | None:
            ready.synchronize()
            # What the transport computes has a stream of its own.
            with StreamContext(staging.outbound), no_grad():
                arrays: list[Any] = [DeviceArray(each) for each in tensors]
                return carry(arrays, self._deadline())

        return run

    def _staging_of(self, state: CudaState) -> Staging:
        with self._lock:
            staging = self._staging.get(state)
            if staging is None:
                staging = self._staging[state] = Staging(state)
            return staging

    def _deadline(self) -> float:
        return time.monotonic() + self.timeout.total_seconds()
