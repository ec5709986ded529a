"""The arguments that all operations of process groups share: the group, and ranks of it."""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING

from .process_groups import checked_group, is_member, job

if TYPE_CHECKING:
    from tensor import Tensor

    from .backend import Backend
    from .process_groups import Group, ProcessGroup


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
        found = operator.index(in_group)
        group.global_rank(found)
        return found
    if default is None:
        raise ValueError(f"{function}(): Must specify group_{name} or {name}")
    return default
