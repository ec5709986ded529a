"""Running a script under NVIDIA's compute-sanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .options import Options

_PROGRAM = "compute-sanitizer"
_MISSING = """\
memcheck: --sanitizer needs NVIDIA's compute-sanitizer, which is not on the search path, nor in CUDA_HOME or \
/usr/local/cuda. It comes with the CUDA toolkit. Install it, or leave --sanitizer out: then this tool's own checks \
are made."""


def find() -> str | None:
    """Where compute-sanitizer is installed."""
    path = shutil.which(_PROGRAM)
    folders = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    for folder in filter(None, folders):
        for subfolder in ("bin", "compute-sanitizer", "extras/compute-sanitizer"):
            candidate = Path(folder) / subfolder / _PROGRAM
            if path is None and os.access(candidate, os.X_OK):
                path = str(candidate)
    return path


def command(program: str, options: Options) -> list[str]:
    """The command that runs the script under ``program``."""
    own = [program, "--tool", "memcheck", "--error-exitcode", str(options.error_exitcode)]
    if options.leak_check:
        own += ["--leak-check", "full"]
    if options.json is not None:
        own += ["--save", str(options.json), "--xml"]
    start = ["-m"] if options.module else []
    return [*own, sys.executable, *start, *options.target]


def run(options: Options) -> int:
    """Run the script under compute-sanitizer, which reports by itself. Its exit status; 2 where it is missing.

    Each tensor has an allocation of its own, so that its bounds are the true ones.
    """
    program = find()
    if program is None:
        print(_MISSING, file=sys.stderr)
        return 2
    if options.json is not None:
        print("memcheck: compute-sanitizer writes XML, not JSON, to the file of --json", file=sys.stderr)
    environment = os.environ | {
        "GRAPHROOT_DRIVER": "nvidia",
        "GRAPHROOT_NO_CUDA_MEMORY_CACHING": "1",
        "CUDA_LAUNCH_BLOCKING": "1",
    }
    return subprocess.run(command(program, options), env=environment, check=False).returncode
