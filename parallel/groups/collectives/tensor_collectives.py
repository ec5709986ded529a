"""Operations that all ranks of a group call together.

Each queues its work and, with ``async_op=True``, returns a :class:`parallel.Work` at once; without, it returns None
when the work is done, or for CUDA tensors when it is ordered before what the current stream gets next. All ranks of a
group call the same operations in the same order, with tensors of the same shapes and dtypes. On a rank that is not in
the group, they do nothing but warn.

Tensors are bool, integer, floating point or complex. They may be strided in any way, except that elements which are
written must not share memory. Gradients do not flow through; what is written counts as modified in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parallel.groups.reduce_op import ReduceOp

from .arguments import (
    backend_for,
    check_list,
    check_op,
    check_same_dtype,
    check_shapes,
    check_tensor,
    group_rank,
    member_of,
)
from .marshalling import Exchange, read, read_list, reducible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from parallel.groups.process_groups import Group
    from parallel.groups.works import Work
    from tensor import Tensor


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Replace ``tensor`` on every rank by the reduction of all ranks' tensors, element by element.

    The result is bitwise equal on all ranks. With backends on host memory, sums and products of half precision
    accumulate in float32.

    >>> x = tensor.tensor([1.0, 2.0]) * (parallel.get_rank() + 1)
    >>> parallel.all_reduce(x)  # on two ranks, x is now tensor([3., 6.]) on both
    >>> work = parallel.all_reduce(x, op=parallel.ReduceOp.MAX, async_op=True)
    >>> work.wait()
    True

    Parameters
    ----------
    tensor : Tensor
        Input and output, of one shape and dtype on all ranks. On the CPU with ``gloo`` and ``mpi``; on a CUDA device
        with ``nccl``, and with the others through pinned host memory.
    op : ReduceOp
        The reduction; see :class:`parallel.ReduceOp` for the dtypes that each is for.
    group : ProcessGroup, optional
        The ranks that take part; all ranks of the job by default.
    async_op : bool
        Whether to return a work at once instead of waiting.

    Returns
    -------
    Work or None
        With ``async_op=True``, the operation under way, whose :meth:`Work.wait` must come before ``tensor`` is used;
        else None. None, with a warning, on a rank that is not in ``group``.

    Raises
    ------
    TypeError
        If ``tensor`` is not a Tensor or ``op`` not a ReduceOp.
    ValueError
        Before :func:`parallel.init_process_group`, for a group that was destroyed, and if ``op`` is not defined for
        the dtype.
    RuntimeError
        If the group has no backend for the tensor's device, or elements of ``tensor`` share memory.
    DistBackendError
        If a rank died, did not call it within the group's timeout, or called another operation; with
        ``async_op=True``, from :meth:`Work.wait`. The other errors are raised before anything is sent.
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
    """Replace ``tensor`` on rank ``dst`` by the reduction of all ranks' tensors; those of other ranks are unchanged.

    >>> loss = tensor.tensor(0.5)
    >>> parallel.reduce(loss, dst=0)  # the sum on rank 0

    Parameters
    ----------
    tensor : Tensor
        Input on every rank and output on ``dst``, of one shape and dtype on all ranks.
    dst, group_dst : int
        The rank that gets the result, by its number in the job, or in the group; exactly one is passed.
    op, group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if ``dst`` and ``group_dst`` are both passed or both missing,
        or name a rank that is not in the group.
    """
    check_tensor("reduce", "tensor", tensor, written=True)
    check_op("reduce", op, tensor.dtype)
    process_group = member_of("reduce", group)
    if process_group is None:
        return None
    to = group_rank("reduce", process_group, "dst", dst, group_dst)
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    input = exchange.updated(tensor) if backend.rank == to else read(tensor)
    combined, how = reducible(input, op)
    return exchange.finish(backend.reduce(combined, to, how), async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Replace ``tensor`` on every rank by that of rank ``src``.

    >>> weights = tensor.randn(10) if parallel.get_rank() == 0 else tensor.empty(10)
    >>> parallel.broadcast(weights, src=0)

    Parameters
    ----------
    tensor : Tensor
        Input on rank ``src`` and output on the others, of one shape and dtype on all ranks.
    src, group_src : int
        The rank whose values are sent, by its number in the job, or in the group; exactly one is passed.
    group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if ``src`` and ``group_src`` are both passed or both missing,
        or name a rank that is not in the group.
    """
    check_tensor("broadcast", "tensor", tensor, written=True)
    process_group = member_of("broadcast", group)
    if process_group is None:
        return None
    source = group_rank("broadcast", process_group, "src", src, group_src)
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    buffer = read(tensor) if backend.rank == source else exchange.filled(tensor)
    return exchange.finish(backend.broadcast(buffer, source), async_op)


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Fill ``tensor_list`` on every rank with the tensors of all ranks.

    >>> x = tensor.full((2,), float(parallel.get_rank()))
    >>> outputs = [tensor.empty_like(x) for _ in range(parallel.get_world_size())]
    >>> parallel.all_gather(outputs, x)  # outputs[r] is the x of rank r

    Parameters
    ----------
    tensor_list : list of Tensor
        The output: one tensor for each rank of the group, of the shape, dtype and device of ``tensor``. Where they are
        consecutive slices of one tensor, nothing is copied; see also :func:`parallel.all_gather_into_tensor`.
    tensor : Tensor
        This rank's input, of one shape and dtype on all ranks.
    group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if ``tensor_list`` has not one tensor for each rank, or one
        differs from ``tensor`` in shape, dtype or device.
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
    """Fill one tensor on every rank with the tensors of all ranks, concatenated or stacked along dimension 0.

    >>> output = tensor.empty(parallel.get_world_size() * 4)
    >>> parallel.all_gather_into_tensor(output, tensor.arange(4.0))

    Parameters
    ----------
    output_tensor : Tensor
        The output, ``(size * N, ...)`` or ``(size, N, ...)`` with ``size`` ranks in the group. Only the number of
        elements is checked.
    input_tensor : Tensor
        This rank's input, ``(N, ...)``, of the output's dtype and device.
    group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if the tensors differ in dtype or device, or the output has
        not ``size`` times the elements of the input.
    """
    check_tensor("all_gather_into_tensor", "output_tensor", output_tensor, written=True)
    check_tensor("all_gather_into_tensor", "input_tensor", input_tensor)
    check_same_dtype("all_gather_into_tensor", "output_tensor", output_tensor, input_tensor)
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
    """Reduce lists of tensors over all ranks, and leave each rank the tensor at its own index.

    >>> output = tensor.empty(3)
    >>> parallel.reduce_scatter(output, [tensor.ones(3)] * parallel.get_world_size())

    Parameters
    ----------
    output : Tensor
        The output: the reduction of ``input_list[r]`` of all ranks, where ``r`` is this rank in the group.
    input_list : list of Tensor
        One tensor for each rank of the group, of the output's shape, dtype and device.
    op, group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if ``input_list`` has not one tensor for each rank, or one
        differs from ``output`` in shape, dtype or device.
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
    """Reduce ``input`` over all ranks, and leave each rank its own chunk along dimension 0.

    >>> gradients = tensor.arange(4.0 * parallel.get_world_size())
    >>> shard = tensor.empty(4)
    >>> parallel.reduce_scatter_tensor(shard, gradients, op=parallel.ReduceOp.AVG)

    Parameters
    ----------
    output : Tensor
        The output, ``(N, ...)``: this rank's chunk of the reduction.
    input : Tensor
        The chunks of all ranks, ``(size * N, ...)`` or ``(size, N, ...)`` with ``size`` ranks in the group, of the
        output's dtype and device. Only the number of elements is checked.
    op, group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if the tensors differ in dtype or device, or the input has not
        ``size`` times the elements of the output.
    """
    check_tensor("reduce_scatter_tensor", "output", output, written=True)
    check_tensor("reduce_scatter_tensor", "input", input)
    check_same_dtype("reduce_scatter_tensor", "input", input, output)
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

    >>> x = tensor.full((2,), float(parallel.get_rank()))
    >>> size, on_root = parallel.get_world_size(), parallel.get_rank() == 0
    >>> outputs = [tensor.empty_like(x) for _ in range(size)] if on_root else None
    >>> parallel.gather(x, outputs, dst=0)

    Parameters
    ----------
    tensor : Tensor
        This rank's input, of one shape and dtype on all ranks.
    gather_list : list of Tensor, optional
        The output, on rank ``dst`` alone: one tensor for each rank of the group, of the shape, dtype and device of
        ``tensor``.
    dst, group_dst : int, optional
        The rank that gets the result, by its number in the job, or in the group; the group's first by default.
    group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if ``gather_list`` is missing on ``dst`` or passed elsewhere,
        and if it has not one tensor for each rank, or one differs from ``tensor`` in shape, dtype or device.
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
    """Send each rank one of the tensors that rank ``src`` has.

    >>> inputs = list(batch.chunk(2)) if parallel.get_rank() == 0 else None  # on two ranks  # doctest: +SKIP
    >>> parallel.scatter(share, inputs, src=0)  # doctest: +SKIP

    Parameters
    ----------
    tensor : Tensor
        The output: ``scatter_list[r]`` of rank ``src``, where ``r`` is this rank in the group.
    scatter_list : list of Tensor, optional
        The input, on rank ``src`` alone: one tensor for each rank of the group, of the shape, dtype and device of
        ``tensor``.
    src, group_src : int, optional
        The rank that sends, by its number in the job, or in the group; the group's first by default.
    group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if ``scatter_list`` is missing on ``src`` or passed
        elsewhere, and if it has not one tensor for each rank, or one differs from ``tensor`` in shape, dtype or
        device.
    """
    check_tensor("scatter", "tensor", tensor, written=True)
    process_group = member_of("scatter", group)
    if process_group is None:
        return None
    source = group_rank("scatter", process_group, "src", src, group_src, default=0)
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    input = None
    if backend.rank != source:
        if scatter_list:
            raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    elif not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    else:
        check_list("scatter", "scatter_list", scatter_list, tensor, backend.size)
        check_shapes("scatter", "scatter_list", scatter_list, tensor.shape)
        input = read_list(scatter_list)
    return exchange.finish(backend.scatter(exchange.filled(tensor), input, source), async_op)


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: Sequence[int] | None = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all ranks of the group have called this.

    With NCCL the host waits for the barrier on the device, and so for what the current stream holds.

    Parameters
    ----------
    group, async_op
        See :func:`parallel.all_reduce`.
    device_ids : list of int, optional
        Accepted for compatibility.
    timeout : timedelta, optional
        How long to wait, if shorter than the group's timeout.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError
        If ``device_ids`` is not a list.
    ValueError
        Before :func:`parallel.init_process_group`, and for a group that was destroyed.
    DistBackendError
        If a rank died or did not come in time. :func:`parallel.monitored_barrier` names the missing ranks.
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
