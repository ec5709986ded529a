"""Driver calls that launch kernels as before CUDA 4: a block and parameters that are set first."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    CallError,
    call,
    host_address,
    integer,
    invalid_value,
    signed,
    unsigned,
)

from .launch import LaunchCalls, check_dimensions
from .modules.kernel_parameters import PackedParameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.options import Options

    from .modules.module import LoadedFunction

#: Bytes of parameters that a kernel can have.
_PARAMETER_BYTES = 4096
_BANK_SIZES = tuple(int(each) for each in cuda.CUsharedconfig)


@dataclass(slots=True)
class _Settings:
    """What was set for the launches of a kernel."""

    block: tuple[int, int, int] | None = None
    shared: int = 0
    size: int = 0
    parameters: bytearray = field(default_factory=lambda: bytearray(_PARAMETER_BYTES))


class LegacyLaunchCalls(LaunchCalls):
    """``cuLaunch``, ``cuLaunchGrid*``, ``cuParamSet*``, ``cuFuncSetBlockShape``, ``cuFuncSetSharedSize``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        #: By handles of functions.
        self._settings: dict[int, _Settings] = {}

    def _settings_of(self, function: LoadedFunction) -> _Settings:
        return self._settings.setdefault(function.handle, _Settings())

    @call()
    def cuFuncSetBlockShape(self, hfunc: Any, x: Any, y: Any, z: Any) -> tuple[Any, ...]:
        function, block = self.function(hfunc), (signed(x), signed(y), signed(z))
        check_dimensions(function, (1, 1, 1), block, 0)
        self._settings_of(function).block = block
        return OK

    @call()
    def cuFuncSetSharedSize(self, hfunc: Any, numbytes: Any) -> tuple[Any, ...]:
        function, size = self.function(hfunc), unsigned(numbytes, 32)
        if size > function.max_dynamic_shared:
            raise invalid_value()
        self._settings_of(function).shared = size
        return OK

    @call()
    def cuFuncSetSharedMemConfig(self, hfunc: Any, config: Any) -> tuple[Any, ...]:
        self.function(hfunc)
        if integer(config) not in _BANK_SIZES:
            raise invalid_value()
        return OK

    @call()
    def cuParamSetSize(self, hfunc: Any, numbytes: Any) -> tuple[Any, ...]:
        function, size = self.function(hfunc), unsigned(numbytes, 32)
        if size > _PARAMETER_BYTES:
            raise invalid_value()
        self._settings_of(function).size = size
        return OK

    @call()
    def cuParamSeti(self, hfunc: Any, offset: Any, value: Any) -> tuple[Any, ...]:
        return self._set_parameters(self.function(hfunc), offset, struct.pack("<I", unsigned(value, 32)))

    @call()
    def cuParamSetf(self, hfunc: Any, offset: Any, value: Any) -> tuple[Any, ...]:
        return self._set_parameters(self.function(hfunc), offset, struct.pack("<f", float(value)))

    @call()
    def cuParamSetv(self, hfunc: Any, offset: Any, ptr: Any, numbytes: Any) -> tuple[Any, ...]:
        function, address, size = self.function(hfunc), host_address(ptr), unsigned(numbytes, 32)
        if address == 0 or size > _PARAMETER_BYTES:
            raise invalid_value()
        return self._set_parameters(function, offset, ctypes.string_at(address, size))

    @call()
    def cuParamSetTexRef(self, hfunc: Any, texunit: Any, hTexRef: Any) -> tuple[Any, ...]:
        # It has had no effect since texture references are bound through their modules.
        self.function(hfunc)
        if signed(texunit) != cuda.CU_PARAM_TR_DEFAULT:
            raise invalid_value()
        return OK

    def _set_parameters(self, function: LoadedFunction, offset: Any, data: bytes) -> tuple[Any, ...]:
        start = signed(offset)
        if not 0 <= start <= _PARAMETER_BYTES - len(data):
            raise invalid_value()
        self._settings_of(function).parameters[start : start + len(data)] = data
        return OK

    @call()
    def cuLaunch(self, f: Any) -> tuple[Any, ...]:
        return self._launch_grid(f, (1, 1), 0)

    @call()
    def cuLaunchGrid(self, f: Any, grid_width: Any, grid_height: Any) -> tuple[Any, ...]:
        return self._launch_grid(f, (signed(grid_width), signed(grid_height)), 0)

    @call()
    def cuLaunchGridAsync(self, f: Any, grid_width: Any, grid_height: Any, hStream: Any) -> tuple[Any, ...]:
        return self._launch_grid(f, (signed(grid_width), signed(grid_height)), hStream)

    def _launch_grid(self, f: Any, grid: tuple[int, int], hStream: Any) -> tuple[Any, ...]:
        function, stream = self.function(f), self.stream(hStream)
        settings = self._settings_of(function)
        if settings.block is None or settings.size < function.parameter_bytes:
            raise invalid_value()
        values = PackedParameters(settings.parameters[: function.parameter_bytes])
        return self._launch(function, (*grid, 1), settings.block, settings.shared, stream, values, 0)

    @call()
    def cuLaunchCooperativeKernelMultiDevice(
        self, launchParamsList: Any, numDevices: Any, flags: Any
    ) -> tuple[Any, ...]:
        # CUDA 13 has taken it away.
        self.current()
        if unsigned(numDevices, 32) == 0 or not launchParamsList or unsigned(flags, 32) > 3:
            raise invalid_value()
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
