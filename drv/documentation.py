"""Where NVIDIA documents the functions of the driver."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from .compiler import cuda_include_dirs

_BASE = "https://docs.nvidia.com/cuda/cuda-driver-api/"
_HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h")
_GROUP_OR_FUNCTION = r"\\defgroup (\w+)|^CUresult CUDAAPI (cu\w+?)(?:_v\d+)?\("


def driver_function_link(name: str) -> str:
    """The page on which NVIDIA documents the function ``name`` of the driver.

    Parameters
    ----------
    name : str
        Such as ``"cuMemAlloc"``, with or without a version (``_v2``).

    Returns
    -------
    str
        The address of the page of its group. CUDA's headers say which that is; where they are not installed, or have no
        such function, it is the page that lists all groups.
    """
    group = _groups().get(re.sub(r"_v\d+$", "", name))
    if group is None:
        return f"{_BASE}modules.html"
    return f"{_BASE}group__{group.replace('_', '__')}.html"


@cache
def _groups() -> dict[str, str]:
    """The group of every function, in whose order the headers declare them."""
    result: dict[str, str] = {}
    for folder in cuda_include_dirs():
        for header in _HEADERS:
            path = Path(folder, header)
            group = ""
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            for new_group, function in re.findall(_GROUP_OR_FUNCTION, text, re.MULTILINE):
                if new_group:
                    group = new_group
                elif group:
                    result.setdefault(function, group)
    return result
