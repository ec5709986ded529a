"""PTX to the code that the hardware runs, with NVIDIA's nvJitLink, which needs no GPU.

It makes of exactly the PTX that ran the cubin that a driver would make of it, so that registers, spills and instruction
counts are the real ones, whoever compiled the PTX. Where it is not installed (extra ``profile``), registers are
estimated from the PTX, and reports say so.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from .cubin import CompiledKernel, CubinError, read_cubin

#: Architecture of a PTX text, and the letter of one that no newer one runs.
_TARGET = re.compile(rb"^\s*\.target\s+sm_\d+([af]?)", re.MULTILINE)


@functools.cache
def _library() -> Any:
    """The bindings, or ``None`` where they or the library are not installed."""
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except Exception:
        # Of any class, as the loader of the bindings decides: without it there is an estimate.
        return None
    return nvjitlink


def available() -> bool:
    """Whether PTX can be assembled."""
    return _library() is not None


@functools.lru_cache(maxsize=256)
def assemble(ptx: bytes, capability: tuple[int, int]) -> dict[str, CompiledKernel]:
    """Kernels of ``ptx`` as the hardware of ``capability`` would run them, by name; empty where that cannot be had.

    Parameters
    ----------
    ptx : bytes
        The text, with or without a zero byte at its end.
    capability : tuple of int
        Compute capability.
    """
    linker = _library()
    if linker is None:
        return {}
    text = ptx.split(b"\0", 1)[0]
    major, minor = capability
    # Code for one architecture alone says so in its target.
    target = _TARGET.search(text)
    suffix = "a" if target is not None and target.group(1) == b"a" else ""
    handle = None
    try:
        handle = linker.create(2, [f"-arch=sm_{major}{minor}{suffix}", "-lineinfo"])
        linker.add_data(handle, linker.InputType.PTX, text, len(text), "kernels.ptx")
        linker.complete(handle)
        image = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, image)
        return read_cubin(bytes(image), text.decode(errors="replace"))
    except (linker.nvJitLinkError, CubinError):
        # Such as PTX of a newer version than the linker's, or with names that are elsewhere.
        return {}
    finally:
        if handle is not None:
            linker.destroy(handle)
