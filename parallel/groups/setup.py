"""``init_process_group``, ``new_group``, ``destroy_process_group``: how groups come and go."""

from __future__ import annotations

import operator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import tensor as tensors
from parallel.backends.selection import Connections, backends_by_device, text_of

from .errors import DistBackendError
from .process_groups import GroupMember, ProcessGroup, World, checked_group, is_member, job
from .rendezvous import rendezvous
from .stores.store import PrefixStore, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .process_groups import Group

default_pg_timeout = timedelta(minutes=30)
"""How long an operation may take unless the group was created with another ``timeout``."""
_NCCL_TIMEOUT = timedelta(minutes=10)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: tensors.device | int | None = None,
) -> None:
    """Join the other processes of the job, all of which call this, and make the default group of all ranks.

    The processes of a job trust each other: what one sends as an object, the others unpickle. Where the environment
    variable GRAPHROOT_JOB_SECRET is set, which ``graphroot launch`` and :func:`parallel.spawn` do, only
    processes with the same value take part; without it, everybody who reaches their ports can (docs/distributed.md).

    Under ``graphroot launch`` no argument is needed:

    >>> parallel.init_process_group()  # doctest: +SKIP
    >>> parallel.get_rank(), parallel.get_world_size()  # doctest: +SKIP
    (0, 2)

    Without a launcher each process says who it is:

    >>> parallel.init_process_group(  # doctest: +SKIP
    ...     "gloo", init_method="tcp://10.0.0.1:29500", rank=0, world_size=2, timeout=timedelta(minutes=5)
    ... )

    Parameters
    ----------
    backend : str, optional
        ``"nccl"`` for GPUs, ``"gloo"`` for the CPU (CUDA tensors go through pinned memory), ``"mpi"``, or one for each
        type of device, such as ``"cpu:gloo,cuda:nccl"``, which is the default on machines with GPUs; else it is
        ``"gloo"``.
    init_method : str, optional
        Where the processes meet: ``"env://"`` (the default; variables MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, or
        what ``mpiexec`` and ``srun`` say where one is not set),
        ``"tcp://host:port"``, where rank 0 serves a store, or ``"file:///path"`` on a file system that all share.
    timeout : timedelta, optional
        How long operations of the group may take, and how long to wait for the other processes now; 30 minutes by
        default, 10 for NCCL alone.
    world_size, rank : int
        How many processes there are, and this one's number; needed with ``store``, else where ``init_method`` does
        not say.
    store : Store, optional
        Where the processes meet, instead of ``init_method``.
    group_name : str
        A name for the default group.
    pg_options
        Accepted for compatibility.
    device_id : device or int, optional
        This process's GPU, for NCCL; by default that of the first tensor.

    Raises
    ------
    TypeError
        If ``timeout`` is not a timedelta, or ``backend`` not a string.
    ValueError
        If there is a default group already, and for arguments that are missing, unknown or contradict each other.
    DistNetworkError, DistStoreError
        If the store cannot be reached, or the other processes do not come in time; every process names those that are
        missing.
    DistBackendError
        If the ranks ask for different backends, do not have the same job secret, or cannot connect.
    ImportError, RuntimeError
        If the backend cannot be used here, such as ``"mpi"`` without mpi4py, or ``"nccl"`` with simulated devices.
    """
    with job.lock:
        if job.world is not None:
            raise ValueError("trying to initialize the default process group twice!")
        names = backends_by_device(backend)
        timeout = _checked_timeout(timeout, names)
        device = _checked_device(device_id)
        if store is not None and init_method is not None:
            raise ValueError("Cannot specify both init_method and store.")
        owns_store = store is None
        communicator = None
        if "mpi" in names.values() and store is None and init_method is None:
            communicator, rank, world_size = _mpi_world(rank, world_size, timeout)
            if set(names.values()) != {"mpi"}:
                raise ValueError(
                    f"backend {backend!r}: next to 'mpi', the other one meets in a store: pass init_method= or store="
                )
        elif store is None:
            store, rank, world_size = rendezvous(init_method or "env://", rank, world_size, timeout)
            store.set_timeout(timeout)
        elif not 0 <= rank < world_size:
            raise ValueError(
                f"with store=, rank and world_size are needed, and 0 <= rank < world_size; got rank={rank}, "
                f"world_size={world_size}"
            )
        if "mpi" in names.values() and communicator is None:
            communicator, rank, world_size = _mpi_world(rank, world_size, timeout)
        shared = store
        if shared is not None:
            # A store may outlive a job, and serve the next one.
            generation = shared.add(f"init_process_group/{rank}", 1)
            store = PrefixStore(f"{group_name or 'default_pg'} {generation}", shared)
        connections = Connections(store, rank, world_size, communicator)
        try:
            if store is not None:
                _agree(store, "init_process_group", f"backend {text_of(names)} for {world_size} ranks", rank)
            group = _make_group(
                connections,
                names,
                group_name or "0",
                "default_pg",
                tuple(range(world_size)),
                store,
                timeout,
                device,
            )
        except BaseException:
            connections.abort()
            if owns_store and shared is not None:
                shared.close()
            raise
        job.world = World(connections, store, shared if owns_store else None, group)


def new_group(
    ranks: Iterable[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: tensors.device | int | None = None,
    sort_ranks: bool = True,
) -> ProcessGroup | int:
    """Make a group of some of the ranks. All ranks of the job call this, in the same order.

    >>> even = parallel.new_group([0, 2])  # doctest: +SKIP
    >>> if parallel.get_rank() in (0, 2):  # doctest: +SKIP
    ...     parallel.all_reduce(x, group=even)

    Parameters
    ----------
    ranks : iterable of int, optional
        The members, by their numbers in the job; all by default.
    timeout : timedelta, optional
        How long operations of the group may take; the default group's by default.
    backend : str, optional
        See :func:`parallel.init_process_group`; the default group's by default.
    pg_options
        Accepted for compatibility.
    use_local_synchronization : bool
        Whether only the members call this.
    group_desc : str, optional
        A description for messages.
    device_id : device or int, optional
        This process's GPU, for NCCL.
    sort_ranks : bool
        Whether members are numbered in the order of their numbers in the job; else in that of ``ranks``.

    Returns
    -------
    ProcessGroup or int
        The group; ``GroupMember.NON_GROUP_MEMBER`` on ranks that are not in it.

    Raises
    ------
    TypeError
        If ``timeout`` is not a timedelta, or a rank not an integer.
    ValueError
        Before :func:`parallel.init_process_group`, if ``ranks`` is empty or has numbers that do not exist or come
        twice, and for an unknown backend.
    DistBackendError
        If ranks call this with different members or backends, or cannot connect in time.
    """
    with job.lock:
        world = job.require()
        connections = world.connections
        names = world.default.backend_names if backend is None else backends_by_device(backend)
        timeout = world.default.timeout if timeout is None and backend is None else timeout
        timeout = _checked_timeout(timeout, names)
        device = _checked_device(device_id) or world.default.bound_device_id
        members = _checked_ranks(ranks, connections.size, sort_ranks)
        if use_local_synchronization:
            if connections.rank not in members:
                return GroupMember.NON_GROUP_MEMBER
            # Named by its members, since the others do not count this call.
            number = world.calls_of.get(members, 0)
            world.calls_of[members] = number + 1
            name = f"{'-'.join(map(str, members))}#{number}"
            connections.check_connected(names)
        else:
            world.calls += 1
            name = str(world.calls)
            if world.store is not None:
                asked = f"ranks {list(members)}, backend {text_of(names)}"
                _agree(world.store, f"new_group {name}", asked, connections.rank)
            if "gloo" in names.values():
                connections.connect(timeout)
        if connections.rank not in members:
            return GroupMember.NON_GROUP_MEMBER
        store = None if world.store is None else PrefixStore(f"group {name}", world.store)
        process_group = _make_group(
            connections, names, name, group_desc or "undefined", members, store, timeout, device
        )
        world.groups.append(process_group)
        return process_group


def destroy_process_group(group: Group = None) -> None:
    """Finish the group's operations and release its threads and connections; by default those of all groups.

    All members call this once they have no operation left that others wait for. Of the default group this waits for what
    :func:`parallel.checkpoint.async_save` still writes, and :func:`parallel.init_process_group` may be called again after it.

    Parameters
    ----------
    group : ProcessGroup, optional
        The group; the default group, and with it all others, by default.

    Raises
    ------
    ValueError
        Before :func:`parallel.init_process_group`, and if the group was destroyed already.
    """
    if not is_member(group):
        return
    world = job.require()
    if checked_group(group) is world.default:
        world.await_under_way()
    with job.lock:
        world = job.require()
        process_group = checked_group(group)
        if process_group is world.default:
            job.world = None
            world.end()
        else:
            world.groups.remove(process_group)
            process_group.shutdown()


def abort_process_group(group: Group = None) -> None:
    """Give up the group's operations without waiting; by default those of all groups. They fail with DistBackendError.

    Parameters
    ----------
    group : ProcessGroup, optional
        The group; the default group, and with it all others, by default.

    Raises
    ------
    ValueError
        Before :func:`parallel.init_process_group`, and if the group was destroyed already.
    """
    if not is_member(group):
        return
    with job.lock:
        world = job.require()
        process_group = checked_group(group)
        if process_group is not world.default:
            world.groups.remove(process_group)
            process_group.abort()
            return
        job.world = None
        for each in reversed(world.groups):
            each.abort()
        world.connections.abort()
        world.end()


def _make_group(
    connections: Connections,
    names: dict[str, str],
    name: str,
    description: str,
    ranks: tuple[int, ...],
    store: Store | None,
    timeout: timedelta,
    device: tensors.device | None,
) -> ProcessGroup:
    if "gloo" in names.values():
        connections.connect(timeout)
    backends = connections.backends(names, name, ranks, store, timeout, device)
    rank = ranks.index(connections.rank)
    return ProcessGroup(name, description, ranks, rank, backends, names, store, timeout, device)


def _agree(store: Store, call: str, asked: str, rank: int) -> None:
    """Check that all ranks ask for the same; the first one's word stands.

    Raises
    ------
    DistBackendError
        On ranks that ask for something else.
    """
    # TCPStore's compare_set() leaves a key alone that is missing, unless "" is expected.
    agreed = store.compare_set(f"agreed/{call}", "", f"{asked} (rank {rank})").decode()
    if agreed.rpartition(" (")[0] != asked:
        raise DistBackendError(
            f"{call}: ranks ask for different groups: rank {rank} for {asked}, another for {agreed}"
        )


def _mpi_world(rank: int, world_size: int, timeout: timedelta) -> tuple[Any, int, int]:
    """MPI's communicator of all ranks, this rank and their number."""
    # mpi4py, which it needs, is an optional package.
    from parallel.backends.mpi.process import world

    communicator = world(timeout)
    actual = communicator.Get_rank(), communicator.Get_size()
    for name, argument, value in zip(("rank", "world_size"), (rank, world_size), actual, strict=True):
        if argument not in (-1, value):
            raise ValueError(
                f"{name}={argument} was given, and MPI says {value}: leave it out, or start the processes with mpiexec"
            )
    return communicator, *actual


def _checked_timeout(timeout: timedelta | None, names: dict[str, str]) -> timedelta:
    if timeout is None:
        return _NCCL_TIMEOUT if set(names.values()) == {"nccl"} else default_pg_timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, not {timeout!r}")
    if timeout <= timedelta(0):
        raise ValueError(f"timeout has to be positive, got {timeout}")
    return timeout


def _checked_device(argument: tensors.device | int | None) -> tensors.device | None:
    if argument is None:
        return None
    device = tensors.device("cuda", argument) if type(argument) is int else tensors.device(argument)
    if device.type == "cuda" and device.index is None:
        raise ValueError(f"device_id names one device, with its index, as 'cuda:0' does; got {argument!r}")
    return device


def _checked_ranks(argument: Iterable[int] | None, size: int, sort: bool) -> tuple[int, ...]:
    if argument is None:
        return tuple(range(size))
    ranks: Sequence[int] = [operator.index(each) for each in argument]
    if not ranks:
        raise ValueError("new_group(): ranks is empty: a group has members; leave it out for all ranks")
    for each in ranks:
        if not 0 <= each < size:
            raise ValueError(
                f"Rank {each} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
            )
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"ranks list must not contain duplicate entries, got {list(ranks)}")
    return tuple(sorted(ranks) if sort else ranks)
