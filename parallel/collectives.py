"""Operations that all ranks of a group call together.

Each queues its work and, with ``async_op=True``, returns a :class:`Work` at once; without, it returns when the work is
done, or for CUDA tensors when it is ordered before what the current stream gets next. All ranks of a group call
the same operations in the same order. On a rank that is not in the group, they do nothing but warn.

Tensors may be strided in any way, except that elements which are written must not share memory. Gradients do not
flow through; what is written counts as modified in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .exchanged import (
    Exchange,
    check_kind,
    check_list,
    check_op,
    check_shapes,
    check_tensor,
    read,
    read_list,
    reducible,
)
from .group_arguments import backend_for, group_rank, member_of
from .reduce_op import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from tensor import Tensor

    from .process_groups import Group
    from .works import Work


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Replace ``tensor`` on every rank by the combination of all ranks' tensors, which are bitwise equal then.

    Parameters
    ----------
    tensor : Tensor
        Of one shape and dtype on all ranks.
    op : ReduceOp
        How elements are combined. Complex tensors have SUM and AVG; for bools, SUM is "any" and PRODUCT "all".
    group : ProcessGroup, optional
        The ranks that take part; all by default.
    async_op : bool
        Whether to return a work instead of waiting.

    Raises
    ------
    TypeError, ValueError
        For arguments that do not fit; nothing was sent then.
    DistBackendError
        If a rank died, did not come in time, or called another operation.
    """
    check_tensor("all_reduce", "tensor", tensor, written=True)
    check_op("all_reduce", op, tensor.dtype)
    process_group = member_of("all_reduce", group)
    if process_group is None:
        return None
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    return exchange.finish(backend.all_reduce(*reducible(exchange.updated(tensor), op)), async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Replace ``tensor`` on rank ``dst`` by the combination of all ranks' tensors; the others keep theirs.

    Parameters
    ----------
    dst, group_dst : int
        The rank's number in the job, or in the group.
    tensor, op, group, async_op
        See :func:`all_reduce`, also for errors.
    """
    check_tensor("reduce", "tensor", tensor, written=True)
    check_op("reduce", op, tensor.dtype)
    process_group = member_of("reduce", group)
    if process_group is None:
        return None
    to = group_rank("reduce", process_group, "dst", dst, group_dst)
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    given = exchange.updated(tensor) if backend.rank == to else read(tensor)
    combined, how = reducible(given, op)
    return exchange.finish(backend.reduce(combined, to, how), async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Replace ``tensor`` on every rank by that of rank ``src``.

    Parameters
    ----------
    src, group_src : int
        The rank's number in the job, or in the group.
    tensor, group, async_op
        See :func:`all_reduce`, also for errors.
    """
    check_tensor("broadcast", "tensor", tensor, written=True)
    process_group = member_of("broadcast", group)
    if process_group is None:
        return None
    source = group_rank("broadcast", process_group, "src", src, group_src)
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    given = read(tensor) if backend.rank == source else exchange.filled(tensor)
    return exchange.finish(backend.broadcast(given, source), async_op)


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Fill ``tensor_list`` with the tensors of all ranks.

    Parameters
    ----------
    tensor_list : list of Tensor
        One for each rank of the group, of ``tensor``'s shape and dtype.
    tensor : Tensor
        What this rank gives.
    group, async_op
        See :func:`all_reduce`, also for errors.
    """
    check_tensor("all_gather", "tensor", tensor)
    process_group = member_of("all_gather", group)
    if process_group is None:
        return None
    check_list("all_gather", "tensor_list", tensor_list, tensor, process_group.size(), written=True)
    check_shapes("all_gather", "tensor_list", tensor_list, tensor.shape)
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    return exchange.finish(backend.all_gather(exchange.filled_list(tensor_list), read(tensor)), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Fill one tensor with the tensors of all ranks, one after another or stacked.

    Parameters
    ----------
    output_tensor : Tensor
        With as many elements as all ranks' tensors together: ``(size * N, ...)`` or ``(size, N, ...)``.
    input_tensor : Tensor
        What this rank gives, ``(N, ...)``.
    group, async_op
        See :func:`all_reduce`, also for errors.
    """
    check_tensor("all_gather_into_tensor", "output_tensor", output_tensor, written=True)
    check_tensor("all_gather_into_tensor", "input_tensor", input_tensor)
    check_kind("all_gather_into_tensor", "output_tensor", output_tensor, input_tensor)
    process_group = member_of("all_gather_into_tensor", group)
    if process_group is None:
        return None
    _check_multiple(
        "all_gather_into_tensor",
        ("output_tensor", output_tensor),
        ("input_tensor", input_tensor),
        process_group.size(),
    )
    backend = backend_for(process_group, input_tensor)
    exchange = Exchange()
    return exchange.finish(backend.all_gather(exchange.filled(output_tensor), read(input_tensor)), async_op)


all_gather_single = all_gather_into_tensor


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Fill ``output`` with the combination of the tensors that all ranks give for this rank.

    Parameters
    ----------
    output : Tensor
        The result.
    input_list : list of Tensor
        One for each rank of the group, of ``output``'s shape and dtype.
    op, group, async_op
        See :func:`all_reduce`, also for errors.
    """
    check_tensor("reduce_scatter", "output", output, written=True)
    check_op("reduce_scatter", op, output.dtype)
    process_group = member_of("reduce_scatter", group)
    if process_group is None:
        return None
    check_list("reduce_scatter", "input_list", input_list, output, process_group.size())
    check_shapes("reduce_scatter", "input_list", input_list, output.shape)
    backend = backend_for(process_group, output)
    exchange = Exchange()
    target, how = reducible(exchange.filled(output), op)
    source, _ = reducible(read_list(input_list), op)
    return exchange.finish(backend.reduce_scatter(target, source, how), async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Fill ``output`` with this rank's chunk of the combination of all ranks' ``input``.

    Parameters
    ----------
    output : Tensor
        The result, ``(N, ...)``.
    input : Tensor
        The chunks of all ranks, ``(size * N, ...)`` or ``(size, N, ...)``.
    op, group, async_op
        See :func:`all_reduce`, also for errors.
    """
    check_tensor("reduce_scatter_tensor", "output", output, written=True)
    check_tensor("reduce_scatter_tensor", "input", input)
    check_kind("reduce_scatter_tensor", "input", input, output)
    check_op("reduce_scatter_tensor", op, output.dtype)
    process_group = member_of("reduce_scatter_tensor", group)
    if process_group is None:
        return None
    _check_multiple("reduce_scatter_tensor", ("input", input), ("output", output), process_group.size())
    backend = backend_for(process_group, output)
    exchange = Exchange()
    target, how = reducible(exchange.filled(output), op)
    source, _ = reducible(read(input), op)
    return exchange.finish(backend.reduce_scatter(target, source, how), async_op)


reduce_scatter_single = reduce_scatter_tensor


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Fill ``gather_list`` on rank ``dst`` with the tensors of all ranks.

    Parameters
    ----------
    tensor : Tensor
        What this rank gives.
    gather_list : list of Tensor, optional
        On rank ``dst`` alone: one for each rank of the group, of ``tensor``'s shape and dtype.
    dst, group_dst : int, optional
        The rank's number in the job, or in the group; the group's first by default.
    group, async_op
        See :func:`all_reduce`, also for errors.
    """
    check_tensor("gather", "tensor", tensor)
    process_group = member_of("gather", group)
    if process_group is None:
        return None
    to = group_rank("gather", process_group, "dst", dst, group_dst, default=0)
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    output = None
    if backend.rank != to:
        if gather_list:
            raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    elif not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    else:
        check_list("gather", "gather_list", gather_list, tensor, backend.size, written=True)
        check_shapes("gather", "gather_list", gather_list, tensor.shape)
        output = exchange.filled_list(gather_list)
    return exchange.finish(backend.gather(output, read(tensor), to), async_op)


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Fill ``tensor`` with what rank ``src`` has for this rank.

    Parameters
    ----------
    tensor : Tensor
        The result.
    scatter_list : list of Tensor, optional
        On rank ``src`` alone: one for each rank of the group, of ``tensor``'s shape and dtype.
    src, group_src : int, optional
        The rank's number in the job, or in the group; the group's first by default.
    group, async_op
        See :func:`all_reduce`, also for errors.
    """
    check_tensor("scatter", "tensor", tensor, written=True)
    process_group = member_of("scatter", group)
    if process_group is None:
        return None
    source = group_rank("scatter", process_group, "src", src, group_src, default=0)
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    given = None
    if backend.rank != source:
        if scatter_list:
            raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    elif not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    else:
        check_list("scatter", "scatter_list", scatter_list, tensor, backend.size)
        check_shapes("scatter", "scatter_list", scatter_list, tensor.shape)
        given = read_list(scatter_list)
    return exchange.finish(backend.scatter(exchange.filled(tensor), given, source), async_op)


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: Sequence[int] | None = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all ranks of the group have called this.

    Parameters
    ----------
    group, async_op
        See :func:`all_reduce`, also for errors.
    device_ids : list of int, optional
        Accepted for compatibility.
    timeout : timedelta, optional
        How long to wait at most, where that is less than the group's timeout.
    """
    process_group = member_of("barrier", group)
    if process_group is None:
        return None
    if device_ids is not None and not isinstance(device_ids, (list, tuple)):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    work = process_group.backends()[0].barrier()
    if async_op:
        return work
    work.wait(timeout)
    return None


def _check_multiple(function: str, large: tuple[str, Tensor], small: tuple[str, Tensor], size: int) -> None:
    """Check that one tensor has as many elements as one of each rank."""
    if large[1].numel() != small[1].numel() * size:
        raise ValueError(
            f"{function}(): {large[0]} size must be equal to world_size times {small[0]} size: it has "
            f"{large[1].numel()} elements, expected {size} * {small[1].numel()}"
        )
