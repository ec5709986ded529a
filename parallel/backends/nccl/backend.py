"""Process groups on NCCL: every operation is queued on a stream, and the host goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import drv
import tensor as tensors
from drv.bindings.nccl import ncclDataType_t, ncclRedOp_t
from parallel.groups.errors import DistBackendError
from tensor.autograd.graph import increment_version
from tensor.core.devices.current import index_or_current
from tensor.core.devices.graph_capture import capture_of
from tensor.core.devices.state import cuda_state
from tensor.cuda import Stream, StreamContext

from .communicator import Communicator
from .types import TYPES, reduction
from .watchdog import BarrierWork, NcclWork, Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from drv.bindings.nccl import Nccl
    from parallel.groups.reduce_op import ReduceOp
    from parallel.groups.stores.store import Store
    from tensor import Tensor
    from tensor.core.devices.state import CudaState

    #: Calls NCCL's functions with a communicator and a stream.
    Issue = Callable[[int, int], None]

_BYTES = ncclDataType_t.ncclUint8


class NcclBackend:
    """Collectives on CUDA tensors through NVIDIA's NCCL. See :class:`parallel.backends.backend.Backend`.

    Collectives have one communicator and one stream; ``send`` and ``recv`` have a communicator and a stream for
    each pair of ranks, so that they need no other rank. Communicators are created by the first operation that needs
    them, which waits for the other ranks.

    Work on the group's stream begins after what the caller's current stream holds, and ``Work.wait()`` has
    the current stream wait for it: the host waits in ``barrier`` alone.

    Parameters
    ----------
    store : Store
        Where the ranks of this group meet; nobody else uses its keys.
    rank, size : int
        This rank in the group, and how many there are.
    device : device, optional
        Where the tensors are; by default that of the first one.
    timeout : timedelta
        How long an operation may take, from its call to its end on the device.

    Raises
    ------
    NotSupportedError
        If the devices are simulated.
    LibraryNotInstalledError
        If NCCL is missing.
    """

    name = "nccl"

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        device: tensors.device | int | str | None,
        timeout: timedelta,
    ) -> None:
        self.rank = rank
        self.size = size
        self._store = store
        self._timeout = timeout.total_seconds()
        self._runtime = drv.runtime()
        self._library: Nccl = self._runtime.library("nccl")
        self._state: CudaState | None = None
        self._communicators: dict[str, Communicator] = {}
        self._watchdog = Watchdog(self._runtime)
        self._ended: DistBackendError | None = None
        if device is not None:
            argument = tensors.device(device)
            if argument.type != "cuda":
                raise ValueError(f"NCCL works on CUDA devices, and the process group was given {argument}")
            self._state = cuda_state(index_or_current(argument))

    def __repr__(self) -> str:
        return f"<NcclBackend rank {self.rank} of {self.size}, {len(self._communicators)} communicator(s)>"

    # Reductions

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> NcclWork:
        """See :meth:`Backend.all_reduce`."""
        return self._reduction("all_reduce", tensor, tensor, op, self._library.ncclAllReduce)

    def reduce(self, tensor: Tensor, dst: int, op: ReduceOp) -> NcclWork:
        """See :meth:`Backend.reduce`."""

        def call(
            send: int, receive: int, count: int, datatype: int, operator: int, handle: int, stream: int
        ) -> None:
            receive = receive if self.rank == dst else 0
            self._library.ncclReduce(send, receive, count, datatype, operator, dst, handle, stream)

        return self._reduction("reduce", tensor, tensor, op, call, writes=self.rank == dst)

    def reduce_scatter(self, output: Tensor, input: Tensor, op: ReduceOp) -> NcclWork:
        """See :meth:`Backend.reduce_scatter`."""
        return self._reduction("reduce_scatter", output, input, op, self._library.ncclReduceScatter)

    def _reduction(
        self, operation: str, output: Tensor, input: Tensor, op: ReduceOp, call: Any, *, writes: bool = True
    ) -> NcclWork:
        """Queue ``call(send, receive, count, type, operation, communicator, stream)``."""
        operator = reduction(operation, op, input.dtype)
        compute: list[Tensor] = []

        def to_compute_dtype() -> None:
            compute.append(input.to(tensors.int32))
            compute.append(compute[0] if output is input else tensors.empty_like(output, dtype=tensors.int32))

        def issue(handle: int, stream: int) -> None:
            source, target = compute or (input, output)
            datatype, components = TYPES[source.dtype]
            count = output.numel() * components
            call(source._address, target._address, count, datatype, operator, handle, stream)

        def to_storage_dtype() -> None:
            with tensors.no_grad():
                output.copy_(compute[1])

        # Sums and products of 32 bits end in the same 16 bits.
        is_short = input.dtype is tensors.int16
        return self._queue(
            operation,
            (input,) if output is input else (input, output),
            (output,) if writes else (),
            issue,
            before=to_compute_dtype if is_short else None,
            after=to_storage_dtype if is_short and writes else None,
        )

    # Copies: all types are bytes

    def broadcast(self, tensor: Tensor, src: int) -> NcclWork:
        """See :meth:`Backend.broadcast`."""
        address, size = tensor._address, _bytes(tensor)

        def issue(handle: int, stream: int) -> None:
            self._library.ncclBroadcast(address, address, size, _BYTES, src, handle, stream)

        return self._queue("broadcast", (tensor,), (tensor,), issue)

    def all_gather(self, output: Tensor, input: Tensor) -> NcclWork:
        """See :meth:`Backend.all_gather`."""
        to, source, size = output._address, input._address, _bytes(input)

        def issue(handle: int, stream: int) -> None:
            self._library.ncclAllGather(source, to, size, _BYTES, handle, stream)

        return self._queue("all_gather", (output, input), (output,), issue)

    def gather(self, output: Tensor | None, input: Tensor, dst: int) -> NcclWork:
        """See :meth:`Backend.gather`."""
        source, size, library = input._address, _bytes(input), self._library

        def issue(handle: int, stream: int) -> None:
            if output is not None:
                for rank in range(self.size):
                    library.ncclRecv(output._address + rank * size, size, _BYTES, rank, handle, stream)
            library.ncclSend(source, size, _BYTES, dst, handle, stream)

        operands = (input,) if output is None else (input, output)
        return self._queue("gather", operands, operands[1:], issue, grouped=True)

    def scatter(self, output: Tensor, input: Tensor | None, src: int) -> NcclWork:
        """See :meth:`Backend.scatter`."""
        to, size, library = output._address, _bytes(output), self._library

        def issue(handle: int, stream: int) -> None:
            if input is not None:
                for rank in range(self.size):
                    library.ncclSend(input._address + rank * size, size, _BYTES, rank, handle, stream)
            library.ncclRecv(to, size, _BYTES, src, handle, stream)

        operands = (output,) if input is None else (output, input)
        return self._queue("scatter", operands, (output,), issue, grouped=True)

    def all_to_all(
        self, output: Tensor, input: Tensor, output_counts: Sequence[int], input_counts: Sequence[int]
    ) -> NcclWork:
        """See :meth:`Backend.all_to_all`."""
        library, item = self._library, input.element_size()

        def issue(handle: int, stream: int) -> None:
            source, to = input._address, output._address
            for rank, (sent, received) in enumerate(zip(input_counts, output_counts, strict=True)):
                if sent:
                    library.ncclSend(source, sent * item, _BYTES, rank, handle, stream)
                if received:
                    library.ncclRecv(to, received * item, _BYTES, rank, handle, stream)
                source += sent * item
                to += received * item

        return self._queue("all_to_all", (output, input), (output,), issue, grouped=True)

    # Between two ranks

    def send(self, tensor: Tensor, dst: int, tag: int) -> NcclWork:
        """See :meth:`Backend.send`. NCCL has no tags: what one rank sends another arrives in order."""
        return self.send_recv([("send", tensor, dst)])[0]

    def recv(self, tensor: Tensor, src: int | None, tag: int) -> NcclWork:
        """See :meth:`Backend.recv`. NCCL cannot receive from any rank.

        Raises
        ------
        ValueError
            If ``src`` is None.
        """
        if src is None:
            raise ValueError(
                "NCCL cannot receive from any rank: name the source rank, or use the backend 'gloo'"
            )
        return self.send_recv([("recv", tensor, src)])[0]

    def send_recv(self, operations: Sequence[tuple[str, Tensor, int]]) -> list[NcclWork]:
        """Queue several ``("send" or "recv", tensor, peer)`` so that none waits for another.

        A rank that sends to another and receives from it needs that: one after the other, each waits for the
        other rank's second one.

        Returns
        -------
        list of NcclWork
            One for each peer, by rank.
        """
        peers = sorted({peer for _, _, peer in operations})
        if self.rank in peers:
            raise ValueError(f"rank {self.rank} cannot send to itself or receive from itself with NCCL")
        # Every rank goes through pairs in the same order, so that no circle of ranks waits for each other.
        return [
            self._exchange(peer, [(direction, tensor) for direction, tensor, to in operations if to == peer])
            for peer in sorted(peers, key=lambda peer: (min(peer, self.rank), max(peer, self.rank)))
        ]

    def _exchange(self, peer: int, operations: list[tuple[str, Tensor]]) -> NcclWork:
        other = int(peer > self.rank)

        def issue(handle: int, stream: int) -> None:
            for direction, tensor in operations:
                call = self._library.ncclSend if direction == "send" else self._library.ncclRecv
                call(tensor._address, _bytes(tensor), _BYTES, other, handle, stream)

        received = [tensor for direction, tensor in operations if direction == "recv"]
        return self._queue(
            f"{'/'.join(direction for direction, _ in operations)} with rank {peer}",
            [tensor for _, tensor in operations],
            received,
            issue,
            peer=peer,
            source=peer if received else None,
            grouped=len(operations) > 1,
        )

    def barrier(self) -> NcclWork:
        """See :meth:`Backend.barrier`. The work's ``wait()`` is the host's."""
        state = self._state
        device = "cuda" if state is None else state.device
        token = tensors.zeros(1, dtype=tensors.int32, device=device)

        def issue(handle: int, stream: int) -> None:
            datatype, operator = ncclDataType_t.ncclInt32, ncclRedOp_t.ncclSum
            self._library.ncclAllReduce(token._address, token._address, 1, datatype, operator, handle, stream)

        return self._queue("barrier", (token,), (), issue, work_type=BarrierWork)

    # The end

    def close(self) -> None:
        """See :meth:`Backend.close`."""
        if self._ended is None and self._runtime.alive:
            deadline = time.monotonic() + self._timeout
            for communicator in list(self._communicators.values()):
                # The watchdog aborts operations that hang. Failures are reported by their works.
                communicator.stream.device_state.native.use()
                self._runtime.driver.cuStreamSynchronize(communicator.stream.handle)
            self._end("the process group was destroyed")
            # In the same order on all ranks: each end waits for the other ranks.
            for name in sorted(self._communicators):
                self._communicators[name].close(deadline)

    def abort(self) -> None:
        """See :meth:`Backend.abort`."""
        if self._ended is None and self._runtime.alive:
            error = self._end("the process group was aborted")
            for communicator in list(self._communicators.values()):
                self._watchdog.give_up(communicator, error, expected=True)

    def _end(self, why: str) -> DistBackendError:
        self._ended = DistBackendError(f"{self!r}: {why}")
        self._watchdog.stop()
        return self._ended

    # What all operations share

    def _queue(
        self,
        operation: str,
        operands: Sequence[Tensor],
        outputs: Sequence[Tensor],
        issue: Issue,
        *,
        work_type: type[NcclWork] = NcclWork,
        peer: int | None = None,
        source: int | None = None,
        grouped: bool = False,
        before: Callable[[], None] | None = None,
        after: Callable[[], None] | None = None,
    ) -> NcclWork:
        """Queue an operation behind the current stream.

        ``before`` and ``after`` are steps of it that are tensor operations, ``issue`` those that are NCCL's.
        """
        state = self._state_of(operation, operands)
        deadline = time.monotonic() + self._timeout
        communicator = self._communicator(state, peer)
        capture = capture_of(state)
        if capture is not None:
            communicator.require_started(operation)
            capture.referenced += [communicator, *operands]
        stream = communicator.stream
        work = work_type(operation, outputs, streams=(stream,))
        with communicator.turn(operation, deadline):
            stream.wait_stream(state.local.stream)
            for each in operands:
                each.record_stream(stream)
            if before is not None:
                with StreamContext(stream), tensors.no_grad():
                    before()
            communicator.call(
                operation, lambda handle: issue(handle, stream.cuda_stream), deadline, grouped=grouped
            )
            if after is not None:
                work.add_step(after)
            work.succeed(source)
            if work.exception() is None and capture is None:
                self._watchdog.watch(communicator, work, work.end(), deadline)
        increment_version(outputs)
        return work

    def _state_of(self, operation: str, operands: Sequence[Tensor]) -> CudaState:
        if self._ended is not None:
            raise DistBackendError(f"{operation}: {self._ended}")
        if not self._runtime.alive:
            # Says why: the process was forked, or the driver was reset.
            self._runtime.driver.cuInit(0)
        for each in operands:
            state = each._layout.device_state
            if not state.is_cuda:
                raise ValueError(
                    f"{operation}: No backend type associated with device type {state.device.type}: NCCL takes CUDA tensors "
                    "alone; move the tensor with .cuda(), or use the backend 'gloo'"
                )
            if self._state is None:
                self._state = state
            if state is not self._state:
                raise ValueError(
                    f"{operation}: the process group's tensors are on {self._state.device}, and one is on {state.device}"
                )
        assert self._state is not None
        return self._state

    def _communicator(self, state: CudaState, peer: int | None) -> Communicator:
        if peer is None:
            name, rank, size = "all", self.rank, self.size
        else:
            # The lower rank of a pair is 0 in its communicator.
            name, rank, size = f"{min(peer, self.rank)}:{max(peer, self.rank)}", int(self.rank > peer), 2
        communicator = self._communicators.get(name)
        if communicator is None:
            stream, watchdog = Stream(state.device), self._watchdog
            result = Communicator(
                self._library, self._store, name, rank, size, stream, before_abort=watchdog.note_done
            )
            communicator = self._communicators.setdefault(name, result)
            if self._ended is not None:
                # Ended by another thread, which may not have seen this one.
                communicator.abort(self._ended)
        return communicator


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
