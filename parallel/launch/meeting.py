"""Where the machines of a job meet: the options that say it, and the rendezvous that follows from them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from parallel.groups.errors import DistError
from parallel.groups.process_managers import started

from .coordinator import Rules
from .node_rendezvous import NodeRendezvous
from .rounds import FixedNodes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from .rounds import Rendezvous

_RENDEZVOUS_PORT, _MASTER_PORT = 29400, 29500
_TIMES = ("join_timeout", "last_call_timeout", "close_timeout", "keep_alive_interval")
#: torchrun's further settings, of things that are not here.
_WITHOUT_EFFECT = frozenset(("timeout", "read_timeout", "heartbeat_timeout", "store_type", "use_libuv"))


def add_options(option: Callable[..., None]) -> None:
    """Describe the options to a parser's ``option``."""
    option(
        "--nnodes",
        default=None,
        metavar="M",
        help="machines, on each of which the launcher is started, 1 by default; MIN:MAX if they may come and go. Under srun or "
        "mpiexec, one process for each machine, this and where they meet need not be said",
    )
    option("--node-rank", type=int, default=None, metavar="R", help="number of this machine, from 0")
    option("--master-addr", metavar="HOST", help="name or address of machine 0; this machine by default")
    option(
        "--master-port",
        type=int,
        metavar="PORT",
        help=f"a free port of machine 0 ({_MASTER_PORT}); found by itself for one machine",
    )
    option(
        "--rdzv-endpoint",
        metavar="HOST[:PORT]",
        help=f"where the launchers meet ({_RENDEZVOUS_PORT}): the launcher on HOST serves it, and machines are numbered as they come",
    )
    option("--rdzv-id", metavar="NAME", help="name of the job, the same for all of its launchers")
    option(
        "--rdzv-backend",
        choices=("static", "c10d"),
        help="static: machines are numbered by --node-rank; c10d: as they come to --rdzv-endpoint, which is how they may come "
        "and go. By default what the other options ask for",
    )
    option(
        "--rdzv-conf",
        default="",
        metavar="KEY=VALUE,...",
        help=f"{', '.join(_TIMES)} in seconds, keep_alive_max_attempt, and is_host, whether this launcher serves the rendezvous",
    )


def rendezvous_of(parser: argparse.ArgumentParser, options: argparse.Namespace, processes: int) -> Rendezvous:
    """The rendezvous that the options ask for; ends the program with status 2 and a message where they are wrong.

    Parameters
    ----------
    parser, options
        What reads the command line, and what it has read.
    processes
        How many ranks each machine starts.
    """
    try:
        _ask_manager(options)
    except (ValueError, ImportError, RuntimeError, DistError) as error:
        parser.error(str(error))
    options.nnodes = options.nnodes or "1"
    rules, serves = _rules(parser, options)
    least, most = rules.least, rules.most
    if options.master_port is not None and not 0 < options.master_port < 1 << 16:
        parser.error(f"--master-port must be from 1 to 65535, not {options.master_port}")
    if options.standalone and most > 1:
        parser.error(f"--standalone is for one machine, and --nnodes says {options.nnodes}")
    if options.rdzv_backend == "static" and least != most:
        parser.error(
            f"--rdzv-backend static is for a fixed number of machines, not --nnodes {options.nnodes}"
        )
    if (most > 1 or serves is False) and _come_and_go(options, least, most):
        address, port = _endpoint(parser, options)
        return NodeRendezvous(address, port, options.rdzv_id or "none", rules, processes, serves=serves)
    return _numbered(parser, options, rules, processes)


def _ask_manager(options: argparse.Namespace) -> None:
    """Fill in what the program says that has started the launchers, where the options say nothing of it."""
    by_manager = started()
    if by_manager is None or options.standalone:
        return
    if options.nnodes not in (None, str(by_manager.size)) or by_manager.size == 1:
        return
    if options.node_rank is not None or options.rdzv_endpoint is not None or options.rdzv_backend == "c10d":
        return
    if options.master_addr is None or options.master_port is None:
        host, port = by_manager.address(timedelta(seconds=Rules(1, 1).join_timeout))
        options.master_addr = options.master_addr or host
        options.master_port = options.master_port or port
    options.nnodes, options.node_rank = str(by_manager.size), by_manager.rank


def _numbered(
    parser: argparse.ArgumentParser, options: argparse.Namespace, rules: Rules, processes: int
) -> Rendezvous:
    """The rendezvous of machines that are numbered by hand, or of one alone."""
    nodes, node = rules.most, options.node_rank or 0
    address, port = options.master_addr, options.master_port
    if options.rdzv_endpoint and not options.standalone and (nodes > 1 or options.rdzv_backend == "static"):
        address, port = _parsed(parser, options.rdzv_endpoint, _MASTER_PORT)
    if nodes > 1:
        if options.node_rank is None:
            parser.error(
                f"--node-rank is needed with --nnodes {nodes}: 0 on the first machine, up to {nodes - 1}; or "
                "--rdzv-endpoint, the same on all machines"
            )
        if address is None:
            parser.error(f"--master-addr is needed with --nnodes {nodes}: the name or address of machine 0")
        port = port or _MASTER_PORT
    if not 0 <= node < nodes:
        parser.error(f"--node-rank must be from 0 to {nodes - 1} with --nnodes {nodes}, not {node}")
    if nodes > 1 and options.max_restarts:
        job_id = options.rdzv_id or f"{address}:{port}"
        return NodeRendezvous(address, port, job_id, rules, processes, node, serves=node == 0)
    fixed_port = None if options.standalone else port
    return FixedNodes(
        address or "127.0.0.1", fixed_port, node, nodes, processes, options.max_restarts, options.rdzv_id
    )


def _come_and_go(options: argparse.Namespace, least: int, most: int) -> bool:
    """Whether machines meet at an endpoint, and are numbered as they come."""
    meets = options.rdzv_endpoint is not None and options.node_rank is None
    return bool(options.rdzv_backend == "c10d" or (options.rdzv_backend is None and (least != most or meets)))


def _counts(parser: argparse.ArgumentParser, text: str) -> tuple[int, int]:
    """The least and the greatest number of machines."""
    low, colon, high = text.partition(":")
    high = high if colon else low
    if not (low.isdecimal() and high.isdecimal() and 1 <= int(low) <= int(high)):
        parser.error(f"--nnodes must be a number of at least 1, or two as MIN:MAX, not {text!r}")
    return int(low), int(high)


def _endpoint(parser: argparse.ArgumentParser, options: argparse.Namespace) -> tuple[str, int]:
    if not options.rdzv_endpoint:
        parser.error(
            f"--rdzv-endpoint is needed with --nnodes {options.nnodes}: name or address, and port, of a machine that "
            "takes part from the start to the end"
        )
    return _parsed(parser, options.rdzv_endpoint, _RENDEZVOUS_PORT)


def _parsed(parser: argparse.ArgumentParser, text: str, default: int) -> tuple[str, int]:
    """Host and port of ``HOST[:PORT]``; IPv6 addresses stand in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(default)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        parser.error(f"--rdzv-endpoint must be HOST:PORT with a port from 1 to 65535, not {text!r}")
    return host, int(port)


def rules_on_ray(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Rules:
    """The rules of a job on Ray, where nothing else has to be said of how machines meet; errors as of :func:`rendezvous_of`."""
    for name in ("node_rank", "master_addr", "master_port", "rdzv_endpoint", "rdzv_backend"):
        if getattr(options, name) is not None:
            parser.error(
                f"--{name.replace('_', '-')} is for launchers that are started by hand, and Ray starts them"
            )
    if options.standalone:
        parser.error("--standalone is for one machine without Ray")
    options.nnodes = options.nnodes or "1"
    rules, serves = _rules(parser, options)
    if serves is not None:
        parser.error("--rdzv-conf is_host: with --ray, this command serves the rendezvous")
    return rules


def _rules(parser: argparse.ArgumentParser, options: argparse.Namespace) -> tuple[Rules, bool | None]:
    """The rules that ``--nnodes`` and ``--rdzv-conf`` say, and whether this launcher serves the rendezvous."""
    least, most = _counts(parser, options.nnodes)
    if options.max_restarts < 0:
        parser.error(f"--max-restarts must be 0 or more, not {options.max_restarts}")
    known = (*_TIMES, "keep_alive_max_attempt", "is_host")
    changed: dict[str, float] = {}
    serves = None
    for part in filter(None, options.rdzv_conf.split(",")):
        key, _, value = part.partition("=")
        if key in _WITHOUT_EFFECT:
            continue
        if key == "is_host" and value.lower() in ("true", "false", "1", "0"):
            serves = value.lower() in ("true", "1")
        elif key in known and key != "is_host" and _positive(value) is not None:
            changed[key] = float(value)
        else:
            parser.error(
                f"--rdzv-conf takes {', '.join(known)}, as KEY=NUMBER,... (is_host=true), not {part!r}"
            )
    return Rules(least, most, options.max_restarts, **changed), serves  # type: ignore[arg-type]


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
