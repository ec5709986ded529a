"""Running a command as the command line of ``graphroot simulate``, or ``python -m tools.simulate``, says."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drv.errors import LibraryNotInstalledError
from drv.simulator.outsiders import child, libcuda, libnvrtc, start_folder

from .options import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

#: The exit status of a command in whose processes something was found, as memcheck has it.
FINDINGS_STATUS = 86
_NOT_FOUND = 127


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
    options, words = parse(sys.argv[1:] if arguments is None else arguments, prog)
    program = shutil.which(words[0])
    if program is None:
        print(f"{prog}: {words[0]}: no such command", file=sys.stderr)
        return _NOT_FOUND
    with tempfile.TemporaryDirectory(prefix="graphroot-libcuda-") as name:
        folder = Path(name)
        try:
            libcuda.write(folder)
            nvrtc = libnvrtc.write(folder)
        except (LibraryNotInstalledError, NotImplementedError) as error:
            print(f"{prog}: {error}", file=sys.stderr)
            return 2
        status = _run([program, *words[1:]], environment(folder, options, nvrtc))
        findings = list(folder.glob("findings-*"))
    if findings and status == 0:
        return FINDINGS_STATUS
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
