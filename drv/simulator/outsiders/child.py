"""A process of a command that runs on a simulated GPU: its ``libcuda.so.1`` and its NVRTC."""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from drv import current
from drv.documentation import driver_function_link

from .c_functions import CFunctions
from .libcuda import NAME, LibCuda
from .libnvrtc import LibNvrtc

if TYPE_CHECKING:
    from collections.abc import Callable

#: Where the libraries are.
FOLDER = "GRAPHROOT_LIBCUDA"


def resolve(number: int) -> int:
    """The address of a driver function by its number in the library, at its first call; 0 where it cannot be made."""
    return _resolved(_libcuda, number)


def resolve_nvrtc(number: int) -> int:
    """The address of a function of NVRTC, in the same way."""
    return _resolved(_libnvrtc, number)


def _resolved(library: Callable[[], LibCuda | LibNvrtc], number: int) -> int:
    try:
        return library().resolve(number)
    except BaseException:
        # Nothing may pass through C.
        traceback.print_exc()
        return 0


@cache
def _libcuda() -> LibCuda:
    return LibCuda(Path(os.environ[FOLDER], NAME), _functions)


@cache
def _libnvrtc() -> LibNvrtc:
    return LibNvrtc(Path(os.environ[FOLDER]))


def _functions() -> CFunctions:
    result = CFunctions(current.runtime().driver)
    atexit.register(_report, result)
    return result


def _report(functions: CFunctions) -> None:
    """Say which functions were called and are not simulated. What the checkers find is the tool's to tell."""
    if functions.refused:
        print(
            "graphroot: answered with CUDA_ERROR_NOT_SUPPORTED, as not simulated:",
            *(f"  {name}: {driver_function_link(name)}" for name in sorted(functions.refused)),
            sep="\n",
            file=sys.stderr,
        )
