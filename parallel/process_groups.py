"""Process groups: the ranks of a job, and groups of them that exchange tensors."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from .group_backends import text_of

if TYPE_CHECKING:
    from datetime import timedelta

    import tensor

    from .backend import Backend
    from .group_backends import Connections
    from .stores import Store

_NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class ProcessGroup:
    """Ranks that exchange tensors. Made by :func:`init_process_group` and :func:`new_group`.

    Attributes
    ----------
    group_name : str
        Its name, the same on all ranks.
    group_desc : str
        What it was made for.
    ranks : tuple of int
        Its ranks' numbers in the job; a rank's place in it is its rank in the group.
    store : Store or None
        Keys of the group's own.
    timeout : timedelta
        How long an operation may take.
    bound_device_id : device or None
        Device of this rank, where it was named.
    """

    def __init__(
        self,
        name: str,
        description: str,
        ranks: tuple[int, ...],
        rank: int,
        backends: dict[str, Backend],
        names: dict[str, str],
        store: Store | None,
        timeout: timedelta,
        device: tensor.device | None,
    ) -> None:
        self.group_name = name
        self.group_desc = description
        self.ranks = ranks
        self.store = store
        self.timeout = timeout
        self.bound_device_id = device
        self.backend_names = names
        #: Checks of :func:`monitored_barrier` so far.
        self.monitored_barriers = 0
        self._rank = rank
        self._backends = backends
        self._group_ranks = {each: index for index, each in enumerate(ranks)}
        self._destroyed = False

    def __repr__(self) -> str:
        return f"<parallel.ProcessGroup {self.group_name!r}, {self.name()}, rank {self._rank} of {len(self.ranks)}>"

    def rank(self) -> int:
        """Rank of this process in the group."""
        return self._rank

    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    def name(self) -> str:
        """Name of the backend: ``"gloo"``, ``"mpi"``, ``"nccl"``, or a pair such as ``"cpu:gloo,cuda:nccl"``."""
        return text_of(self.backend_names)

    def backend_of(self, device_type: str) -> Backend:
        """What carries tensors of a type of device.

        Raises
        ------
        ValueError
            If the group was destroyed.
        RuntimeError
            If the group has no backend for them.
        """
        if self._destroyed:
            raise ValueError(f"Invalid process group specified or has been destroyed: {self!r}")
        found = self._backends.get(device_type)
        if found is None:
            raise RuntimeError(
                f"No backend type associated with device type {device_type}: {self!r} has {self.backend_names}; "
                "move the tensor, or make the group with backend='cpu:gloo,cuda:nccl' or 'gloo'"
            )
        return found

    def backends(self) -> list[Backend]:
        """All backends, each once."""
        return list({id(each): each for each in self._backends.values()}.values())

    def group_rank(self, global_rank: int) -> int:
        """A rank's number in the group.

        Raises
        ------
        ValueError
            If it is not in the group.
        """
        found = self._group_ranks.get(global_rank)
        if found is None:
            raise ValueError(
                f"Global rank {global_rank} is not part of group {self!r}, whose ranks are {list(self.ranks)}"
            )
        return found

    def global_rank(self, group_rank: int) -> int:
        """Number in the job of a rank of the group.

        Raises
        ------
        ValueError
            If there is none.
        """
        if not 0 <= group_rank < len(self.ranks):
            raise ValueError(
                f"Group rank {group_rank} is not part of group {self!r}, whose ranks are 0 to {len(self.ranks) - 1}"
            )
        return self.ranks[group_rank]

    def shutdown(self) -> None:
        """Finish what is queued and give everything back, as :func:`destroy_process_group` does. Idempotent."""
        self._destroyed = True
        for each in self.backends():
            each.close()

    def abort(self) -> None:
        """Give up what is queued, here and, once they hear of it, on the other ranks. Never blocks."""
        self._destroyed = True
        for each in self.backends():
            each.abort()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be copied or pickled: it is this process's part in the exchange")


class World:
    """What :func:`init_process_group` sets up.

    Attributes
    ----------
    default : ProcessGroup
        The group of all ranks.
    groups : list of ProcessGroup
        All that exist and have this rank, in the order in which they were made.
    """

    def __init__(
        self,
        connections: Connections,
        store: Store | None,
        owned_store: Store | None,
        default: ProcessGroup,
    ) -> None:
        self.connections = connections
        self.store = store
        self._owned_store = owned_store
        self.default = default
        self.groups = [default]
        #: Calls of new_group() so far, and how often with each set of ranks.
        self.calls = 0
        self.calls_of: dict[tuple[int, ...], int] = {}

    def end(self) -> None:
        """Destroy all groups, the default one last."""
        for each in reversed(self.groups):
            each.shutdown()
        self.connections.close()
        if self._owned_store is not None:
            self._owned_store.close()


class Job:
    """The world of this process, if it has one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.world: World | None = None

    def require(self) -> World:
        """The world.

        Raises
        ------
        ValueError
            Before :func:`init_process_group`.
        """
        found = self.world
        if found is None:
            raise ValueError(_NOT_INITIALIZED)
        return found


job = Job()


class _WorldMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802
        """The group of all ranks; None before :func:`init_process_group`."""
        return None if job.world is None else job.world.default


class group(metaclass=_WorldMeta):  # noqa: N801 - PyTorch's name
    """``group.WORLD`` is the group of all ranks."""


class GroupMember(metaclass=_WorldMeta):
    """What this rank is of a group."""

    #: What :func:`new_group` returns on ranks that it does not name.
    NON_GROUP_MEMBER = -100


#: What ``group=`` arguments may be.
Group = ProcessGroup | int | None


def is_member(given: Group) -> bool:
    """Whether this rank is in the group that a ``group=`` argument names."""
    return not (isinstance(given, int) and given == GroupMember.NON_GROUP_MEMBER)


def checked_group(given: Group) -> ProcessGroup:
    """The group that a ``group=`` argument names, of which this rank is a member.

    Raises
    ------
    ValueError
        Before :func:`init_process_group`, and for a group that was destroyed or does not have this rank.
    TypeError
        For what is no group.
    """
    world = job.require()
    if given is None:
        return world.default
    if isinstance(given, ProcessGroup):
        if given not in world.groups:
            raise ValueError(f"Invalid process group specified or has been destroyed: {given!r}")
        return given
    if not is_member(given):
        raise ValueError(
            f"Invalid process group specified: rank {world.connections.rank} is not a member of it"
        )
    raise TypeError(f"group is a ProcessGroup, or None for the default one, not {type(given).__name__}")


def is_available() -> bool:
    """Whether process groups can be used: always."""
    return True


def is_initialized() -> bool:
    """Whether :func:`init_process_group` was called, and the default group was not destroyed since."""
    return job.world is not None


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process, as ``python -m parallel.launch`` does."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_rank(group: Group = None) -> int:
    """Rank of this process in the group, by default among all; -1 if it is not a member.

    Raises
    ------
    ValueError
        Before :func:`init_process_group`.
    """
    job.require()
    return checked_group(group).rank() if is_member(group) else -1


def get_world_size(group: Group = None) -> int:
    """Number of ranks of the group, by default of the job; -1 if this rank is not a member."""
    job.require()
    return checked_group(group).size() if is_member(group) else -1


def get_backend(group: Group = None) -> str:
    """Name of the group's backend: ``"gloo"``, ``"mpi"``, ``"nccl"`` or a pair such as ``"cpu:gloo,cuda:nccl"``."""
    return checked_group(group).name()


def get_backend_config(group: Group = None) -> str:
    """The group's backends by types of devices, such as ``"cpu:gloo,cuda:gloo"``."""
    names = checked_group(group).backend_names
    return ",".join(f"{kind}:{name}" for kind, name in sorted(names.items()))


def get_global_rank(group: Group, group_rank: int) -> int:
    """A group's rank's number in the job; see :meth:`ProcessGroup.global_rank`."""
    return checked_group(group).global_rank(group_rank)


def get_group_rank(group: Group, global_rank: int) -> int:
    """A rank's number in the group; see :meth:`ProcessGroup.group_rank`."""
    return checked_group(group).group_rank(global_rank)


def get_process_group_ranks(group: Group) -> list[int]:
    """Numbers in the job of the group's ranks, in their order there."""
    return list(checked_group(group).ranks)


def get_pg_count() -> int:
    """Number of groups that have this rank."""
    return 0 if job.world is None else len(job.world.groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Rank of this process on its machine, as the launcher set it in ``LOCAL_RANK``.

    Raises
    ------
    RuntimeError
        If it is not set and there is no ``fallback_rank``.
    """
    found: Any = os.environ.get("LOCAL_RANK", fallback_rank)
    if found is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank, or starting the script with "
            "python -m parallel.launch"
        )
    return int(found)
