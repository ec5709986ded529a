"""How ranks find each other: from the ``init_method`` of a process group to a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from .errors import DistNetworkError, DistStoreError
from .process_managers import started
from .stores import tcp_store
from .stores.file_store import FileStore
from .stores.store import DEFAULT_TIMEOUT, Store
from .stores.tcp_store import TCPStore

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from datetime import timedelta
    from urllib.parse import SplitResult


def rendezvous(
    init_method: str, rank: int = -1, world_size: int = -1, timeout: timedelta = DEFAULT_TIMEOUT
) -> tuple[Store, int, int]:
    """A store that all ranks share, this process's rank, and their number.

    Parameters
    ----------
    init_method
        ``"env://"``: the variables MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, or what ``mpiexec`` or ``srun`` says where
        one is not set; ``"tcp://host:port"``: rank 0 serves
        a store there; ``"file:///path"``: a file that all ranks can reach and that does not exist yet. Each may
        end in ``?rank=R&world_size=N``.
    rank, world_size
        The caller's arguments, or -1; it precedes the variables, and must not contradict the URL.

    Raises
    ------
    ValueError
        A part is missing, is not a number, or contradicts another.
    DistNetworkError, DistStoreError
        The store cannot be made or reached.
    """
    if not isinstance(init_method, str):
        raise TypeError(f"init_method is a string, not {type(init_method).__name__}")
    url = urlsplit(init_method)
    handler = _HANDLERS.get(url.scheme)
    if handler is None:
        known = ", ".join(f"{scheme}://" for scheme in _HANDLERS)
        raise ValueError(f"init_method is one of {known}, not {init_method!r}")
    query = _query(url, init_method)
    rank = _agreed("rank", rank, query.get("rank"), init_method)
    world_size = _agreed("world_size", world_size, query.get("world_size"), init_method)
    return handler(url, init_method, rank, world_size, timeout)


def _from_environment(
    url: SplitResult, init_method: str, rank: int, world_size: int, timeout: timedelta
) -> tuple[Store, int, int]:
    if url.netloc or url.path:
        raise ValueError(
            f"env:// takes its address from MASTER_ADDR and MASTER_PORT, not from {init_method!r}"
        )
    variables = {
        name: os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    }
    by_manager = started()
    if by_manager is not None:
        variables["RANK"] = variables["RANK"] or str(by_manager.rank)
        variables["WORLD_SIZE"] = variables["WORLD_SIZE"] or str(by_manager.size)
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not variables[name]]
    if missing and by_manager is not None:
        host, port = by_manager.address(timeout)
        variables["MASTER_ADDR"] = variables["MASTER_ADDR"] or host
        variables["MASTER_PORT"] = variables["MASTER_PORT"] or str(port)
        missing = []
    missing += [
        f"{name} (or the argument {name.lower()})"
        for name, value in (("RANK", rank), ("WORLD_SIZE", world_size))
        if value < 0 and not variables[name]
    ]
    if missing:
        raise ValueError(
            f"init_method env:// needs the environment variables {', '.join(missing)}; graphroot launch sets "
            f"all of them, and mpiexec and srun say the like"
        )
    rank = rank if rank >= 0 else _number("the environment variable RANK", variables["RANK"])
    if world_size < 0:
        world_size = _number("the environment variable WORLD_SIZE", variables["WORLD_SIZE"])
    _check_rank(rank, world_size, init_method)
    port = _number("the environment variable MASTER_PORT", variables["MASTER_PORT"])
    return _tcp_store(variables["MASTER_ADDR"], port, rank, world_size, timeout), rank, world_size


def _from_tcp(
    url: SplitResult, init_method: str, rank: int, world_size: int, timeout: timedelta
) -> tuple[Store, int, int]:
    try:
        port = url.port
    except ValueError:
        raise ValueError(f"the port in {init_method!r} is not a number from 0 to 65535") from None
    if not url.hostname or port is None:
        raise ValueError(f"init_method tcp:// is tcp://host:port, not {init_method!r}")
    if url.path not in ("", "/"):
        raise ValueError(f"init_method tcp:// is tcp://host:port and has no path, not {init_method!r}")
    _check_rank(rank, world_size, init_method)
    return _tcp_store(url.hostname, port, rank, world_size, timeout), rank, world_size


def _from_file(
    url: SplitResult, init_method: str, rank: int, world_size: int, timeout: timedelta
) -> tuple[Store, int, int]:
    if url.netloc not in ("", "localhost"):
        # file://name/rest: the first part of a relative path is read as a host.
        raise ValueError(f"init_method file:// takes an absolute path, file:///path, not {init_method!r}")
    path = unquote(url.path)
    if not path or path.endswith("/"):
        raise ValueError(f"init_method file:// needs the path of a file, file:///path, not {init_method!r}")
    _check_rank(rank, world_size, init_method)
    store = FileStore(path, world_size)
    store.set_timeout(timeout)
    return store, rank, world_size


_HANDLERS: dict[str, Callable[[SplitResult, str, int, int, timedelta], tuple[Store, int, int]]] = {
    "env": _from_environment,
    "tcp": _from_tcp,
    "file": _from_file,
}


#: Connections to stores that this process has left, by host and port: as long as they are open, what answers there is the
#: server of the job before.
_left: dict[tuple[str, int], socket.socket] = {}


def leave(store: Store) -> None:
    """Close a store that :func:`rendezvous` has made, so that the next one at the same place is not taken for it."""
    if not isinstance(store, TCPStore) or _served_by_launcher():
        store.close()
        return
    endpoint = store.host, store.port
    connection = tcp_store.leave(store)
    if connection is not None:
        former, _left[endpoint] = _left.get(endpoint), connection
        if former is not None:
            former.close()


def _await_end(host: str, port: int, timeout: timedelta) -> None:
    """Wait until the server is gone that has served the job before at ``host`` and ``port``, if there was one."""
    connection = _left.pop((host, port), None)
    if connection is None:
        return
    with connection:
        connection.settimeout(timeout.total_seconds())
        try:
            connection.recv(1)
        except TimeoutError:
            raise DistNetworkError(
                f"{host}:{port} has served the process group before this one for another {timeout}: rank 0 has not destroyed "
                "that yet"
            ) from None
        except OSError:  # the connection was lost, and so is the server
            pass


def _served_by_launcher() -> bool:
    """Whether every rank is a client of a launcher's store, as torchrun's are."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _tcp_store(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> Store:
    if port == 0 and world_size > 1:
        raise ValueError("port 0 is one that only rank 0 would know: give the port that all ranks use")
    served = _served_by_launcher()
    _await_end(host, port, timeout)
    try:
        store = TCPStore(host, port, world_size, rank == 0 and not served, timeout, wait_for_workers=False)
    except (DistNetworkError, DistStoreError) as error:
        serves = "" if rank == 0 or served else "; rank 0 serves it"
        raise type(error)(f"rank {rank} of {world_size}: {error}{serves}") from None
    store.served_by = "the launcher, which serves it," if served else "rank 0, which serves it,"
    return store


def _query(url: SplitResult, init_method: str) -> dict[str, int]:
    values: dict[str, int] = {}
    for name, texts in parse_qs(url.query, keep_blank_values=True).items():
        if name not in ("rank", "world_size"):
            raise ValueError(f"init_method {init_method!r} has {name!r}; it may have rank and world_size")
        if len(texts) > 1:
            raise ValueError(f"init_method {init_method!r} gives {name} {len(texts)} times")
        values[name] = _number(f"{name} in {init_method!r}", texts[0])
    return values


def _number(what: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise ValueError(f"{what} is a number from 0 on, not {text!r}")
    return number


def _agreed(name: str, argument: int, in_url: int | None, init_method: str) -> int:
    if in_url is None:
        return argument
    if argument >= 0 and argument != in_url:
        raise ValueError(f"{name}={argument} was given, and init_method {init_method!r} says {in_url}")
    return in_url


def _check_rank(rank: int, world_size: int, init_method: str) -> None:
    missing = [name for name, value in (("rank", rank), ("world_size", world_size)) if value < 0]
    if missing:
        raise ValueError(
            f"init_method {init_method!r} needs {' and '.join(missing)}: as argument, or as ?rank=R&world_size=N"
        )
    if not rank < world_size:
        raise ValueError(f"rank {rank} is not below the world size {world_size}")
