"""``ModelledNccl``: NCCL's functions for the first rank of a job whose other ranks are described, and not there.

What the real backend queues takes as long as the network says, and moves nothing. So which collectives there are, on which streams,
and what waits for them, is what the code of ``parallel`` does.
"""

from __future__ import annotations

# ruff: noqa: N802, N803, N815 - the names are C's
from typing import TYPE_CHECKING, Any

from drv.bindings.nccl import UniqueId, ncclResult_t
from drv.simulator.work.simulated_library import CommunicationCost
from parallel.backends.nccl.types import TYPES

from .network import Layout, Network, collective_seconds

if TYPE_CHECKING:
    from drv import Runtime

#: Bytes of an element.
_SIZES: dict[int, int] = {
    datatype: dtype.itemsize // elements for dtype, (datatype, elements) in TYPES.items()
}


class ModelledNccl:
    """See the module.

    Parameters
    ----------
    runtime : Runtime
        Of the simulated driver.
    network : Network
        What connects the ranks.
    layout : Layout
        Where those of the group are that uses this.
    """

    def __init__(self, runtime: Runtime, network: Network, layout: Layout) -> None:
        self._runtime = runtime
        self._network = network
        self._layout = layout

    # Communicators, which all ranks have joined at once

    def ncclGetUniqueId(self) -> UniqueId:
        return UniqueId.from_bytes(bytes(128))

    def ncclCommInitRankConfig(self, nranks: int, commId: UniqueId, rank: int, config: Any) -> int:
        return 1

    def ncclCommGetAsyncError(self, comm: int) -> int:
        return ncclResult_t.ncclSuccess

    def ncclGetLastError(self, comm: int) -> bytes:
        return b""

    def ncclCommFinalize(self, comm: int) -> None:
        """Nothing is left to do."""

    ncclCommDestroy = ncclCommAbort = ncclCommFinalize

    def ncclGroupStart(self) -> None:
        """Messages of a group go one after the other here."""

    ncclGroupEnd = ncclGroupStart

    # Work

    def ncclAllReduce(
        self, send: int, receive: int, count: int, datatype: int, op: int, comm: int, stream: int
    ) -> None:
        self._queue("all_reduce", count, datatype, stream)

    def ncclReduce(
        self, send: int, receive: int, count: int, datatype: int, op: int, root: int, comm: int, stream: int
    ) -> None:
        self._queue("reduce", count, datatype, stream)

    def ncclReduceScatter(
        self, send: int, receive: int, count: int, datatype: int, op: int, comm: int, stream: int
    ) -> None:
        self._queue("reduce_scatter", count * self._layout.ranks, datatype, stream)

    def ncclAllGather(
        self, send: int, receive: int, count: int, datatype: int, comm: int, stream: int
    ) -> None:
        self._queue("all_gather", count * self._layout.ranks, datatype, stream)

    def ncclBroadcast(
        self, send: int, receive: int, count: int, datatype: int, root: int, comm: int, stream: int
    ) -> None:
        self._queue("broadcast", count, datatype, stream)

    def ncclSend(self, send: int, count: int, datatype: int, peer: int, comm: int, stream: int) -> None:
        self._queue("send", count, datatype, stream)

    def ncclRecv(self, receive: int, count: int, datatype: int, peer: int, comm: int, stream: int) -> None:
        self._queue("send", count, datatype, stream)

    def _queue(self, operation: str, count: int, datatype: int, stream: int) -> None:
        nbytes = count * _SIZES[datatype]
        cost = CommunicationCost(
            collective_seconds(operation, nbytes, self._layout, self._network),
            nbytes,
            "links" if self._layout.nodes == 1 else "rails",
        )
        driver: Any = self._runtime.driver
        self._runtime.check(driver.library_call(stream, operation, _nothing, cost=cost), "library_call")


def _nothing(memory: Any) -> None:
    """The other ranks have what this one has."""
