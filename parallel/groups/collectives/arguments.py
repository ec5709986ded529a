"""Arguments of the operations of process groups, checked: the group, ranks of it, tensors and reductions."""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING

from parallel.groups.process_groups import checked_group, is_member, job
from parallel.groups.reduce_op import ReduceOp
from tensor import Tensor
from tensor.core.plans.copies import check_no_overlap

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tensor as tensors
    from parallel.backends.backend import Backend
    from parallel.groups.process_groups import Group, ProcessGroup

_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def member_of(function: str, group: Group) -> ProcessGroup | None:
    """The group of an operation; None, with a warning, where this rank is not in it.

    Raises
    ------
    ValueError
        If there is no such group.
    """
    world = job.require()
    if is_member(group):
        return checked_group(group)
    warnings.warn(
        f"Running {function} on global rank {world.connections.rank} which does not belong to the given group: "
        "nothing is done here",
        stacklevel=3,
    )
    return None


def backend_for(group: ProcessGroup, tensor: Tensor) -> Backend:
    """What carries ``tensor`` in the group."""
    return group.backend_of(tensor.device.type)


def group_rank(
    function: str,
    group: ProcessGroup,
    name: str,
    rank: int | None,
    in_group: int | None,
    default: int | None = None,
) -> int:
    """Rank in the group that a pair of arguments such as ``dst`` and ``group_dst`` names.

    Parameters
    ----------
    name : str
        The first one's name.
    rank, in_group : int or None
        A rank in the job, or in the group.
    default : int, optional
        Rank in the group that is meant where neither is given.

    Raises
    ------
    ValueError
        If both are given or none, or the group has no such rank.
    """
    if rank is not None and in_group is not None:
        raise ValueError(f"{function}(): Can't specify both group_{name} and {name}")
    if rank is not None:
        return group.group_rank(operator.index(rank))
    if in_group is not None:
        result = operator.index(in_group)
        group.global_rank(result)
        return result
    if default is None:
        raise ValueError(f"{function}(): Must specify group_{name} or {name}")
    return default


def supports_complex(op: ReduceOp) -> bool:
    """Whether complex tensors can be reduced with ``op``, a :class:`parallel.ReduceOp`.

    True for SUM and AVG, which act on real and imaginary parts apart; there is no order of complex numbers, and no bits.
    """
    return op in (ReduceOp.SUM, ReduceOp.AVG)


def check_op(function: str, op: ReduceOp, dtype: tensors.dtype) -> None:
    """Check that elements of ``dtype`` can be combined with ``op``.

    Raises
    ------
    TypeError
        For what is no ReduceOp.
    ValueError
        If they cannot.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{function}(): op is a parallel.ReduceOp, not {op!r}")
    if dtype.is_complex and not supports_complex(op):
        raise ValueError(f"{function} does not support {op} on complex tensors: only SUM and AVG")
    if op in _BITWISE and dtype.is_floating_point:
        raise ValueError(f"{function}: Cannot use {op} with non-integral dtype {dtype}")
    if op is ReduceOp.AVG and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"{function}: {op} is for floating point and complex tensors, not for {dtype}: use SUM and divide"
        )


def check_tensor(function: str, name: str, argument: Tensor, *, written: bool = False) -> None:
    """Check that an argument is a tensor, and one that can be ``written``.

    Raises
    ------
    TypeError
        If it is none.
    RuntimeError
        If it is written and its elements share memory.
    """
    if not isinstance(argument, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of {function}() of type Tensor but got "
            f"{type(argument)} instead."
        )
    if written:
        check_no_overlap(argument._layout)


def check_list(
    function: str, name: str, argument: Sequence[Tensor], like: Tensor, size: int, *, written: bool = False
) -> None:
    """Check that an argument is a list of one tensor for each of ``size`` ranks, of the dtype and device of ``like``.

    Raises
    ------
    TypeError, ValueError
        If it is not; shapes are not looked at.
    """
    if not isinstance(argument, (list, tuple)):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of {function}() of type list[Tensor] but got "
            f"{type(argument)} instead."
        )
    for index, each in enumerate(argument):
        check_tensor(function, f"{name}[{index}]", each, written=written)
    if len(argument) != size:
        raise ValueError(f"{function}(): {name} has {len(argument)} tensors, and the group {size} ranks")
    for index, each in enumerate(argument):
        check_same_dtype(function, f"{name}[{index}]", each, like)


def check_same_dtype(function: str, name: str, argument: Tensor, like: Tensor) -> None:
    """Check that two tensors have one dtype and one device.

    Raises
    ------
    ValueError
        If they have not.
    """
    if argument.dtype is not like.dtype:
        raise ValueError(
            f"Invalid usage of tensors with different dtypes: {function}() was given {like.dtype}, and {name} is "
            f"{argument.dtype}"
        )
    if argument.device != like.device:
        raise ValueError(
            f"{function}(): all tensors are on one device, got {like.device}, and {name} is on {argument.device}"
        )


def check_shapes(function: str, name: str, argument: Sequence[Tensor], shape: Sequence[int]) -> None:
    """Check that all tensors of a list have one shape.

    Raises
    ------
    ValueError
        If one has not.
    """
    for index, each in enumerate(argument):
        if tuple(each.shape) != tuple(shape):
            raise ValueError(
                f"{function}(): invalid tensor size at index {index} of {name} (expected {tuple(shape)}, got "
                f"{tuple(each.shape)})"
            )
