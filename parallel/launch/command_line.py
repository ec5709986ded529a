"""Starts a script as several ranks, each a process: ``graphroot launch --nproc-per-node 4 script.py``.

Every rank finds in its environment what ``torchrun`` sets: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
MASTER_ADDR, MASTER_PORT and more, from which ``parallel.init_process_group`` makes the group, and GRAPHROOT_JOB_SECRET,
without which nobody takes part. When one rank fails, the others are ended, and all are started once more as often as
``--max-restarts`` says; then its traceback is shown last, and its exit status is the launcher's.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from parallel.groups.errors import DistError
from parallel.groups.job_secret import KNOWN, VARIABLE, job_secret, new_secret
from tensor.torch_names.children import search_path

from .local_ranks import LocalRanks, Rank
from .meeting import add_options as add_meeting
from .meeting import rendezvous_of, rules_on_ray
from .on_ray import run_on_ray
from .rounds import run_rounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .rounds import Round

_BOTH = frozenset(("stdout", "stderr"))
_STREAMS = {"0": frozenset[str](), "1": frozenset(("stdout",)), "2": frozenset(("stderr",)), "3": _BOTH}


def main(arguments: Sequence[str] | None = None, prog: str = "python -m parallel.launch") -> int:
    """Start the ranks that a command line asks for, and return its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind the name of the program; that of this process by default. ``--help`` lists the options.
    prog : str, default: "python -m parallel.launch"
        What the program is called in messages.

    Returns
    -------
    int
        0, or the status of the rank that failed first: of one that a signal ended, 128 plus its number.

    Raises
    ------
    SystemExit
        With status 2, if an option is unknown or has an impossible value, or the script does not exist; the message
        is on stderr.
    """
    described = parser(prog)
    return run(described, described.parse_args(arguments))


def run(described: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Start the ranks that ``options``, read by the parser ``described``, ask for; the exit status as of :func:`main`."""
    if options.ray or options.ray_address is not None:
        return _run_on_ray(described, options)
    if options.ray_working_dir is not None:
        described.error("--ray-working-dir is for --ray")
    nproc = process_count(described, options.nproc_per_node)
    rendezvous = rendezvous_of(described, options, nproc)
    command = _command(described, options)
    if options.redirects and options.log_dir is None:
        described.error("--redirects needs --log-dir, the folder for the output")
    environment = {**os.environ, **_secret(described, rendezvous.alone)}
    if options.as_torch:
        environment["PYTHONPATH"] = search_path(os.environ)
    if nproc > 1 and "OMP_NUM_THREADS" not in os.environ:
        print(
            "parallel.launch: OMP_NUM_THREADS is set to 1 for every rank, so that they do not crowd the machine; "
            "set it yourself for other numbers of threads",
            file=sys.stderr,
        )
        environment["OMP_NUM_THREADS"] = "1"
    # What scripts and libraries look for to know that they were launched, and restarted how often.
    environment["TORCHELASTIC_RUN_ID"] = rendezvous.job_id
    environment["TORCHELASTIC_MAX_RESTARTS"] = str(options.max_restarts)

    def ranks_of(current: Round) -> LocalRanks:
        folder = Path(options.log_dir or "", f"attempt_{current.number}" if rendezvous.restarting else "")
        return LocalRanks(
            [
                _rank(
                    options,
                    local_rank,
                    command,
                    environment | _coordinates(current, local_rank, nproc),
                    folder,
                )
                for local_rank in range(nproc)
            ]
        )

    try:
        return run_rounds(rendezvous, ranks_of)
    except DistError as error:
        print(f"parallel.launch: {error}", file=sys.stderr)
        return 1


def _run_on_ray(described: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    rules = rules_on_ray(described, options)
    named = options.nproc_per_node in ("gpu", "cpu", "auto")
    ranks = None if named else process_count(described, options.nproc_per_node)
    further = [
        f"--{name}"
        for name in ("module", "no-python", "as-torch")
        if getattr(options, name.replace("-", "_"))
    ]
    further += [f"--max-restarts={rules.max_restarts}"]
    further += [f"--log-dir={options.log_dir}"] if options.log_dir is not None else []
    further += [
        f"--{name}={_numbers(getattr(options, name))}"
        for name in ("redirects", "tee")
        if getattr(options, name)
    ]
    # Ray, which it needs, is an optional package.
    try:
        import ray  # noqa: F401
    except ImportError as error:
        described.error(f"--ray needs Ray, which is not installed ({error}): pip install 'graphroot[ray]'")
    return run_on_ray(
        options.ray_address,
        options.ray_working_dir,
        options.rdzv_id or secrets.token_hex(8),
        rules,
        ranks,
        [*further, options.script, *options.arguments],
    )


def _coordinates(current: Round, local_rank: int, processes: int) -> dict[str, str]:
    """What a rank finds in its environment about who it is."""
    rank, world_size = str(current.first_rank + local_rank), str(current.world_size)
    return {
        "RANK": rank,
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": world_size,
        "LOCAL_WORLD_SIZE": str(processes),
        "GROUP_RANK": str(current.node),
        "GROUP_WORLD_SIZE": str(current.nodes),
        "ROLE_NAME": "default",
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world_size,
        "MASTER_ADDR": current.address,
        "MASTER_PORT": str(current.port),
        "TORCHELASTIC_RESTART_COUNT": str(current.restarts),
        "TORCHELASTIC_USE_AGENT_STORE": str(current.served),
    }


def parser(prog: str) -> argparse.ArgumentParser:
    """The options, and what they mean, of the command that is called ``prog``."""
    result = argparse.ArgumentParser(
        prog=prog,
        description="Start a script as several ranks, each a process. Options are spelt with dashes or underscores. "
        f"Only processes with the same {VARIABLE} take part: one machine makes one, for several set it on each.",
        allow_abbrev=False,
    )

    def option(name: str, *more: str, **keywords: object) -> None:
        spellings = dict.fromkeys((*more, name, "--" + name[2:].replace("-", "_")))
        result.add_argument(*spellings, **keywords)  # type: ignore[arg-type]

    option(
        "--nproc-per-node",
        default="1",
        metavar="N",
        help="ranks on this machine: a number, 'gpu' (one for each), 'cpu' (one for each core), or 'auto' (GPUs, "
        "and cores where there are none)",
    )
    option(
        "--max-restarts",
        type=int,
        default=0,
        metavar="K",
        help="when a rank fails, or a machine is lost, start all ranks once more, up to K times",
    )
    add_meeting(option)
    option(
        "--standalone",
        action="store_true",
        help="one machine, on a free port; what a single machine is anyway",
    )
    option(
        "--ray", action="store_true", help="have Ray find --nnodes machines, and start the launchers there"
    )
    option(
        "--ray-address",
        metavar="ADDRESS",
        help="the Ray cluster; by default RAY_ADDRESS, or the one of this machine",
    )
    option(
        "--ray-working-dir",
        metavar="DIR",
        help="folder that Ray copies to the machines, and in which SCRIPT is; without it they have this one",
    )
    option("--module", "-m", action="store_true", help="SCRIPT is a module, run as by python -m")
    option("--no-python", action="store_true", help="SCRIPT is a program and not Python")
    option("--as-torch", action="store_true", help="let `import torch` be graphroot in the ranks")
    option(
        "--log-dir",
        metavar="DIR",
        help="keep the ranks' output in DIR/rank_N/stdout.log and stderr.log (DIR/attempt_0/rank_N, attempt_1 and so on "
        "where ranks may be restarted): all of it, or that of --tee and --redirects",
    )
    option(
        "--redirects",
        "-r",
        type=_streams,
        default="0",
        metavar="K",
        help="output that goes to --log-dir and is not shown: 0 none, 1 stdout, 2 stderr, 3 both, or 0:1,1:3 by local rank",
    )
    option(
        "--tee",
        "-t",
        type=_streams,
        default="0",
        metavar="K",
        help="output of which each line is shown with its rank (and kept in --log-dir); written as for --redirects",
    )
    result.add_argument("script", metavar="SCRIPT", help="what is run")
    result.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    return result


def process_count(parser: argparse.ArgumentParser, text: str) -> int:
    """How many ranks ``--nproc-per-node`` asks for; ends the program with status 2 and a message where it is wrong."""
    if text in ("gpu", "auto"):
        # The launcher starts without a driver, unless it is to count devices.
        import drv

        count = drv.device_count()
        if count == 0 and text == "gpu":
            parser.error("--nproc-per-node gpu: there is no GPU; give a number, or 'cpu'")
        if count:
            return count
    if text in ("cpu", "auto"):
        return len(os.sched_getaffinity(0))
    if not text.isdecimal() or int(text) < 1:
        parser.error(f"--nproc-per-node must be a number of at least 1, 'gpu', 'cpu' or 'auto', not {text!r}")
    return int(text)


def _secret(parser: argparse.ArgumentParser, alone: bool) -> dict[str, str]:
    """A secret for the ranks, where the environment has none; launchers on several machines have the same if MPI told it."""
    try:
        known = job_secret()
    except ValueError as error:
        parser.error(str(error))
    if VARIABLE in os.environ:
        return {}
    if known.stance == KNOWN:
        return {VARIABLE: known.key.decode()}
    return {VARIABLE: new_secret()} if alone else {}


def _command(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    if options.no_python:
        if options.module:
            parser.error("--module and --no-python exclude each other")
        if shutil.which(options.script) is None:
            parser.error(f"there is no program {options.script!r}")
        return [options.script, *options.arguments]
    # Unbuffered: what a rank printed is there when it has crashed.
    if options.module:
        return [sys.executable, "-u", "-m", options.script, *options.arguments]
    if not Path(options.script).exists():
        parser.error(
            f"there is no script {options.script!r} in {Path.cwd()}; for a module add -m, for a program --no-python"
        )
    return [sys.executable, "-u", options.script, *options.arguments]


def _rank(
    options: argparse.Namespace, local_rank: int, command: list[str], environment: dict[str, str], logs: Path
) -> Rank:
    rank = int(environment["RANK"])
    redirected, teed = (
        streams.get(local_rank, streams.get(None, frozenset()))
        for streams in (options.redirects, options.tee)
    )
    recorded = redirected | teed or _BOTH
    folder = logs / f"rank_{rank}"
    files = {name: folder / f"{name}.log" for name in recorded} if options.log_dir is not None else {}
    return Rank(
        rank,
        local_rank,
        command,
        environment,
        console=_BOTH - redirected | teed,
        prefixed=teed,
        files=files,
    )


def _numbers(streams: dict[int | None, frozenset[str]]) -> str:
    """What :func:`_streams` reads."""
    number = {chosen: text for text, chosen in _STREAMS.items()}
    return ",".join(
        number[chosen] if rank is None else f"{rank}:{number[chosen]}" for rank, chosen in streams.items()
    )


def _streams(text: str) -> dict[int | None, frozenset[str]]:
    """The streams that ``3`` (for every rank, None here) or ``0:1,1:3`` (by local rank) names."""
    streams: dict[int | None, frozenset[str]] = {}
    for part in text.split(",") if text != "0" else ():
        local_rank, colon, number = part.rpartition(":")
        if number not in _STREAMS or bool(colon) != local_rank.isdecimal():
            raise argparse.ArgumentTypeError(
                "must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a number by local rank, as 0:1,1:3; "
                f"not {text!r}"
            )
        streams[int(local_rank) if colon else None] = _STREAMS[number]
    return streams
