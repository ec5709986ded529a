"""NCCL's functions on simulated devices, for ranks that are threads of one process.

It is stricter than NCCL where that finds mistakes: a call is in progress until all its ranks have made it, nothing may be
called in the meantime, and a communicator that two threads use at once, or with another device, or after its end, is
noted in ``violations``. Work is queued on the streams that the calls name, as copies which the simulated driver's
race checks see.
"""

from __future__ import annotations

# ruff: noqa: N803 - the names are C's
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import drv
from drv.bindings.nccl import Config, UniqueId, failure, ncclDataType_t, ncclRedOp_t, ncclResult_t
from drv.capture_mode import unseen_by_captures

_DTYPES: dict[int, Any] = {
    ncclDataType_t.ncclInt8: np.int8,
    ncclDataType_t.ncclUint8: np.uint8,
    ncclDataType_t.ncclInt32: np.int32,
    ncclDataType_t.ncclInt64: np.int64,
    ncclDataType_t.ncclFloat16: np.float16,
    ncclDataType_t.ncclFloat32: np.float32,
    ncclDataType_t.ncclFloat64: np.float64,
    ncclDataType_t.ncclBfloat16: ml_dtypes.bfloat16,
}
_REDUCTIONS: dict[int, Any] = {
    ncclRedOp_t.ncclSum: np.add.reduce,
    ncclRedOp_t.ncclAvg: np.add.reduce,
    ncclRedOp_t.ncclProd: np.multiply.reduce,
    ncclRedOp_t.ncclMax: np.maximum.reduce,
    ncclRedOp_t.ncclMin: np.minimum.reduce,
}


@dataclass
class Call:
    """A call that queues work. ``how`` is what has to be the same on all ranks."""

    name: str
    send: int
    receive: int
    sent: int
    received: int
    how: tuple[Any, ...]
    stream: int


@dataclass
class Comm:
    """One rank of a communicator."""

    handle: int
    world: World
    rank: int
    device: drv.Device
    config: Config
    busy: threading.Lock = field(default_factory=threading.Lock)
    #: Calls that not all ranks have made yet.
    waiting: int = 0
    collectives: int = 0
    state: int = ncclResult_t.ncclInProgress
    ended: str = ""


class World:
    """A communicator: its ranks, and the calls that some of them have not made."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.ranks: dict[int, Comm] = {}
        self.collectives: dict[int, dict[int, Call]] = {}
        self.messages: dict[tuple[int, int], dict[str, list[Call]]] = {}
        self.finalized = 0


class FakeNccl:
    """See the module. Attributes tell what was called, and have the next calls fail."""

    def __init__(self, runtime: drv.Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.RLock()
        self._worlds: dict[bytes, World] = {}
        self._comms: dict[int, Comm] = {}
        self._handles = itertools.count(0x7000_0000_0000, 0x1000)
        self._group = threading.local()
        self._kept: list[Any] = []
        #: ``(rank, name)`` of every call with a communicator.
        self.calls: list[tuple[int, str]] = []
        self.violations: list[str] = []
        #: Names of functions that fail, with their result.
        self.failing: dict[str, int] = {}
        self.last_error = b""

    # Settings and state

    def ncclGetVersion(self) -> int:
        return Config.VERSION

    def ncclGetErrorString(self, result: int) -> bytes:
        return ncclResult_t(result).name.encode()

    def ncclGetLastError(self, comm: int) -> bytes:
        return self.last_error

    def ncclGetUniqueId(self) -> UniqueId:
        self._fail("ncclGetUniqueId")
        return UniqueId.from_bytes(next(self._handles).to_bytes(128, "little"))

    def ncclCommInitRankConfig(self, nranks: int, commId: UniqueId, rank: int, config: Config) -> int:
        self._fail("ncclCommInitRankConfig")
        status, _ = self._runtime.driver.cuCtxGetCurrent()
        assert not status
        device = self._runtime.current.device
        assert device is not None
        with self._lock:
            world = self._worlds.setdefault(bytes(commId), World(nranks))
            assert world.size == nranks
            assert rank not in world.ranks
            comm = Comm(next(self._handles), world, rank, device, config)
            self._comms[comm.handle] = world.ranks[rank] = comm
            if len(world.ranks) == nranks:
                for each in world.ranks.values():
                    each.state = ncclResult_t.ncclSuccess
            return comm.handle

    def ncclCommGetAsyncError(self, comm: int) -> int:
        with self._using(comm, "ncclCommGetAsyncError", log=False) as result:
            if result.state == ncclResult_t.ncclSuccess and result.waiting:
                return ncclResult_t.ncclInProgress
            return result.state

    def ncclCommFinalize(self, comm: int) -> None:
        with self._using(comm, "ncclCommFinalize") as result, self._lock:
            world = result.world
            world.finalized += 1
            last = world.finalized == world.size
            for each in world.ranks.values():
                if last and not each.ended:
                    each.state = ncclResult_t.ncclSuccess
            if not last:
                result.state = ncclResult_t.ncclInProgress
            result.collectives = -1

    def ncclCommDestroy(self, comm: int) -> None:
        with self._using(comm, "ncclCommDestroy") as result:
            if result.collectives != -1 or result.state != ncclResult_t.ncclSuccess:
                self.violations.append("a communicator was destroyed that is not finalized")
            result.ended = "destroyed"

    def ncclCommAbort(self, comm: int) -> None:
        with self._using(comm, "ncclCommAbort") as result:
            result.ended = "aborted"

    # What queues work

    def ncclAllReduce(
        self, send: int, receive: int, count: int, kind: int, op: int, comm: int, stream: int
    ) -> None:
        size = count * np.dtype(_DTYPES[kind]).itemsize
        self._call(comm, Call("ncclAllReduce", send, receive, size, size, (count, kind, op), stream))

    def ncclReduce(
        self, send: int, receive: int, count: int, kind: int, op: int, root: int, comm: int, stream: int
    ) -> None:
        size = count * np.dtype(_DTYPES[kind]).itemsize
        at_root = self._comms[comm].rank == root
        assert bool(receive) == (at_root and count > 0)
        how = (count, kind, op, root)
        self._call(comm, Call("ncclReduce", send, receive, size, size if at_root else 0, how, stream))

    def ncclReduceScatter(
        self, send: int, receive: int, count: int, kind: int, op: int, comm: int, stream: int
    ) -> None:
        size = count * np.dtype(_DTYPES[kind]).itemsize
        total = size * self._comms[comm].world.size
        self._call(comm, Call("ncclReduceScatter", send, receive, total, size, (count, kind, op), stream))

    def ncclBroadcast(
        self, send: int, receive: int, count: int, kind: int, root: int, comm: int, stream: int
    ) -> None:
        size = count * np.dtype(_DTYPES[kind]).itemsize
        sent = size if self._comms[comm].rank == root else 0
        self._call(comm, Call("ncclBroadcast", send, receive, sent, size, (count, kind, root), stream))

    def ncclAllGather(self, send: int, receive: int, count: int, kind: int, comm: int, stream: int) -> None:
        size = count * np.dtype(_DTYPES[kind]).itemsize
        total = size * self._comms[comm].world.size
        self._call(comm, Call("ncclAllGather", send, receive, size, total, (count, kind), stream))

    def ncclSend(self, send: int, count: int, kind: int, peer: int, comm: int, stream: int) -> None:
        size = count * np.dtype(_DTYPES[kind]).itemsize
        self._call(comm, Call("ncclSend", send, 0, size, 0, (peer, count, kind), stream))

    def ncclRecv(self, receive: int, count: int, kind: int, peer: int, comm: int, stream: int) -> None:
        size = count * np.dtype(_DTYPES[kind]).itemsize
        self._call(comm, Call("ncclRecv", 0, receive, 0, size, (peer, count, kind), stream))

    def ncclGroupStart(self) -> None:
        assert getattr(self._group, "calls", None) is None
        self._group.calls = []

    def ncclGroupEnd(self) -> None:
        calls, self._group.calls = self._group.calls, None
        for comm, call in calls:
            self._submit(comm, call)

    # How

    @contextmanager
    def _using(self, handle: int, name: str, *, log: bool = True) -> Iterator[Comm]:
        self._fail(name)
        comm = self._comms[handle]
        if log:
            self.calls.append((comm.rank, name))
        if comm.ended:
            self.violations.append(f"{name} on a communicator that was {comm.ended}")
        if self._runtime.current.device is not comm.device:
            self.violations.append(f"{name} while another device is current")
        if not comm.busy.acquire(blocking=False):
            self.violations.append(f"{name} while another thread uses the communicator")
        try:
            time.sleep(0)
            yield comm
        finally:
            if comm.busy.locked():
                comm.busy.release()

    def _fail(self, name: str) -> None:
        if name in self.failing:
            raise failure(self.failing[name], name, self.last_error.decode())

    def _call(self, handle: int, call: Call) -> None:
        with self._using(handle, call.name) as comm:
            if comm.state != ncclResult_t.ncclSuccess or comm.waiting:
                self.violations.append(f"{call.name} while another call is in progress")
            if getattr(self._group, "calls", None) is not None:
                self._group.calls.append((comm, call))
            else:
                self._submit(comm, call)

    def _submit(self, comm: Comm, call: Call) -> None:
        try:
            self._queue(comm, call)
        finally:
            # As NCCL does after it was on other devices.
            comm.device.use()

    def _queue(self, comm: Comm, call: Call) -> None:
        world = comm.world
        with self._lock:
            comm.waiting += 1
            if call.name in ("ncclSend", "ncclRecv"):
                peer = call.how[0]
                way = (comm.rank, peer) if call.name == "ncclSend" else (peer, comm.rank)
                queues = world.messages.setdefault(way, {"ncclSend": [], "ncclRecv": []})
                queues[call.name].append(call)
                while queues["ncclSend"] and queues["ncclRecv"]:
                    sender, receiver = queues["ncclSend"].pop(0), queues["ncclRecv"].pop(0)
                    assert sender.how[1:] == receiver.how[1:], "a send and its receive differ"
                    ranks = {way[0]: sender, way[1]: receiver}
                    if way[0] == way[1]:
                        self._within(world.ranks[way[0]], sender, receiver)
                    else:
                        self._run(world, ranks, lambda rank, given: given[way[0]])
                    for rank in way:
                        world.ranks[rank].waiting -= 1
                return
            number = comm.collectives
            comm.collectives += 1
            calls = world.collectives.setdefault(number, {})
            calls[comm.rank] = call
            if len(calls) < world.size:
                return
            del world.collectives[number]
            if len({(each.name, each.how) for each in calls.values()}) > 1:
                self.violations.append(f"ranks made different calls: {calls}")
            self._run(world, calls, _result(call, world.size))
            for each in world.ranks.values():
                each.waiting -= 1

    def _within(self, comm: Comm, sender: Call, receiver: Call) -> None:
        if sender.sent:
            stream = drv.Stream.from_handle(comm.device, sender.stream)
            drv.copy_on_device(receiver.receive, sender.send, sender.sent, stream=stream)

    def _run(
        self,
        world: World,
        calls: dict[int, Call],
        result: Callable[[int, dict[int, NDArray[np.uint8]]], NDArray[np.uint8]],
    ) -> None:
        """Queue copies to the host on every stream, what combines them, and copies back."""
        streams = {
            rank: drv.Stream.from_handle(world.ranks[rank].device, call.stream)
            for rank, call in calls.items()
        }
        argument, output = {}, {}
        for rank, call in calls.items():
            if call.sent:
                argument[rank] = self._pinned(call.sent)
                drv.copy_to_host(argument[rank], call.send, call.sent, stream=streams[rank])
        first = next(iter(streams.values()))
        self._meet(streams.values(), [first])
        for rank, call in calls.items():
            if call.received:
                output[rank] = self._pinned(call.received)

        def combine() -> None:
            for memory in argument.values():
                drv.host_access(memory, writes=False)
            inputs = {rank: memory.array() for rank, memory in argument.items()}
            for rank, memory in output.items():
                memory.array()[:] = result(rank, inputs)
                # After it: the copy from this memory may be queued, and looked at, while this runs.
                drv.host_access(memory, writes=True)

        first.add_callback(combine)
        self._meet([first], streams.values())
        for rank, memory in output.items():
            drv.copy_to_device(calls[rank].receive, memory, calls[rank].received, stream=streams[rank])

    def _meet(self, before: Any, after: Any) -> None:
        marks = [stream.record_event() for stream in before]
        for stream in after:
            for mark in marks:
                stream.wait_event(mark)
        self._kept += marks

    def _pinned(self, nbytes: int) -> drv.PinnedMemory:
        # As NCCL, which has its own memory already.
        with unseen_by_captures(self._runtime):
            memory = drv.PinnedMemory(nbytes)
        self._kept.append(memory)
        return memory


def _result(call: Call, size: int) -> Callable[[int, dict[int, NDArray[np.uint8]]], NDArray[np.uint8]]:
    """What rank ``rank`` receives, of the bytes that all ranks sent."""
    if call.name == "ncclBroadcast":
        return lambda rank, given: given[call.how[2]]
    if call.name == "ncclAllGather":
        return lambda rank, given: np.concatenate([given[each] for each in range(size)])
    kind, op = call.how[1], call.how[2]

    def reduced(rank: int, given: dict[int, NDArray[np.uint8]]) -> NDArray[np.uint8]:
        dtype = np.dtype(_DTYPES[kind])
        values = np.stack([given[each].view(dtype) for each in range(size)])
        wide = values.astype(np.float64) if dtype.kind not in "iu" else values
        total = _REDUCTIONS[op](wide, axis=0)
        if op == ncclRedOp_t.ncclAvg:
            total = total / size
        total = total.astype(dtype)
        if call.name == "ncclReduceScatter":
            total = total.reshape(size, -1)[rank].copy()
        result: NDArray[np.uint8] = total.view(np.uint8)
        return result

    return reduced
