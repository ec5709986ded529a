"""Driver calls of the linker, whose inputs and result are PTX here."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_handle,
    invalid_value,
    text,
    unsigned,
)
from drv.simulator.ptx.linking import link

from .library import LibraryCalls
from .module_image import check_jit_options, image_bytes, jit_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.options import Options

_INPUTS = cuda.CUjitInputType


@dataclass(slots=True)
class _Linking:
    """What a link state holds."""

    options: Any
    values: Any
    inputs: list[str] = field(default_factory=list)
    #: The result, which lives as long as the state.
    result: Any = None


class LinkerCalls(LibraryCalls):
    """``cuLink*``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.linkings: dict[int, _Linking] = {}

    @call(1)
    def cuLinkCreate(self, numOptions: Any, options: Any, optionValues: Any) -> tuple[Any, ...]:
        self.current()
        check_jit_options(unsigned(numOptions, 32), options, optionValues)
        handle = self.new_handle()
        self.linkings[handle] = _Linking(options, optionValues)
        return SUCCESS, cuda.CUlinkState(handle)

    @call()
    def cuLinkAddData(
        self,
        state: Any,
        typename: Any,
        data: Any,
        size: Any,
        name: Any,
        numOptions: Any,
        options: Any,
        optionValues: Any,
    ) -> tuple[Any, ...]:
        linking = self._linking(state)
        check_jit_options(unsigned(numOptions, 32), options, optionValues)
        if isinstance(data, int):
            if data == 0 or unsigned(size) == 0:
                raise invalid_value()
            code = ctypes.string_at(data, unsigned(size))
        else:
            code = image_bytes(data)[: unsigned(size)]
        self._add(linking, typename, code)
        return OK

    @call()
    def cuLinkAddFile(
        self, state: Any, typename: Any, path: Any, numOptions: Any, options: Any, optionValues: Any
    ) -> tuple[Any, ...]:
        linking = self._linking(state)
        check_jit_options(unsigned(numOptions, 32), options, optionValues)
        try:
            code = Path(os.fsdecode(text(path))).read_bytes()
        except OSError:
            raise CallError(CUresult.CUDA_ERROR_FILE_NOT_FOUND) from None
        self._add(linking, typename, code)
        return OK

    @call(2)
    def cuLinkComplete(self, state: Any) -> tuple[Any, ...]:
        linking = self._linking(state)
        if not linking.inputs:
            raise CallError(CUresult.CUDA_ERROR_INVALID_IMAGE)
        try:
            linked = link(linking.inputs).encode()
        except ValueError as error:
            jit_log(linking.options, linking.values, f"error   : {error}")
            raise CallError(CUresult.CUDA_ERROR_INVALID_PTX) from None
        linking.result = ctypes.create_string_buffer(linked)
        return SUCCESS, ctypes.addressof(linking.result), len(linked) + 1

    @call()
    def cuLinkDestroy(self, state: Any) -> tuple[Any, ...]:
        self._linking(state)
        del self.linkings[integer(state)]
        return OK

    def _linking(self, state: Any) -> _Linking:
        try:
            return self.linkings[integer(state)]
        except KeyError:
            raise invalid_handle() from None

    def _add(self, linking: _Linking, input_type: Any, code: bytes) -> None:
        try:
            parsed_type = _INPUTS(integer(input_type))
        except ValueError:
            raise invalid_value() from None
        # What is called a cubin may be PTX here, from a compiler that was asked for one.
        if (
            parsed_type not in (_INPUTS.CU_JIT_INPUT_PTX, _INPUTS.CU_JIT_INPUT_CUBIN)
            or code[:4] == b"\x7fELF"
        ):
            log = f"error   : the simulated driver links PTX, and no {parsed_type.name.removeprefix('CU_JIT_INPUT_')}"
            jit_log(linking.options, linking.values, log)
            raise CallError(CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU)
        linking.inputs.append(code.split(b"\0", 1)[0].decode("utf-8", errors="replace"))
