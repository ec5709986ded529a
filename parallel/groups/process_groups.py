"""Process groups: the ranks of a job, and groups of ranks that run collectives."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from parallel.backends.selection import text_of
from tensor.core import parameter_casts

from .process_managers import started
from .rendezvous import leave

if TYPE_CHECKING:
    from concurrent.futures import Future
    from datetime import timedelta

    import tensor
    from parallel.backends.backend import Backend
    from parallel.backends.selection import Connections

    from .stores.store import Store

_NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class ProcessGroup:
    """Ranks that run collectives together, as :func:`parallel.new_group` returns them; ``group=`` arguments take it.

    :func:`parallel.init_process_group` and :func:`parallel.new_group` construct them: programs do not. It cannot be
    copied or pickled: that raises TypeError.

    Attributes
    ----------
    group_name : str
        Its name, the same on all ranks.
    group_desc : str
        A description, for messages.
    ranks : tuple of int
        Its ranks' numbers in the job; a rank's index here is its rank in the group.
    store : Store or None
        A store whose keys are the group's own; None with ``mpi`` alone.
    timeout : timedelta
        How long an operation may take.
    bound_device_id : device or None
        This rank's device, if ``device_id`` was passed.
    backend_names : dict of str to str
        Names of the backends, by types of devices: ``{"cpu": "gloo", "cuda": "nccl"}``.

    Parameters
    ----------
    name, description, ranks, store, timeout, device
        The attributes ``group_name``, ``group_desc``, ..., ``bound_device_id``.
    rank : int
        This process's rank in the group.
    backends, names : dict
        The backends, and their names, by types of devices.
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
        """Rank of this process in the group, from 0."""
        return self._rank

    def size(self) -> int:
        """Number of ranks in the group."""
        return len(self.ranks)

    def name(self) -> str:
        """Name of the backend: ``"gloo"``, ``"mpi"``, ``"nccl"``, or a pair such as ``"cpu:gloo,cuda:nccl"``."""
        return text_of(self.backend_names)

    def backend_of(self, device_type: str) -> Backend:
        """The backend that carries tensors of a type of device: ``device_type`` is ``"cpu"`` or ``"cuda"``.

        Raises
        ------
        ValueError
            If the group was destroyed.
        RuntimeError
            If the group has no backend for them.
        """
        if self._destroyed:
            raise ValueError(f"Invalid process group specified or has been destroyed: {self!r}")
        backend = self._backends.get(device_type)
        if backend is None:
            raise RuntimeError(
                f"No backend type associated with device type {device_type}: {self!r} has {self.backend_names}; "
                "move the tensor, or make the group with backend='cpu:gloo,cuda:nccl' or 'gloo'"
            )
        return backend

    def backends(self) -> list[Backend]:
        """The group's backends, each once, also where one carries several types of devices.

        A new list.
        """
        return list({id(each): each for each in self._backends.values()}.values())

    def group_rank(self, global_rank: int) -> int:
        """The rank in the group of the rank with number ``global_rank`` in the job.

        Raises
        ------
        ValueError
            If it is not in the group.
        """
        rank = self._group_ranks.get(global_rank)
        if rank is None:
            raise ValueError(
                f"Global rank {global_rank} is not part of group {self!r}, whose ranks are {list(self.ranks)}"
            )
        return rank

    def global_rank(self, group_rank: int) -> int:
        """The number in the job of the rank ``group_rank`` of the group.

        Raises
        ------
        ValueError
            If ``group_rank`` is negative, or not less than :meth:`size`.
        """
        if not 0 <= group_rank < len(self.ranks):
            raise ValueError(
                f"Group rank {group_rank} is not part of group {self!r}, whose ranks are 0 to {len(self.ranks) - 1}"
            )
        return self.ranks[group_rank]

    def shutdown(self) -> None:
        """Finish what is queued and release threads and connections. Idempotent.

        :func:`parallel.destroy_process_group` calls it, and also takes the group off the list of groups that exist.
        """
        self._destroyed = True
        for each in self.backends():
            each.close()

    def abort(self) -> None:
        """Give up what is queued, here and, once they hear of it, on the other ranks. Never blocks.

        Operations that are given up raise DistBackendError from :meth:`Work.wait`.
        """
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
    under_way : set of concurrent.futures.Future
        What threads of this process do with groups in the background.
    """

    def __init__(
        self,
        connections: Connections,
        store: Store | None,
        owned_store: Store | None,
        default: ProcessGroup,
    ) -> None:
        parameter_casts.group_of_processes_begins()
        self.connections = connections
        self.store = store
        self._owned_store = owned_store
        self.default = default
        self.groups = [default]
        self.under_way: set[Future[Any]] = set()
        #: Calls of new_group() so far, and how often with each set of ranks.
        self.calls = 0
        self.calls_of: dict[tuple[int, ...], int] = {}

    def add_under_way(self, future: Future[Any]) -> None:
        """Have what ends with ``future`` be waited for before groups are destroyed."""
        self.under_way.add(future)
        future.add_done_callback(self.under_way.discard)

    def await_under_way(self) -> None:
        """Wait for all that was added, whether or not it fails."""
        for each in tuple(self.under_way):
            each.exception()

    def end(self) -> None:
        """Destroy all groups, the default one last."""
        for each in reversed(self.groups):
            each.shutdown()
        self.connections.close()
        if self._owned_store is not None:
            leave(self._owned_store)


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
        world = self.world
        if world is None:
            raise ValueError(_NOT_INITIALIZED)
        return world


job = Job()


class _WorldMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802
        """The group of all ranks; None before :func:`init_process_group`."""
        return None if job.world is None else job.world.default


class group(metaclass=_WorldMeta):  # noqa: N801 - PyTorch's name
    """``group.WORLD`` is the :class:`ProcessGroup` of all ranks.

    It is None before :func:`parallel.init_process_group`, and after :func:`parallel.destroy_process_group`.
    """


class GroupMember(metaclass=_WorldMeta):
    """Constants for ``group=`` arguments.

    ``GroupMember.WORLD`` is the group of all ranks, None before :func:`parallel.init_process_group`.
    ``GroupMember.NON_GROUP_MEMBER`` stands for a group that does not have this rank.
    """

    #: What :func:`new_group` returns on ranks that it does not name.
    NON_GROUP_MEMBER = -100


#: What ``group=`` arguments may be.
Group = ProcessGroup | int | None


def is_member(group: Group) -> bool:
    """Whether this rank is in the group that a ``group=`` argument names."""
    return not (isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER)


def checked_group(group: Group) -> ProcessGroup:
    """The group that a ``group=`` argument names, of which this rank is a member.

    Raises
    ------
    ValueError
        Before :func:`init_process_group`, and for a group that was destroyed or does not have this rank.
    TypeError
        For what is no group.
    """
    world = job.require()
    if group is None:
        return world.default
    if isinstance(group, ProcessGroup):
        if group not in world.groups:
            raise ValueError(f"Invalid process group specified or has been destroyed: {group!r}")
        return group
    if not is_member(group):
        raise ValueError(
            f"Invalid process group specified: rank {world.connections.rank} is not a member of it"
        )
    raise TypeError(f"group is a ProcessGroup, or None for the default one, not {type(group).__name__}")


def is_available() -> bool:
    """Whether process groups can be used in this installation: always True."""
    return True


def is_initialized() -> bool:
    """Whether :func:`parallel.init_process_group` was called, and the default group has not been destroyed since."""
    return job.world is not None


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process: ``graphroot launch`` or ``torchrun``, by TORCHELASTIC_RUN_ID."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_rank(group: Group = None) -> int:
    """Rank of this process in the group, by default in the job; -1 if it is not a member.

    Raises
    ------
    ValueError
        Before :func:`parallel.init_process_group`, and for a group that was destroyed.
    """
    job.require()
    return checked_group(group).rank() if is_member(group) else -1


def get_world_size(group: Group = None) -> int:
    """Number of ranks of the group, by default of the job; -1 if this rank is not a member.

    Raises
    ------
    ValueError
        Before :func:`parallel.init_process_group`, and for a group that was destroyed.
    """
    job.require()
    return checked_group(group).size() if is_member(group) else -1


def get_backend(group: Group = None) -> str:
    """Name of the group's backend: ``"gloo"``, ``"mpi"``, ``"nccl"`` or a pair such as ``"cpu:gloo,cuda:nccl"``.

    Raises
    ------
    ValueError
        Before :func:`parallel.init_process_group`, and if this rank is not in the group or it was destroyed.
    """
    return checked_group(group).name()


def get_backend_config(group: Group = None) -> str:
    """The group's backends by types of devices, as text: ``"cpu:gloo,cuda:gloo"``.

    Raises
    ------
    ValueError
        As :func:`parallel.get_backend`.
    """
    names = checked_group(group).backend_names
    return ",".join(f"{device_type}:{name}" for device_type, name in sorted(names.items()))


def get_global_rank(group: Group, group_rank: int) -> int:
    """Number in the job of rank ``group_rank`` of the group.

    Raises
    ------
    ValueError
        If the group has no such rank, and as :func:`parallel.get_backend`.
    """
    return checked_group(group).global_rank(group_rank)


def get_group_rank(group: Group, global_rank: int) -> int:
    """Rank in the group of rank ``global_rank`` of the job.

    Raises
    ------
    ValueError
        If it is not in the group, and as :func:`parallel.get_backend`.
    """
    return checked_group(group).group_rank(global_rank)


def get_process_group_ranks(group: Group) -> list[int]:
    """Numbers in the job of the group's ranks, in their order in the group. The default group's for ``group=None``.

    Raises
    ------
    ValueError
        As :func:`parallel.get_backend`.
    """
    return list(checked_group(group).ranks)


def get_pg_count() -> int:
    """Number of groups that have this rank, the default one included; 0 before :func:`parallel.init_process_group`."""
    return 0 if job.world is None else len(job.world.groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Rank of this process on its machine, as the launcher set it in ``LOCAL_RANK``, or as ``mpiexec`` or ``srun`` says.

    Raises
    ------
    RuntimeError
        If nothing says it and there is no ``fallback_rank``.
    """
    rank: Any = os.environ.get("LOCAL_RANK")
    if rank is None and (by_manager := started()) is not None:
        rank = by_manager.local_rank
    if rank is None:
        rank = fallback_rank
    if rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank, or starting the script with "
            "graphroot launch, mpiexec or srun"
        )
    return int(rank)
