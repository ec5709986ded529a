"""Groups that divide the ranks among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor as tensors

from .process_groups import GroupMember, get_process_group_ranks, job
from .setup import new_group

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from .process_groups import Group, ProcessGroup


def new_subgroups(
    group_size: int | None = None,
    group: Group = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | int, list[ProcessGroup | int]]:
    """Divide the ranks into groups of neighbours, as those of one machine are.

    Parameters
    ----------
    group_size : int, optional
        Ranks in each; the number of this machine's GPUs by default.
    group : ProcessGroup, optional
        What is divided; all ranks by default.
    timeout, backend, pg_options, group_desc
        See :func:`new_group`.

    Returns
    -------
    tuple
        The group that this rank is in, and a list of all; see :func:`new_group` for those that it is not in.

    Raises
    ------
    ValueError
        If the size is not positive, or does not divide the number of ranks.
    """
    job.require()
    if group_size is None:
        if not tensors.cuda.is_available():
            raise ValueError("Default group size only takes effect when CUDA is available: pass group_size=")
        group_size = tensors.cuda.device_count()
    ranks = get_process_group_ranks(group)
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if len(ranks) % group_size:
        raise ValueError(f"The world size ({len(ranks)}) must be divisible by group_size={group_size}")
    subgroups = [ranks[start : start + group_size] for start in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(subgroups, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | int, list[ProcessGroup | int]]:
    """Make a group of each list of ranks. All ranks of the job call this.

    Parameters
    ----------
    ranks_per_subgroup_list : list of list of int
        The members of each; no rank is in two.
    timeout, backend, pg_options, group_desc
        See :func:`new_group`.

    Returns
    -------
    tuple
        The group that this rank is in (``GroupMember.NON_GROUP_MEMBER`` if none), and a list of all.

    Raises
    ------
    ValueError
        If there are no lists, or a rank is in two.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        twice = seen.intersection(ranks)
        if twice:
            raise ValueError(f"Rank {min(twice)} has appeared in both subgroups: a rank is in one at most")
        seen.update(ranks)
    own: ProcessGroup | int = GroupMember.NON_GROUP_MEMBER
    groups: list[ProcessGroup | int] = []
    for ranks in ranks_per_subgroup_list:
        subgroup = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(subgroup)
        if not isinstance(subgroup, int):
            own = subgroup
    return own, groups
