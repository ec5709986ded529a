"""Driver calls about modules, their kernels and their variables."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.kernel_names import readable
from drv.simulator.device_properties import (
    MAX_THREADS_PER_BLOCK,
    REGISTERS_PER_MULTIPROCESSOR,
    SHARED_PER_BLOCK,
)
from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    from_finalizer,
    integer,
    invalid_handle,
    invalid_value,
    text,
    unsigned,
)
from drv.simulator.memory.address_space import MemoryKind
from drv.simulator.memory.records import MemoryBook, MemoryRecord

from .module_image import ImageCache, ImageError, check_jit_options, check_target, image_bytes, jit_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.driver_state import Context
    from drv.simulator.options import Options
    from drv.simulator.ptx import Function, Module
    from drv.simulator.ptx.program import Variable

#: Registers per thread that are assumed at most: PTX does not say how many the hardware's code needs.
_MAX_REGISTERS = 255
_ATTACH_GLOBAL = int(cuda.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)


@dataclass(slots=True, eq=False)
class LoadedFunction:
    """A kernel in a context."""

    handle: int
    module: LoadedModule
    kernel: Function
    label: str
    context: Context
    static_shared: int
    max_threads: int
    registers: int
    max_dynamic_shared: int
    carveout: int = -1
    #: Whether its clusters may have more blocks than every device with clusters allows.
    non_portable_cluster: bool = False
    cluster_policy: int = 0
    #: ``(offset, size)`` of each parameter, and bytes of them all.
    parameters: tuple[tuple[int, int], ...] = ()
    parameter_bytes: int = 0
    #: ctypes array type of the table of parameter addresses; made by the first launch.
    table: Any = None


@dataclass(slots=True, eq=False)
class LoadedModule:
    """A module in a context: its kernels by name and the addresses of its variables."""

    handle: int
    context: Context
    image: bytes
    parsed: Module
    symbols: dict[str, int] = field(default_factory=dict)
    variables: list[MemoryRecord] = field(default_factory=list)
    functions: dict[str, LoadedFunction] = field(default_factory=dict)
    #: Managed variables, where these are a library's.
    managed: dict[str, MemoryRecord] | None = None


class ModuleCalls(MemoryBook):
    """``cuModule*`` and ``cuFunc*``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.images = ImageCache()
        self.modules: dict[int, LoadedModule] = {}
        self.functions: dict[int, LoadedFunction] = {}

    # Loading

    def load_module(
        self, context: Context, image: bytes, managed: dict[str, MemoryRecord] | None = None
    ) -> LoadedModule:
        """Load ``image`` into ``context``. Raises :class:`ImageError`.

        Managed variables are put into ``managed``, where they are another's to give back, or are there already.
        """
        parsed = self.images.acquire(image)
        module = LoadedModule(self.new_handle(), context, image, parsed, managed=managed)
        try:
            check_target(parsed.target, context.device.capability)
            self._make_variables(module)
        except (ImageError, CallError):
            self._drop_variables(module)
            self.images.release(image)
            raise
        self.modules[module.handle] = module
        return module

    def _make_variables(self, module: LoadedModule) -> None:
        new = []
        for variable in module.parsed.variables.values():
            record = (module.managed or {}).get(variable.name) if variable.managed else None
            if record is None:
                record = self._new_variable(module, variable)
                new.append((variable, record))
            module.symbols[variable.name] = record.allocation.base
        if not self.execute:
            return
        addresses = module.parsed.code_addresses | module.symbols
        for variable, record in new:
            data = record.allocation.data
            initial = np.frombuffer(variable.initial, np.uint8)
            data[: initial.size] = initial
            for offset, symbol, addend in variable.relocations:
                target = addresses.get(symbol)
                if target is None:
                    raise ImageError(
                        CUresult.CUDA_ERROR_INVALID_PTX,
                        f"ptxas application ptx input: {variable.name!r} refers to {symbol!r}, which is not defined",
                    )
                data[offset : offset + 8] = np.frombuffer(
                    ((target + addend) % 2**64).to_bytes(8, "little"), np.uint8
                )

    def _new_variable(self, module: LoadedModule, variable: Variable) -> MemoryRecord:
        size = max(variable.size, 1)
        if not variable.managed:
            record = self.allocate(module.context, size, "module", MemoryKind.VARIABLE, variable.name)
            module.variables.append(record)
            return record
        shared = module.managed is not None
        context, stack = None if shared else module.context, self.recorder.take()
        record = self.book_host_memory(size, MemoryKind.MANAGED, context, "module", stack, _ATTACH_GLOBAL)
        record.attached, record.allocation.name = _ATTACH_GLOBAL, variable.name
        if module.managed is None:
            module.variables.append(record)
        else:
            module.managed[variable.name] = record
        return record

    def _drop_variables(self, module: LoadedModule) -> None:
        for record in module.variables:
            if self.records.get(record.allocation.base) is record:
                self.release(record)
        module.variables.clear()

    @call(1, unsafe=True)
    def cuModuleLoad(self, fname: Any) -> tuple[Any, ...]:
        context = self.current()
        try:
            data = Path(os.fsdecode(text(fname))).read_bytes()
        except OSError:
            raise CallError(CUresult.CUDA_ERROR_FILE_NOT_FOUND) from None
        return self._load(context, data, (), ())

    @call(1, unsafe=True)
    def cuModuleLoadData(self, image: Any) -> tuple[Any, ...]:
        context = self.current()
        return self._load(context, image_bytes(image), (), ())

    @call(1, unsafe=True)
    def cuModuleLoadDataEx(
        self, image: Any, numOptions: Any, options: Any, optionValues: Any
    ) -> tuple[Any, ...]:
        context = self.current()
        check_jit_options(unsigned(numOptions, 32), options, optionValues)
        return self._load(context, image_bytes(image), options, optionValues)

    @call(1, unsafe=True)
    def cuModuleLoadFatBinary(self, fatCubin: Any) -> tuple[Any, ...]:
        self.current()
        image_bytes(fatCubin)
        raise CallError(CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU)

    def _load(self, context: Context, image: bytes, options: Any, values: Any) -> tuple[Any, ...]:
        try:
            module = self.load_module(context, image)
        except ImageError as error:
            jit_log(options, values, error.log)
            return error.status, None
        return SUCCESS, cuda.CUmodule(module.handle)

    @from_finalizer
    @call(unsafe=True)
    def cuModuleUnload(self, hmod: Any) -> tuple[Any, ...]:
        module = self.module(hmod)
        self.usable(module.context)
        # Work that is queued may still use the variables. It is run first, and orders nothing by that.
        for stream in module.context.all_streams():
            if stream.last is not None and not stream.last.done:
                self.scheduler.complete(stream.last)
        self._unload(module)
        return OK

    def _unload(self, module: LoadedModule) -> None:
        self.accepted.clear()
        for function in module.functions.values():
            del self.functions[function.handle]
        del self.modules[module.handle]
        self._drop_variables(module)
        self.images.release(module.image)

    def release_modules(self, context: Context) -> None:
        """Unload what was loaded into ``context``."""
        for module in [m for m in self.modules.values() if m.context is context]:
            self._unload(module)

    @call(1)
    def cuModuleGetLoadingMode(self) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUmoduleLoadingMode.CU_MODULE_LAZY_LOADING

    # What a module holds

    def module(self, hmod: Any) -> LoadedModule:
        """The module that a handle names."""
        loaded = self.modules.get(integer(hmod))
        if loaded is None:
            raise invalid_handle()
        return loaded

    def module_function(self, module: LoadedModule, name: str) -> LoadedFunction:
        """The kernel ``name`` of ``module``."""
        function = module.functions.get(name)
        if function is None:
            kernel = module.parsed.entries.get(name)
            if kernel is None:
                raise CallError(CUresult.CUDA_ERROR_NOT_FOUND)
            function = module.functions[name] = _function(self.new_handle(), module, kernel)
            self.functions[function.handle] = function
        return function

    @call(1)
    def cuModuleGetFunction(self, hmod: Any, name: Any) -> tuple[Any, ...]:
        module = self.module(hmod)
        return SUCCESS, cuda.CUfunction(self.module_function(module, symbol_name(name)).handle)

    @call(1)
    def cuModuleGetFunctionCount(self, mod: Any) -> tuple[Any, ...]:
        return SUCCESS, len(self.module(mod).parsed.entries)

    @call(1)
    def cuModuleEnumerateFunctions(self, numFunctions: Any, mod: Any) -> tuple[Any, ...]:
        module = self.module(mod)
        names = list(module.parsed.entries)[: unsigned(numFunctions, 32)]
        return SUCCESS, [cuda.CUfunction(self.module_function(module, name).handle) for name in names]

    @call(2)
    def cuModuleGetGlobal(self, hmod: Any, name: Any) -> tuple[Any, ...]:
        module = self.module(hmod)
        return (SUCCESS, *module_variable(module, symbol_name(name)))

    # Functions

    def function(self, hfunc: Any) -> LoadedFunction:
        """The function that a handle names."""
        loaded = self.functions.get(hfunc if type(hfunc) is int else integer(hfunc))
        if loaded is None:
            raise invalid_handle()
        return loaded

    def _asked_function(self, hfunc: Any) -> LoadedFunction:
        """The function that a question about its name or parameters is about."""
        if integer(hfunc) == 0:
            raise invalid_value()
        return self.function(hfunc)

    @call(1)
    def cuFuncGetModule(self, hfunc: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUmodule(self.function(hfunc).module.handle)

    @call(1)
    def cuFuncGetName(self, hfunc: Any) -> tuple[Any, ...]:
        return SUCCESS, self._asked_function(hfunc).kernel.name.encode()

    @call(1)
    def cuFuncGetParamCount(self, func: Any) -> tuple[Any, ...]:
        return SUCCESS, len(self._asked_function(func).parameters)

    @call(2)
    def cuFuncGetParamInfo(self, func: Any, paramIndex: Any) -> tuple[Any, ...]:
        return (SUCCESS, *parameter_range(self._asked_function(func), paramIndex))

    @call(1)
    def cuFuncIsLoaded(self, function: Any) -> tuple[Any, ...]:
        self.function(function)
        return SUCCESS, cuda.CUfunctionLoadingState.CU_FUNCTION_LOADING_STATE_LOADED

    @call()
    def cuFuncLoad(self, function: Any) -> tuple[Any, ...]:
        self.function(function)
        return OK

    @call(1)
    def cuFuncGetAttribute(self, attrib: Any, hfunc: Any) -> tuple[Any, ...]:
        return SUCCESS, function_attribute(self.function(hfunc), attrib)

    @call()
    def cuFuncSetAttribute(self, hfunc: Any, attrib: Any, value: Any) -> tuple[Any, ...]:
        self.accepted.clear()
        set_function_attribute(self.function(hfunc), attrib, integer(value))
        return OK

    @call()
    def cuFuncSetCacheConfig(self, hfunc: Any, config: Any) -> tuple[Any, ...]:
        self.function(hfunc)
        if integer(config) not in range(4):
            raise invalid_value()
        return OK


def parameter_range(function: LoadedFunction, index: Any) -> tuple[int, int]:
    """Offset and size in bytes of a parameter."""
    number = unsigned(index)
    if number >= len(function.parameters):
        raise invalid_value()
    return function.parameters[number]


def function_attribute(function: LoadedFunction, attrib: Any) -> int:
    """Value of a ``CUfunction_attribute``."""
    kernel, capability = function.kernel, function.context.device.capability
    attributes = cuda.CUfunction_attribute
    try:
        attribute = attributes(integer(attrib))
    except ValueError:
        raise invalid_value() from None
    if attribute == attributes.CU_FUNC_ATTRIBUTE_MAX:
        raise invalid_value()
    values = {
        attributes.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: function.max_threads,
        attributes.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: function.static_shared,
        attributes.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: kernel.local_bytes,
        attributes.CU_FUNC_ATTRIBUTE_NUM_REGS: function.registers,
        attributes.CU_FUNC_ATTRIBUTE_PTX_VERSION: capability[0] * 10 + capability[1],
        attributes.CU_FUNC_ATTRIBUTE_BINARY_VERSION: capability[0] * 10 + capability[1],
        attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: function.max_dynamic_shared,
        attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: function.carveout,
        attributes.CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: kernel.explicit_cluster,
        attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: function.non_portable_cluster,
        attributes.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: function.cluster_policy,
    }
    if kernel.cluster is not None:
        for size, axis in zip(kernel.cluster, ("WIDTH", "HEIGHT", "DEPTH"), strict=True):
            values[getattr(attributes, f"CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_{axis}")] = size
    return int(values.get(attribute, 0))


def set_function_attribute(function: LoadedFunction, attrib: Any, value: int) -> None:
    """Change one of the attributes that can be changed."""
    attributes = cuda.CUfunction_attribute
    attribute = integer(attrib)
    if attribute == attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        limit = function.context.device.architecture.shared_per_block_optin - function.static_shared
        if not 0 <= value <= limit:
            raise invalid_value()
        function.max_dynamic_shared = value
    elif attribute == attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if not -1 <= value <= 100:
            raise invalid_value()
        function.carveout = value
    elif attribute == attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        function.non_portable_cluster = bool(value)
    elif attribute == attributes.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if value not in range(3):
            raise invalid_value()
        function.cluster_policy = value
    else:
        raise invalid_value()


def _function(handle: int, module: LoadedModule, kernel: Function) -> LoadedFunction:
    static_shared = kernel.static_shared_bytes
    registers = min(max(kernel.registers, 16), _MAX_REGISTERS)
    fitting = REGISTERS_PER_MULTIPROCESSOR // registers // 32 * 32
    max_threads = min(kernel.max_threads or MAX_THREADS_PER_BLOCK, MAX_THREADS_PER_BLOCK)
    if fitting < max_threads:
        # The compiler spills to keep a launch of the declared size, or of 1024 threads, possible.
        registers = max(REGISTERS_PER_MULTIPROCESSOR // max_threads // 8 * 8, 16)
    return LoadedFunction(
        handle,
        module,
        kernel,
        f"kernel '{readable(kernel.name)}'",
        module.context,
        static_shared,
        max_threads,
        registers,
        max(SHARED_PER_BLOCK - static_shared, 0),
        parameters=tuple((offset, size) for _, offset, size, _ in kernel.parameters),
        parameter_bytes=kernel.parameter_bytes,
    )


def module_variable(module: LoadedModule, name: str) -> tuple[cuda.CUdeviceptr, int]:
    """Address and size in bytes of a variable."""
    variable = module.parsed.variables.get(name)
    if variable is None:
        raise CallError(CUresult.CUDA_ERROR_NOT_FOUND)
    return cuda.CUdeviceptr(module.symbols[name]), variable.size


def symbol_name(name: Any) -> str:
    """Text of a ``char *`` argument that names a symbol."""
    if name is None:
        raise invalid_value()
    return text(name).decode(errors="replace")
