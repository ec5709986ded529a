"""Parameters and buffers of a module on several ranks: whether they match, and making them equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from parallel.groups.collectives.object_collectives import all_gather_object
from parallel.groups.collectives.tensor_collectives import broadcast
from parallel.groups.errors import DistBackendError, DistError
from parallel.groups.process_groups import get_global_rank, get_rank, get_world_size
from tensor.core.base import view_of
from tensor.operations.optimizers.scaled_copies import scaled_copies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from parallel.groups.process_groups import ProcessGroup
    from tensor import Tensor

#: Bytes that are broadcast at once.
BROADCAST_BYTES = 250 << 20

#: Name, shape, dtype, and strides in memory.
_Described = tuple[str, list[int], str, list[int]]


def check_parameters(names: Sequence[str], parameters: Sequence[Tensor], group: ProcessGroup) -> None:
    """Check that all ranks have the same parameters.

    Raises
    ------
    DistError
        On all ranks, if the parameters differ in number, shape, dtype or strides; the message says where.
    DistBackendError
        If a rank did not take part.
    """
    own: list[_Described] = [
        (name, list(each.shape), str(each.dtype), list(each._layout.as_dense().strides))
        for name, each in zip(names, parameters, strict=True)
    ]
    gathered: list[Any] = [None] * get_world_size(group)
    try:
        all_gather_object(gathered, own, group=group)
    except DistBackendError as error:
        raise DistBackendError(
            f"DistributedDataParallel: the ranks cannot compare their parameters, all of them have to construct it: {error}"
        ) from error
    first = gathered[0]
    for rank, other in enumerate(gathered):
        # Names may differ between ranks.
        if [each[1:] for each in other] != [each[1:] for each in first]:
            raise DistError(
                _difference(get_global_rank(group, rank), other, get_global_rank(group, 0), first)
            )


def _difference(rank: int, other: list[_Described], root: int, first: list[_Described]) -> str:
    for number, (actual, expected) in enumerate(zip(other, first, strict=False)):
        for what, position in (("shape", 1), ("dtype", 2), ("strides", 3)):
            if actual[position] != expected[position]:
                return (
                    f"DistributedDataParallel expects the same parameters on all ranks: number {number}, '{actual[0]}', has "
                    f"{what} {actual[position]} on rank {rank}, and '{expected[0]}' has {expected[position]} on rank {root}"
                )
    longer, more = (rank, other) if len(other) > len(first) else (root, first)
    extra = more[min(len(other), len(first))][0]
    return (
        f"DistributedDataParallel expects model across processes to have the same number of parameters that require "
        f"gradients: rank {rank} has {len(other)} and rank {root} has {len(first)}; '{extra}' is the first that only rank "
        f"{longer} has"
    )


@tensor.no_grad()  # type: ignore[untyped-decorator]
def broadcast_tensors(tensors: Iterable[Tensor], group: ProcessGroup, rank: int = 0) -> None:
    """Set ``tensors`` to those of a rank of the group, packed into few broadcasts.

    The host does not wait for the device; the current streams see the new values of CUDA tensors.
    """
    source, is_source = get_global_rank(group, rank), get_rank(group) == rank
    pending: list[tuple[Any, list[Tensor], list[Tensor]]] = []
    for chunk in _chunks([each.detach() for each in tensors if each.numel()]):
        if len(chunk) == 1 and chunk[0].is_contiguous():
            pending.append((broadcast(chunk[0], source, group=group, async_op=True), [], []))
            continue
        flat, views = _flat(chunk)
        if is_source:
            scaled_copies(views, chunk)
        pending.append((broadcast(flat, source, group=group, async_op=True), chunk, views))
    for work, chunk, views in pending:
        work.wait()
        if not is_source:
            scaled_copies(chunk, views)


def _chunks(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Lists of tensors of one dtype and device, of up to ``BROADCAST_BYTES``."""
    filling: dict[Any, tuple[list[Tensor], int]] = {}
    for each in tensors:
        layout = each._layout
        key = layout.device_state, layout.dtype
        chunk, size = filling.pop(key, ([], 0))
        bytes_ = layout.numel * layout.dtype.itemsize
        if chunk and size + bytes_ > BROADCAST_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        filling[key] = chunk, size + bytes_
    for chunk, _ in filling.values():
        yield chunk


def _flat(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """A flat tensor for the elements of all, and its views in the shapes of each."""
    first = tensors[0]
    flat = tensor.empty(sum(each.numel() for each in tensors), dtype=first.dtype, device=first.device)
    views, start = [], 0
    for each in tensors:
        layout = each._layout.as_dense()
        views.append(view_of(flat._storage, layout, start))
        start += layout.numel * layout.dtype.itemsize
    return flat, views
