"""A ``libcuda.so.1`` whose functions end in the simulated driver, for programs that reach the driver from C."""

from __future__ import annotations

import ctypes
import sys
import traceback
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import prototypes
from .c_functions import INVALID_VALUE, NOT_INITIALIZED, SUCCESS
from .elf import shared_library
from .prototypes import exported, forms
from .stubs import RESERVED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .c_functions import CFunctions
    from .prototypes import Form

NAME = "libcuda.so.1"
_PREFIX = "graphroot"
_NOT_FOUND = 500
#: CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
_PER_THREAD = 2
#: CU_GET_PROC_ADDRESS_SUCCESS, _SYMBOL_NOT_FOUND, _VERSION_NOT_SUFFICIENT
_RESOLVED, _UNKNOWN_SYMBOL, _TOO_OLD = 0, 1, 2
_LOOKUPS = ("cuGetProcAddress", "cuGetProcAddress_v2")


def write(folder: Path) -> Path:
    """Write the library into ``folder``, under the names by which programs look for it; where it is.

    Raises
    ------
    LibraryNotInstalledError
        If CUDA's headers, which say what it exports, are not there.
    NotImplementedError
        If this machine's architecture is not one that CUDA exists for.
    """
    path = folder / NAME
    path.write_bytes(shared_library(NAME, exported(), _PREFIX, NOT_INITIALIZED))
    (folder / "libcuda.so").symlink_to(NAME)
    return path


class LibCuda:
    """The library, loaded into this process and connected with a simulated driver.

    Parameters
    ----------
    path : Path
        Where :func:`write` has put it.
    make_functions : callable
        Returns the :class:`CFunctions` of the simulated driver; called when a function is first looked for.
    """

    def __init__(self, path: Path, make_functions: Callable[[], CFunctions]) -> None:
        # A library of that name that is loaded already is the one that others get.
        self.shared_library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        self._make_functions = make_functions
        self._names = exported()
        self._slots = (ctypes.c_size_t * (len(self._names) + RESERVED)).in_dll(
            self.shared_library, f"{_PREFIX}_slots"
        )
        self._resolver = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(self.resolve)
        self._slots[0] = _address(self._resolver)
        # C++ destructors of others call the driver when Python has ended.
        ctypes.pythonapi.Py_AtExit(self.shared_library[f"{_PREFIX}_end"])

    @cached_property
    def functions(self) -> CFunctions:
        """The C functions, made when a program looks for the first."""
        return self._make_functions()

    @cached_property
    def _forms(self) -> dict[str, Form]:
        """The newest form of each symbol."""
        return {form.symbol: form for several in forms().values() for form in several}

    @cached_property
    def _lookups(self) -> dict[str, Any]:
        argument_types = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64)
        short = ctypes.CFUNCTYPE(ctypes.c_int, *argument_types)(
            lambda name, pointer_address, version, flags: self._look_up(
                name, pointer_address, version, flags, 0
            )
        )
        long = ctypes.CFUNCTYPE(ctypes.c_int, *argument_types, ctypes.c_size_t)(self._look_up)
        return dict(zip(_LOOKUPS, (short, long), strict=True))

    def resolve(self, number: int) -> int:
        """Address of the function with that number in the library, from its first call on; 0 where there is none."""
        try:
            name = self._names[number]
            function = self._lookups[name] if name in _LOOKUPS else self.functions.function(self._forms[name])
            self._slots[RESERVED + number] = _address(function)
            return self._slots[RESERVED + number]
        except BaseException:
            # Nothing may pass through C.
            traceback.print_exc(file=sys.stderr)
            return 0

    def _look_up(
        self, symbol: bytes | None, pointer_address: int, version: int, flags: int, state_address: int
    ) -> int:
        """``cuGetProcAddress``: the latest form of a function that ``version`` of CUDA had."""
        try:
            if not symbol or not pointer_address:
                return INVALID_VALUE
            name = symbol.decode()
            if name in _LOOKUPS:
                chosen, state = _LOOKUPS[version >= 12000], _RESOLVED
            else:
                chosen, state = self._chosen(name, version, flags)
            # The library's own function, which is safe to call when Python has ended.
            ctypes.c_size_t.from_address(pointer_address).value = (
                _address(self.shared_library[chosen]) if chosen else 0
            )
            if state_address:
                ctypes.c_int.from_address(state_address).value = state
            # With somewhere to say it, a name that is not there is no error.
            return SUCCESS if chosen or state_address else _NOT_FOUND
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            return _NOT_FOUND

    def _chosen(self, name: str, version: int, flags: int) -> tuple[str, int]:
        """The symbol of the form that a lookup gets, if there is one, and how the lookup ends."""
        try:
            form = prototypes.chosen(name, version, per_thread=flags == _PER_THREAD)
        except KeyError:
            return "", _UNKNOWN_SYMBOL
        return ("", _TOO_OLD) if form is None else (form.symbol, _RESOLVED)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
