"""``all_to_all``: every rank has something for every other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import backend_for, check_list, check_same_dtype, check_tensor, member_of
from .marshalling import Exchange, read, read_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parallel.groups.process_groups import Group
    from parallel.groups.works import Work
    from tensor import Tensor


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Send each rank one tensor, and receive one from each: the transpose of a matrix of tensors over the ranks.

    >>> parallel.all_to_all(outputs, inputs)  # outputs[s] is inputs[r] of rank s, on rank r  # doctest: +SKIP

    Parameters
    ----------
    output_tensor_list : list of Tensor
        The output: at index ``s`` a tensor with as many elements as rank ``s`` of the group sends here. Sizes may
        differ, dtype and device may not.
    input_tensor_list : list of Tensor
        The input: at index ``s`` what rank ``s`` receives.
    group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if a list has not one tensor for each rank, or tensors differ
        in dtype or device; DistBackendError also if a rank sends another number of elements than is expected here,
        which NCCL does not notice.
    """
    process_group = member_of("all_to_all", group)
    if process_group is None:
        return None
    size = process_group.size()
    if isinstance(input_tensor_list, (list, tuple)) and input_tensor_list:
        check_tensor("all_to_all", "input_tensor_list[0]", input_tensor_list[0])
    like: Any = input_tensor_list[0] if input_tensor_list else None
    check_list("all_to_all", "input_tensor_list", input_tensor_list, like, size)
    check_list("all_to_all", "output_tensor_list", output_tensor_list, like, size, written=True)
    backend = backend_for(process_group, like)
    exchange = Exchange()
    work = backend.all_to_all(
        exchange.filled_list(output_tensor_list),
        read_list(input_tensor_list),
        [each.numel() for each in output_tensor_list],
        [each.numel() for each in input_tensor_list],
    )
    return exchange.finish(work, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Send each rank a slice of ``input`` along dimension 0, and receive a slice of ``output`` from each.

    >>> x = tensor.arange(4.0 * parallel.get_world_size())
    >>> output = tensor.empty_like(x)
    >>> parallel.all_to_all_single(output, x)  # equal slices
    >>> parallel.all_to_all_single(output, x, [1, 3], [2, 2])  # on rank 0 of two  # doctest: +SKIP

    Parameters
    ----------
    output : Tensor
        ``(M, ...)``: the slices that the ranks send here, in the order of the ranks.
    input : Tensor
        ``(N, ...)``: the slices to send, in the order of the ranks; of the output's dtype and device.
    output_split_sizes, input_split_sizes : sequence of int, optional
        Sizes of the slices along dimension 0, one for each rank, that sum to M and N; equal sizes by default.
    group, async_op
        See :func:`parallel.all_reduce`.

    Returns
    -------
    Work or None
        See :func:`parallel.all_reduce`.

    Raises
    ------
    TypeError, ValueError, RuntimeError, DistBackendError
        See :func:`parallel.all_reduce`. ValueError also if sizes do not sum to that of dimension 0, or without them it
        is not a multiple of the number of ranks; DistBackendError also if a rank sends another number of elements than
        is expected here, which NCCL does not notice.
    """
    check_tensor("all_to_all_single", "output", output, written=True)
    check_tensor("all_to_all_single", "input", input)
    check_same_dtype("all_to_all_single", "output", output, input)
    process_group = member_of("all_to_all_single", group)
    if process_group is None:
        return None
    size = process_group.size()
    output_counts = _counts("output", output, output_split_sizes, size)
    input_counts = _counts("input", input, input_split_sizes, size)
    backend = backend_for(process_group, input)
    exchange = Exchange()
    work = backend.all_to_all(exchange.filled(output), read(input), output_counts, input_counts)
    return exchange.finish(work, async_op)


def _counts(name: str, tensor: Tensor, splits: Sequence[int] | None, size: int) -> list[int]:
    """Elements of the slices of a tensor."""
    length = tensor.shape[0] if tensor.dim() else 1
    if splits is None or len(splits) == 0:
        if length % size:
            raise ValueError(
                f"all_to_all_single(): {name} tensor's dim 0 of size {length} does not divide equally across group "
                f"size {size}: pass {name}_split_sizes"
            )
        splits = [length // size] * size
    if len(splits) != size:
        raise ValueError(
            f"all_to_all_single(): Number of tensor splits not equal to group size: {name}_split_sizes has "
            f"{len(splits)}, the group {size} ranks"
        )
    if sum(splits) != length or min(splits) < 0:
        raise ValueError(
            f"all_to_all_single(): Split sizes doesn't match total dim 0 size: {name} has {length}, "
            f"{name}_split_sizes are {list(splits)}"
        )
    row = tensor.numel() // length if length else 0
    return [each * row for each in splits]
