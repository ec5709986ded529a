"""Driver calls by which programs get the addresses of others: ``cuGetProcAddress``, ``cuGetExportTable``."""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.errors import LibraryNotInstalledError
from drv.simulator.driver_call import (
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_value,
    structure,
    text,
    unsigned,
)
from drv.simulator.driver_state import DriverState
from drv.simulator.outsiders import prototypes
from drv.simulator.outsiders.c_functions import CFunctions

_STATES = cuda.CUdriverProcAddressQueryResult
_FLAGS = tuple(int(each) for each in cuda.CUdriverProcAddress_flags)
_PER_THREAD = int(cuda.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)


class EntryPointCalls(DriverState):
    """``cuGetProcAddress``, whose addresses are those of C functions that end in this driver, and ``cuGetExportTable``."""

    @cached_property
    def _c_functions(self) -> CFunctions:
        return CFunctions(self)

    @call(2, uninitialised=True)
    def cuGetProcAddress(self, symbol: Any, cudaVersion: Any, flags: Any) -> tuple[Any, ...]:
        if symbol is None or unsigned(flags) not in _FLAGS:
            raise invalid_value()
        name, version = text(symbol).decode(errors="replace"), integer(cudaVersion)
        try:
            form = prototypes.chosen(name, version, per_thread=unsigned(flags) == _PER_THREAD)
        except KeyError:
            return SUCCESS, 0, _STATES.CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
        except LibraryNotInstalledError:
            # Which form of a function a version has is known from CUDA's headers.
            raise CallError(CUresult.CUDA_ERROR_NOT_FOUND) from None
        if form is None:
            return SUCCESS, 0, _STATES.CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
        address = ctypes.cast(self._c_functions.function(form), ctypes.c_void_p).value
        return SUCCESS, address, _STATES.CU_GET_PROC_ADDRESS_SUCCESS

    @call(1, uninitialised=True)
    def cuGetExportTable(self, pExportTableId: Any) -> tuple[Any, ...]:
        # The tables are not documented, and one of them is how NVIDIA's runtime library tells NVIDIA's driver from others.
        structure(pExportTableId, cuda.CUuuid)
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
