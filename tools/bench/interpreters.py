"""Fresh interpreters, for what a process that has measured something before would hide: imports, and peaks of memory."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tensor

if TYPE_CHECKING:
    from collections.abc import Mapping


def environment(folder: Path, gpu: bool) -> dict[str, str]:
    """The environment of this process, with this project in the path and byte code kept in ``folder``.

    Parameters
    ----------
    gpu
        Whether interpreters may use the GPU; a simulated one stands in for it otherwise.
    """
    result = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    result["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    paths = [str(Path(tensor.__file__).parents[1]), result.get("PYTHONPATH")]
    result["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    if not gpu:
        result["GRAPHROOT_DRIVER"] = "simulator"
    return result


def torch_module(gpu: bool) -> dict[str, str]:
    """PyTorch's module by the name that it has as a contender, if it is installed."""
    return {f"torch {'cuda' if gpu else 'cpu'}": "torch"} if importlib.util.find_spec("torch") else {}


def figures(code: str, variables: Mapping[str, str]) -> list[float]:
    """The numbers in the last line that ``code`` prints, run by a fresh interpreter with ``variables`` as environment.

    Raises
    ------
    subprocess.CalledProcessError
        Where the code fails; its traceback is on the standard error.
    """
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(variables), stdout=subprocess.PIPE, text=True, check=True
    )
    return [float(figure) for figure in done.stdout.splitlines()[-1].split()]
