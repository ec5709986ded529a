"""``all_to_all``: every rank has something for every other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .exchanged import Exchange, check_kind, check_list, check_tensor, read, read_list
from .group_arguments import backend_for, member_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor

    from .process_groups import Group
    from .works import Work


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Send each rank a tensor, and receive one from each.

    Parameters
    ----------
    output_tensor_list : list of Tensor
        What comes, by rank of the group; each with as many elements as that rank sends.
    input_tensor_list : list of Tensor
        What goes, by rank.
    group, async_op
        See :func:`parallel.all_reduce`, also for errors.
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
    """Send each rank a part of ``input`` along dimension 0, and receive a part of ``output`` from each.

    Parameters
    ----------
    output, input : Tensor
        What comes and what goes, one rank's part after another.
    output_split_sizes, input_split_sizes : sequence of int, optional
        Sizes of the parts along dimension 0; equal ones by default.
    group, async_op
        See :func:`parallel.all_reduce`, also for errors.
    """
    check_tensor("all_to_all_single", "output", output, written=True)
    check_tensor("all_to_all_single", "input", input)
    check_kind("all_to_all_single", "output", output, input)
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


def _counts(name: str, given: Tensor, splits: Sequence[int] | None, size: int) -> list[int]:
    """Elements of the parts of a tensor."""
    length = given.shape[0] if given.dim() else 1
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
    row = given.numel() // length if length else 0
    return [each * row for each in splits]
