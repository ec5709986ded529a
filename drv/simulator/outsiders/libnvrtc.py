"""NVRTC with PTX for cubins: the simulated driver runs PTX, and NVRTC makes that on the way to a cubin.

A library of NVRTC's name whose functions are those of the real one, but that the cubin of a program is its PTX.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from drv.compiler import cuda_include_dirs

from .elf import shared_library
from .stubs import RESERVED

#: The variable that says where the real library is.
REAL = "GRAPHROOT_NVRTC"
PREFIX = "graphroot_nvrtc"
#: NVRTC_ERROR_INTERNAL_ERROR
_INTERNAL_ERROR = 11
_INSTEAD = {"nvrtcGetCUBIN": "nvrtcGetPTX", "nvrtcGetCUBINSize": "nvrtcGetPTXSize"}


def names() -> list[str]:
    """The library's functions, from CUDA's headers, in a fixed order; none where these are not there."""
    headers = [Path(folder, "nvrtc.h") for folder in cuda_include_dirs()]
    functions: set[str] = set()
    for header in headers:
        if header.exists():
            text = header.read_text(encoding="utf-8", errors="replace")
            functions |= set(re.findall(r"^(?:nvrtcResult|const char \*) ?(nvrtc\w+)\(", text, re.MULTILINE))
    return sorted(functions)


def write(folder: Path) -> Path | None:
    """Write the library into ``folder``, and return the real one's path; None where NVRTC is not installed."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    functions = names()
    try:
        real = load_nvidia_dynamic_lib("nvrtc").abs_path
    except DynamicLibNotFoundError:
        return None
    if real is None or not functions:
        return None
    name = Path(real).name
    (folder / name).write_bytes(shared_library(name, functions, PREFIX, _INTERNAL_ERROR))
    return Path(real)


class LibNvrtc:
    """The library, loaded into this process, and the real one.

    Parameters
    ----------
    folder : Path
        Where :func:`write` has put it.
    """

    def __init__(self, folder: Path) -> None:
        real = os.environ[REAL]
        self.library = ctypes.CDLL(str(folder / Path(real).name))
        self._real = ctypes.CDLL(real)
        self._names = names()
        self._slots = (ctypes.c_size_t * (len(self._names) + RESERVED)).in_dll(
            self.library, f"{PREFIX}_slots"
        )

    def resolve(self, number: int) -> int:
        """Address of the function with that number. All are put into the table, for those first called at the end."""
        for index, name in enumerate(self._names):
            function = getattr(self._real, _INSTEAD.get(name, name), None)
            if function is not None:
                self._slots[RESERVED + index] = ctypes.cast(function, ctypes.c_void_p).value or 0
        return self._slots[RESERVED + number]
