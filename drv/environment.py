"""The environment variables that graphroot reads, in one place.

``GRAPHROOT_SIMULATOR`` is only fetched here; :mod:`drv.simulator.options` knows its syntax.
``CUDA_VISIBLE_DEVICES`` is read by the drivers themselves.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, cast

from .errors import InvalidValueError

DriverChoice = Literal["auto", "nvidia", "simulator"]
NativeLoops = Literal["auto", "on", "off"]


def driver_choice() -> DriverChoice:
    """``GRAPHROOT_DRIVER``: which driver to use.

    Raises
    ------
    InvalidValueError
        If it is none of ``auto``, ``nvidia`` and ``simulator``.
    """
    text = os.environ.get("GRAPHROOT_DRIVER", "").strip().lower() or "auto"
    if text not in ("auto", "nvidia", "simulator"):
        raise InvalidValueError(f"GRAPHROOT_DRIVER={text!r}: expected 'auto', 'nvidia' or 'simulator'")
    return cast("DriverChoice", text)


def simulator_options() -> str:
    """``GRAPHROOT_SIMULATOR``: options of the simulated driver, as text."""
    return os.environ.get("GRAPHROOT_SIMULATOR", "")


def launch_blocking() -> bool:
    """``CUDA_LAUNCH_BLOCKING``: whether every launch waits until its kernel has ended."""
    return _flag("CUDA_LAUNCH_BLOCKING")


def memory_caching() -> bool:
    """Whether allocators may cache: false with ``GRAPHROOT_NO_CUDA_MEMORY_CACHING=1`` or PyTorch's name."""
    return not (_flag("GRAPHROOT_NO_CUDA_MEMORY_CACHING") or _flag("PYTORCH_NO_CUDA_MEMORY_CACHING"))


def native_loops() -> NativeLoops:
    """``GRAPHROOT_CPU_NATIVE``: which operations on CPU tensors run as native code where the extra ``native`` is installed.

    Raises
    ------
    InvalidValueError
        If it is none of ``auto`` (those on many elements), ``on`` (those of any size, as tests need it) and ``off``.
    """
    text = os.environ.get("GRAPHROOT_CPU_NATIVE", "").strip().lower() or "auto"
    if text not in ("auto", "on", "off"):
        raise InvalidValueError(f"GRAPHROOT_CPU_NATIVE={text!r}: expected 'auto', 'on' or 'off'")
    return cast("NativeLoops", text)


def mkl_allowed() -> bool:
    """``GRAPHROOT_CPU_MKL``: whether products of matrices on the CPU are oneMKL's where the extra ``mkl`` is installed.

    Raises
    ------
    InvalidValueError
        If it is neither ``auto`` nor ``off``.
    """
    text = os.environ.get("GRAPHROOT_CPU_MKL", "").strip().lower() or "auto"
    if text not in ("auto", "off"):
        raise InvalidValueError(f"GRAPHROOT_CPU_MKL={text!r}: expected 'auto' or 'off'")
    return text == "auto"


def cublas_workspace_bytes() -> int | None:
    """``CUBLAS_WORKSPACE_CONFIG``: bytes of cuBLAS' workspaces, ``None`` where it says nothing.

    Raises
    ------
    InvalidValueError
        If it is not made of ``:KIBIBYTES:COUNT``.
    """
    text = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "").strip()
    if not text:
        return None
    if not re.fullmatch(r"(:\d+:\d+)+", text):
        raise InvalidValueError(
            f"CUBLAS_WORKSPACE_CONFIG={text!r}: expected pairs of kibibytes and a count, such as :4096:8 or :16:8"
        )
    return sum(int(size) * int(count) << 10 for size, count in re.findall(r":(\d+):(\d+)", text))


def allocator_options() -> dict[str, str]:
    """``GRAPHROOT_CUDA_ALLOC_CONF`` (else ``PYTORCH_CUDA_ALLOC_CONF``) as names and values.

    Raises
    ------
    InvalidValueError
        If a part is not ``name:value`` or a name comes twice; the message quotes the part.
    """
    variable = "GRAPHROOT_CUDA_ALLOC_CONF"
    if not os.environ.get(variable):
        variable = "PYTORCH_CUDA_ALLOC_CONF"
    return option_pairs(os.environ.get(variable, ""), variable)


def option_pairs(text: str, source: str) -> dict[str, str]:
    """``name:value,name:value`` as names and values; ``source`` is what errors call the text.

    Raises
    ------
    InvalidValueError
        If a part is not ``name:value`` or a name comes twice; the message quotes the part.
    """
    options: dict[str, str] = {}
    for pair in _split_outside_brackets(text):
        name, colon, value = (piece.strip() for piece in pair.partition(":"))
        if not (name and colon and value):
            raise InvalidValueError(f"{source}: {pair.strip()!r} is not name:value")
        if name in options:
            raise InvalidValueError(f"{source}: {name!r} is given twice")
        options[name] = value
    return options


def cache_directory() -> Path:
    """``GRAPHROOT_CACHE_DIR``, else ``graphroot`` in the user's cache directory."""
    chosen = os.environ.get("GRAPHROOT_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "graphroot"
    return Path(os.path.expanduser("~")) / ".cache" / "graphroot"  # noqa: PTH111 - Path.home() raises


def supervisor() -> str | None:
    """``GRAPHROOT_SUPERVISOR``: ``"module:function"`` that gives the tool which watches over this process, if one does.

    Tools set it for the processes that a program starts.
    """
    return os.environ.get("GRAPHROOT_SUPERVISOR") or None


def _flag(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() in ("1", "true", "yes", "on")


def _split_outside_brackets(text: str) -> list[str]:
    """Parts between commas, leaving lists such as ``[256:1,512:2]`` whole."""
    pairs, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            pairs.append(text[start:index])
            start = index + 1
    pairs.append(text[start:])
    return [pair for pair in pairs if pair.strip()]
