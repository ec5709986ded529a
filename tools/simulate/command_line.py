"""Running a command as the command line of ``graphroot simulate``, or ``python -m tools.simulate``, says."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from drv.errors import LibraryNotInstalledError
from drv.simulator.outsiders import child, libcuda, libnvrtc, start_folder
from tools.counted import counted
from tools.memcheck import report
from tools.memcheck.processes import together
from tools.run.following import Followed
from tools.run.races import Races

from .options import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from .options import Options

#: The exit status of a command in whose processes something was found, as memcheck has it.
FINDINGS_STATUS = 86
_NOT_FOUND = 127
#: How many findings are told in full.
_LIMIT = 20


def main(arguments: Sequence[str] | None = None, prog: str = "python -m tools.simulate") -> int:
    """Run the command that a command line names, and return its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind the name of the tool; that of this process by default. ``--help`` lists the options.
    prog : str, default: "python -m tools.simulate"
        What the tool is called in messages.

    Returns
    -------
    int
        The command's own status, as a shell gives it (128 and the signal's number if one ended it); 86 if it was 0 and
        something was found; 2 if this machine lacks what is needed, 127 if there is no such command.

    Raises
    ------
    SystemExit
        With status 2, if an option is unknown or has an impossible value, and with 0 after ``--help``.
    """
    options = parse(sys.argv[1:] if arguments is None else arguments, prog)
    program = shutil.which(options.command[0])
    if program is None:
        print(f"{prog}: {options.command[0]}: no such command", file=sys.stderr)
        return _NOT_FOUND
    children = Followed("tools.run.races:Races", True)
    with tempfile.TemporaryDirectory(prefix="graphroot-libcuda-") as name:
        folder = Path(name)
        try:
            libcuda.write(folder)
            nvrtc = libnvrtc.write(folder)
        except (LibraryNotInstalledError, NotImplementedError) as error:
            print(f"{prog}: {error}", file=sys.stderr)
            return 2
        with children.following():
            own_status = _run([program, *options.command[1:]], environment(folder, options.simulator, nvrtc))
    return _told(options, children, own_status)


def _told(options: Options, children: Followed, own_status: int) -> int:
    """Tell what was found in the command's processes; the exit status."""
    races = Races()
    findings = together(races, children.reports)
    if len(children.reports) == 1:
        findings = [replace(each, processes=()) for each in findings]
    status = FINDINGS_STATUS if findings and own_status == 0 else own_status
    report.write(sys.stderr, findings, races.sources, _LIMIT, tool="graphroot")
    if findings:
        errors = counted(len(findings), "error")
        print(f"graphroot: {errors} in how {options.command[0]} uses the simulated GPU", file=sys.stderr)
    if options.json is not None:
        report.write_json(
            options.json,
            findings,
            races.sources,
            tool="simulate",
            command=options.command,
            drivers=["simulator"] if children.reports else [],
            script_status=own_status,
            status=status,
        )
    return status


def environment(folder: Path, options: str, nvrtc: Path | None) -> dict[str, str]:
    """The environment of a command whose processes use the libraries in ``folder``; ``nvrtc`` is the real NVRTC."""
    result = dict(os.environ)
    inherited = result.get("GRAPHROOT_SIMULATOR", "")
    result["GRAPHROOT_DRIVER"] = "simulator"
    result["GRAPHROOT_SIMULATOR"] = ",".join(filter(None, (inherited or "check=race", options)))
    result[child.FOLDER] = str(folder)
    if nvrtc is not None:
        result[libnvrtc.REAL] = str(nvrtc)
    # Where those look that do not ask the loader: Numba and Triton.
    result["NUMBA_CUDA_DRIVER"] = str(folder / libcuda.NAME)
    result["TRITON_LIBCUDA_PATH"] = str(folder)
    for variable, first in (("LD_LIBRARY_PATH", str(folder)), ("PYTHONPATH", str(start_folder()))):
        result[variable] = os.pathsep.join(filter(None, (first, result.get(variable, ""))))
    return result


def _run(command: list[str], variables: dict[str, str]) -> int:
    process = subprocess.Popen(command, env=variables)
    with _passed_on(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave Ctrl-C, which a terminal sends to both, to the command, and pass a request to end on to it."""

    def pass_on(number: int, _: FrameType | None) -> None:
        if number == signal.SIGTERM:
            process.terminate()

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
