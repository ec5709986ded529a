"""Buckets averaged inside nodes first, and then between them.

The ranks of a node add up a part each of what they have, exchange their parts with the ranks of the other nodes that have the same
one, and tell each other the results. Between ``n`` nodes of ``g`` ranks go ``2 (n - 1)`` times the bytes of a bucket, where ranks that
know nothing of nodes send ``g`` times as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parallel.groups.collectives.tensor_collectives import (
    all_gather_into_tensor,
    all_reduce,
    reduce_scatter_tensor,
)
from parallel.groups.futures import Future
from tensor.cuda import Stream, StreamContext, current_stream

if TYPE_CHECKING:
    from parallel.ddp.buckets import GradBucket
    from parallel.device_mesh import DeviceMesh
    from tensor import Tensor

__all__ = ["HierarchicalState", "hierarchical_hook"]


class HierarchicalState:
    """The state of :func:`hierarchical_hook`: which ranks are near each other.

    Parameters
    ----------
    mesh : DeviceMesh
        Of two dimensions: the nodes, and the ranks of each. It has the ranks of the model's process group.

    Raises
    ------
    ValueError
        If it has another number of dimensions.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        if mesh.ndim != 2:
            raise ValueError(
                f"HierarchicalState() takes a mesh of nodes and their ranks, got {mesh!r}: make one of two dimensions, as "
                "init_device_mesh('cuda', (nodes, ranks_of_a_node))"
            )
        self.mesh = mesh
        #: Where it happens on devices, beside what the backward pass computes.
        self._stream: Stream | None = None

    def stream(self, buffer: Tensor) -> Stream:
        """The :class:`tensor.cuda.Stream` for buckets, those of a mesh all on one.

        Parameters
        ----------
        buffer : Tensor
            On the stream's device.
        """
        if self._stream is None:
            self._stream = Stream(buffer.device)
        return self._stream


def hierarchical_hook(state: HierarchicalState, bucket: GradBucket) -> Future[Tensor]:
    """Average the bucket over the ranks of the state's mesh, inside nodes first.

    On devices all of it is queued at once, and the backward pass goes on; on the CPU that is so inside nodes, and what follows
    happens when the reducer waits. May be wrapped, as by ``fp16_compress_wrapper``, for fewer bytes still.

    >>> mesh = parallel.init_device_mesh("cpu", (1, parallel.get_world_size()))
    >>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
    >>> hooks = parallel.ddp_comm_hooks.hierarchical_hook
    >>> model.register_comm_hook(hooks.HierarchicalState(mesh), hooks.hierarchical_hook)

    Parameters
    ----------
    state : HierarchicalState
        Which ranks are near each other.
    bucket : GradBucket
        The gradients.

    Returns
    -------
    Future of Tensor
        The averages, ``(N,)``, in the gradients' dtype; :meth:`Future.wait` raises DistBackendError if a rank died or did not come
        in time.
    """
    mesh = state.mesh
    buffer = bucket.buffer()
    buffer.div_(mesh.size())
    if not buffer.is_cuda:
        packed, part = _packed(buffer, mesh)
        work = reduce_scatter_tensor(part, packed, group=mesh.get_group(1), async_op=True)
        assert work is not None

        def between(future: Future[list[Tensor]]) -> Tensor:
            future.value()
            return _between_nodes(packed, part, mesh)[: buffer.numel()]

        return work.get_future().then(between)
    stream = state.stream(buffer)
    stream.wait_stream(current_stream(buffer.device))
    buffer.record_stream(stream)
    result: Future[Tensor] = Future()
    with StreamContext(stream):
        packed, part = _packed(buffer, mesh)
        reduce_scatter_tensor(part, packed, group=mesh.get_group(1))
        result.set_result(_between_nodes(packed, part, mesh)[: buffer.numel()])
    return result


def _packed(buffer: Tensor, mesh: DeviceMesh) -> tuple[Tensor, Tensor]:
    """``buffer``, with zeros behind it where ranks of a node would have parts of different sizes; and memory for a part."""
    ranks = mesh.size(1)
    count = -(-buffer.numel() // ranks)
    packed = buffer
    if count * ranks != buffer.numel():
        packed = buffer.new_zeros(count * ranks)
        packed[: buffer.numel()].copy_(buffer)
    return packed, buffer.new_empty(count)


def _between_nodes(packed: Tensor, part: Tensor, mesh: DeviceMesh) -> Tensor:
    """``packed`` with the sums over all nodes, of which ``part`` is this node's of one part."""
    all_reduce(part, group=mesh.get_group(0))
    all_gather_into_tensor(packed, part, group=mesh.get_group(1))
    return packed
