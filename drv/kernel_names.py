"""Names of kernels as they are written in CUDA C++."""

from __future__ import annotations

import ctypes
import re
from functools import cache

#: What brackets are opened by, and closed.
_OPENING, _CLOSING = "(<[{", ")>]}"


@cache
def readable(name: str) -> str:
    """A kernel's name as its source has it.

    Parameters
    ----------
    name : str
        The name that a module has, mangled or not.

    Returns
    -------
    str
        The name with its namespaces and template arguments, without parameters: ``"a::fill<float>"`` for
        ``"_ZN1a4fillIfEEvPT_"``. Where the C++ library, which knows the rules, is not to be had, template arguments
        are left out. A name that is not mangled is returned as it is.
    """
    if not name.startswith("_Z"):
        return name
    whole = _demangled(name)
    return _plain(name) if whole is None else _without_types(whole)


def with_readable_names(text: str) -> str:
    """``text`` with every mangled name in it as :func:`readable` gives it."""
    return re.sub(r"\b_Z\w+", lambda match: readable(match[0]), text)


def _demangled(name: str) -> str | None:
    library = _library()
    if library is None:
        return None
    status = ctypes.c_int()
    address = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not address:
        return None
    try:
        return ctypes.string_at(address).decode(errors="replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(address))


@cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
    except (OSError, AttributeError):
        return None
    return library


def _without_types(whole: str) -> str:
    """``"a::fill<float>"`` of ``"void a::fill<float>(float*)"``."""
    depth, start, end = 0, 0, len(whole)
    for index, character in enumerate(whole):
        if character == "(" and depth == 0 and not whole.startswith("(anonymous namespace)", index):
            end = index
            break
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == " " and depth == 0:
            start = index + 1
    return whole[start:end].replace("> >", ">>")


def _plain(mangled: str) -> str:
    """The names that a mangled one begins with, without template arguments."""
    names, at = [], 3 if mangled.startswith("_ZN") else 2
    while (number := re.compile(r"\d+").match(mangled, at)) is not None:
        start = number.end()
        at = start + int(number[0])
        names.append(mangled[start:at])
        if not mangled.startswith("_ZN"):
            break
    return "::".join(names) or mangled
