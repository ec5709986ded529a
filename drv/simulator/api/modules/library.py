"""Driver calls of libraries: modules that are loaded into a context when a kernel of theirs is first used there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.api.launch import LaunchCalls
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

from .module import (
    LoadedFunction,
    LoadedModule,
    function_attribute,
    module_variable,
    parameter_range,
    set_function_attribute,
    symbol_name,
)
from .module_image import ImageError, check_jit_options, image_bytes, jit_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.driver_state import Context
    from drv.simulator.memory.records import MemoryRecord
    from drv.simulator.options import Options
    from drv.simulator.ptx import Module


@dataclass(slots=True, eq=False)
class LoadedLibrary:
    """A library: its image, and the modules it has become by context."""

    handle: int
    image: bytes
    parsed: Module
    modules: dict[int, LoadedModule] = field(default_factory=dict)
    kernels: dict[str, LibraryKernel] = field(default_factory=dict)
    #: Managed variables, which all contexts share.
    managed: dict[str, MemoryRecord] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class LibraryKernel:
    """A kernel of a library, of no context yet."""

    handle: int
    library: LoadedLibrary
    name: str


class LibraryCalls(LaunchCalls):
    """``cuLibrary*`` and ``cuKernel*``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.libraries: dict[int, LoadedLibrary] = {}
        self.kernels: dict[int, LibraryKernel] = {}

    @call(1)
    def cuLibraryLoadData(
        self,
        code: Any,
        jitOptions: Any,
        jitOptionsValues: Any,
        numJitOptions: Any,
        libraryOptions: Any,
        libraryOptionValues: Any,
        numLibraryOptions: Any,
    ) -> tuple[Any, ...]:
        check_jit_options(unsigned(numJitOptions, 32), jitOptions, jitOptionsValues)
        return self._load_library(image_bytes(code), jitOptions, jitOptionsValues)

    @call(1)
    def cuLibraryLoadFromFile(
        self,
        fileName: Any,
        jitOptions: Any,
        jitOptionsValues: Any,
        numJitOptions: Any,
        libraryOptions: Any,
        libraryOptionValues: Any,
        numLibraryOptions: Any,
    ) -> tuple[Any, ...]:
        check_jit_options(unsigned(numJitOptions, 32), jitOptions, jitOptionsValues)
        try:
            data = Path(os.fsdecode(text(fileName))).read_bytes()
        except OSError:
            raise CallError(CUresult.CUDA_ERROR_FILE_NOT_FOUND) from None
        return self._load_library(data, jitOptions, jitOptionsValues)

    def _load_library(self, image: bytes, options: Any, values: Any) -> tuple[Any, ...]:
        try:
            parsed = self.images.acquire(image)
        except ImageError as error:
            jit_log(options, values, error.log)
            return error.status, None
        library = LoadedLibrary(self.new_handle(), image, parsed)
        self.libraries[library.handle] = library
        return SUCCESS, cuda.CUlibrary(library.handle)

    @call()
    def cuLibraryUnload(self, library: Any) -> tuple[Any, ...]:
        loaded = self._library(library)
        for module in loaded.modules.values():
            if self.modules.get(module.handle) is module:
                self._unload(module)
        for record in loaded.managed.values():
            self.release(record)
        for kernel in loaded.kernels.values():
            del self.kernels[kernel.handle]
        del self.libraries[loaded.handle]
        self.images.release(loaded.image)
        return OK

    def _library(self, library: Any) -> LoadedLibrary:
        loaded = self.libraries.get(integer(library))
        if loaded is None:
            raise invalid_handle()
        return loaded

    def _module_in(self, library: LoadedLibrary, context: Context) -> LoadedModule:
        module = library.modules.get(context.handle)
        if module is None or self.modules.get(module.handle) is not module:
            try:
                module = self.load_module(context, library.image, library.managed)
            except ImageError as error:
                raise CallError(error.status) from None
            library.modules[context.handle] = module
        return module

    @call(1)
    def cuLibraryGetKernel(self, library: Any, name: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUkernel(self._kernel_of(self._library(library), symbol_name(name)).handle)

    def _kernel_of(self, library: LoadedLibrary, name: str) -> LibraryKernel:
        kernel = library.kernels.get(name)
        if kernel is None:
            if name not in library.parsed.entries:
                raise CallError(CUresult.CUDA_ERROR_NOT_FOUND)
            kernel = library.kernels[name] = LibraryKernel(self.new_handle(), library, name)
            self.kernels[kernel.handle] = kernel
        return kernel

    @call(1)
    def cuLibraryGetKernelCount(self, lib: Any) -> tuple[Any, ...]:
        return SUCCESS, len(self._library(lib).parsed.entries)

    @call(1)
    def cuLibraryEnumerateKernels(self, numKernels: Any, lib: Any) -> tuple[Any, ...]:
        library = self._library(lib)
        names = list(library.parsed.entries)[: unsigned(numKernels, 32)]
        return SUCCESS, [cuda.CUkernel(self._kernel_of(library, name).handle) for name in names]

    @call(1)
    def cuLibraryGetModule(self, library: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUmodule(self._module_in(self._library(library), self.current()).handle)

    @call(2)
    def cuLibraryGetGlobal(self, library: Any, name: Any) -> tuple[Any, ...]:
        module = self._module_in(self._library(library), self.current())
        return (SUCCESS, *module_variable(module, symbol_name(name)))

    @call(2)
    def cuLibraryGetManaged(self, library: Any, name: Any) -> tuple[Any, ...]:
        loaded, variable = self._library(library), symbol_name(name)
        known = loaded.parsed.variables.get(variable)
        if known is None or not known.managed:
            raise CallError(CUresult.CUDA_ERROR_NOT_FOUND)
        if variable not in loaded.managed:
            self._module_in(loaded, self.current())
        return SUCCESS, cuda.CUdeviceptr(loaded.managed[variable].allocation.base), known.size

    @call(1)
    def cuLibraryGetUnifiedFunction(self, library: Any, symbol: Any) -> tuple[Any, ...]:
        # Devices that have none of these pointers, as their attribute says, have none of these functions.
        self._library(library)
        symbol_name(symbol)
        raise CallError(CUresult.CUDA_ERROR_NOT_FOUND)

    # Kernels

    @call()
    def cuKernelSetCacheConfig(self, kernel: Any, config: Any, dev: Any) -> tuple[Any, ...]:
        self.kernel(kernel)
        self.device(dev)
        if integer(config) not in range(4):
            raise invalid_value()
        return OK

    def kernel(self, kernel: Any) -> LibraryKernel:
        known = self.kernels.get(integer(kernel))
        if known is None:
            raise invalid_handle()
        return known

    def _asked_kernel(self, kernel: Any) -> LibraryKernel:
        """The kernel that a question about its name or parameters is about."""
        if integer(kernel) == 0:
            raise invalid_value()
        return self.kernel(kernel)

    def function_in(self, kernel: LibraryKernel, context: Context) -> LoadedFunction:
        return self.module_function(self._module_in(kernel.library, context), kernel.name)

    def _function_on(self, kernel: Any, dev: Any) -> LoadedFunction:
        context = self.primary.get(self.device(dev).ordinal)
        if context is None:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return self.function_in(self.kernel(kernel), self.usable(context))

    def launchable(self, f: Any) -> LoadedFunction:
        """A function, or a library's kernel in the current context."""
        handle = f if type(f) is int else integer(f)
        function = self.functions.get(handle)
        if function is None:
            return self.function_in(self.kernel(handle), self.current())
        return function

    @call(1)
    def cuKernelGetFunction(self, kernel: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUfunction(self.function_in(self.kernel(kernel), self.current()).handle)

    @call(1)
    def cuKernelGetLibrary(self, kernel: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUlibrary(self.kernel(kernel).library.handle)

    @call(1)
    def cuKernelGetName(self, hfunc: Any) -> tuple[Any, ...]:
        return SUCCESS, self._asked_kernel(hfunc).name.encode()

    @call(1)
    def cuKernelGetParamCount(self, kernel: Any) -> tuple[Any, ...]:
        return SUCCESS, len(self.function_in(self._asked_kernel(kernel), self.current()).parameters)

    @call(2)
    def cuKernelGetParamInfo(self, kernel: Any, paramIndex: Any) -> tuple[Any, ...]:
        function = self.function_in(self._asked_kernel(kernel), self.current())
        return (SUCCESS, *parameter_range(function, paramIndex))

    @call(1)
    def cuKernelGetAttribute(self, attrib: Any, kernel: Any, dev: Any) -> tuple[Any, ...]:
        return SUCCESS, function_attribute(self._function_on(kernel, dev), attrib)

    @call()
    def cuKernelSetAttribute(self, attrib: Any, val: Any, kernel: Any, dev: Any) -> tuple[Any, ...]:
        self.accepted.clear()
        set_function_attribute(self._function_on(kernel, dev), attrib, integer(val))
        return OK
