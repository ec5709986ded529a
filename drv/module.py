"""Modules of compiled code, their kernels and their variables."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from .capture_mode import unseen_by_captures
from .current import current_device
from .errors import InvalidHandleError, ModuleLoadError, NotFoundError
from .failures import failure
from .launch import launch

if TYPE_CHECKING:
    from .device import Device
    from .stream import Stream

_LOG_BYTES = 16 << 10
_NOT_FOUND = 500
_ATTRIBUTE_PREFIX = "CU_FUNC_ATTRIBUTE_"


class Parameter(NamedTuple):
    """Where a kernel takes a parameter: a range of its parameter space, as :attr:`Function.parameters` lists them.

    Attributes
    ----------
    offset, size : int
        Bytes.
    """

    offset: int
    size: int


class Module:
    """Compiled code, loaded into a device's context.

    Parameters
    ----------
    image : bytes or str
        PTX text or a cubin, such as :attr:`CompiledProgram.image`.
    device : Device, optional
        Where to load it; this thread's current device by default.

    Raises
    ------
    ModuleLoadError
        If the driver does not accept the image; ``log`` holds what its linker said.

    Examples
    --------
    >>> source = 'extern "C" __global__ void set(int* out, int value) { *out = value; }'
    >>> program = drv.compile_program(source, "compute_90")
    >>> kernel = drv.Module(program.image).function("set")
    >>> memory = drv.DeviceMemory(4)
    >>> kernel.launch(1, 1, (memory, np.int32(7)))
    >>> out = np.zeros(1, np.int32)
    >>> drv.copy_to_host(out, memory)
    >>> int(out[0])
    7
    """

    def __init__(self, image: bytes | str, device: Device | None = None) -> None:
        self._handle: Any = None
        if device is None:
            device = current_device()
        self.device = device
        self.runtime = device.runtime
        self._functions: dict[str, Function] = {}
        self._lock = threading.Lock()
        device.make_current()
        self.runtime.collect()
        self._handle = _load(device, image.encode() if isinstance(image, str) else image)

    @property
    def handle(self) -> Any:
        """``CUmodule``, as the driver's functions take it.

        Raises
        ------
        InvalidHandleError
            After :meth:`unload`.
        """
        if self._handle is None:
            raise InvalidHandleError("this module was unloaded")
        return self._handle

    def function(self, name: str) -> Function:
        """The kernel called ``name`` (mangled, unless it is ``extern "C"``).

        Raises
        ------
        NotFoundError
            If there is none.
        """
        function = self._functions.get(name)
        if function is None:
            self.device.use()
            runtime = self.runtime
            result = runtime.driver.cuModuleGetFunction(self.handle, name.encode())
            if result[0] and int(result[0]) == _NOT_FOUND:
                raise NotFoundError(
                    f'the module has no kernel {name!r}: declare it extern "C", or ask for its mangled name',
                    status=result[0].name,
                    call="cuModuleGetFunction",
                )
            handle = runtime.check(result, "cuModuleGetFunction", name)
            with self._lock:
                function = self._functions.setdefault(name, Function(self, name, handle))
        return function

    def global_variable(self, name: str) -> tuple[int, int]:
        """Address and size in bytes of a ``__device__`` or ``__constant__`` variable.

        Raises
        ------
        NotFoundError
            If there is none of that name.
        """
        self.device.use()
        result = self.runtime.driver.cuModuleGetGlobal(self.handle, name.encode())
        if result[0] and int(result[0]) == _NOT_FOUND:
            raise NotFoundError(
                f"the module has no variable {name!r}", status=result[0].name, call="cuModuleGetGlobal"
            )
        address, size = self.runtime.check(result, "cuModuleGetGlobal", name)
        return int(address), int(size)

    def unload(self) -> None:
        """Unload the code from the context. Its kernels must not be running. A second call does nothing.

        Every other use of the module after that raises InvalidHandleError.
        """
        if self._handle is not None:
            self.device.use()
            handle, self._handle = self._handle, None
            self.runtime.check(self.runtime.driver.cuModuleUnload(handle), "cuModuleUnload")

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.runtime.release(self.device, "cuModuleUnload", self._handle)


class Function:
    """A kernel of a loaded module, which it keeps alive.

    Attributes
    ----------
    name : str
        Name in the module.
    handle
        ``CUfunction``, as the driver's functions take it.
    parameters : tuple of Parameter, or None
        Where each parameter lies; ``None`` where the driver cannot tell.
    """

    def __init__(self, module: Module, name: str, handle: Any) -> None:
        self.module = module
        self.device = module.device
        self.runtime = module.runtime
        self.name = name
        self.handle = handle
        self.parameters = _parameters(self)
        #: Prepared launches by the types of their arguments.
        self.launchers: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<drv.Function {self.name!r} on device {self.device.ordinal}>"

    def attribute(self, name: str) -> int:
        """Value of a function attribute, by its name in CUDA, such as ``"NUM_REGS"``.

        Raises
        ------
        NotFoundError
            If CUDA has no function attribute of that name.
        """
        self.device.use()
        driver = self.runtime.driver
        result = driver.cuFuncGetAttribute(_attribute(name), self.handle)
        return int(self.runtime.check(result, "cuFuncGetAttribute", name, self.name))

    def set_attribute(self, name: str, value: int) -> None:
        """Change a function attribute, by its name in CUDA, such as ``"PREFERRED_SHARED_MEMORY_CARVEOUT"`` (percent).

        Raises
        ------
        NotFoundError
            If CUDA has no function attribute of that name.
        InvalidValueError
            If the attribute cannot be changed, or not to ``value``.
        """
        self.device.use()
        driver = self.runtime.driver
        result = driver.cuFuncSetAttribute(self.handle, _attribute(name), value)
        self.runtime.check(result, "cuFuncSetAttribute", name, value, self.name)

    @property
    def max_threads_per_block(self) -> int:
        """Most threads in a block of this kernel, as far as its registers and launch bounds allow."""
        return self.attribute("MAX_THREADS_PER_BLOCK")

    @property
    def shared_bytes(self) -> int:
        """Static shared memory per block, in bytes."""
        return self.attribute("SHARED_SIZE_BYTES")

    @property
    def local_bytes(self) -> int:
        """Local memory per thread, in bytes."""
        return self.attribute("LOCAL_SIZE_BYTES")

    @property
    def registers(self) -> int:
        """32-bit registers per thread; on the simulated driver an estimate from the PTX, between 16 and 255."""
        return self.attribute("NUM_REGS")

    @property
    def max_dynamic_shared_bytes(self) -> int:
        """Most dynamic shared memory per block, in bytes, that a launch may ask for.

        It can be set, up to the device's ``SHARED_MEMORY_PER_BLOCK_OPTIN`` less the static shared memory; more raises
        :class:`InvalidValueError`.
        """
        return self.attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES")

    @max_dynamic_shared_bytes.setter
    def max_dynamic_shared_bytes(self, nbytes: int) -> None:
        self.set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", nbytes)

    def max_active_blocks(self, block_size: int, dynamic_shared: int = 0) -> int:
        """How many blocks fit on one multiprocessor at a time: CUDA's occupancy calculator.

        Parameters
        ----------
        block_size : int
            Threads in a block.
        dynamic_shared : int
            Dynamic shared memory per block, in bytes.

        Returns
        -------
        int
            Blocks; 0 if not even one fits.

        Raises
        ------
        InvalidValueError
            If ``block_size`` is less than 1.

        Examples
        --------
        >>> source = 'extern "C" __global__ void nothing() {}'
        >>> kernel = drv.Module(drv.compile_program(source, "compute_90").image).function("nothing")
        >>> kernel.max_active_blocks(1024)
        2
        """
        self.device.use()
        driver = self.runtime.driver
        result = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(self.handle, block_size, dynamic_shared)
        return int(
            self.runtime.check(result, "cuOccupancyMaxActiveBlocksPerMultiprocessor", self.name, block_size)
        )

    def suggested_block_size(self, dynamic_shared: int = 0, limit: int = 0) -> tuple[int, int]:
        """Block size with the best occupancy, and the least number of blocks that fill the device.

        Parameters
        ----------
        dynamic_shared : int
            Dynamic shared memory per block, in bytes.
        limit : int
            Largest block size to consider; 0 for the kernel's own limit.

        Returns
        -------
        tuple of int
            ``(block_size, blocks)``.
        """
        from cuda.bindings.driver import CUoccupancyB2DSize

        self.device.use()
        driver = self.runtime.driver
        result = driver.cuOccupancyMaxPotentialBlockSize(
            self.handle, CUoccupancyB2DSize(0), dynamic_shared, limit
        )
        grid, block = self.runtime.check(result, "cuOccupancyMaxPotentialBlockSize", self.name)
        return int(block), int(grid)

    def launch(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        arguments: tuple[Any, ...] = (),
        *,
        shared: int = 0,
        stream: Stream | None = None,
        cooperative: bool = False,
    ) -> None:
        """Launch the kernel: :func:`drv.launch` with this function. It returns once the launch is queued.

        Parameters
        ----------
        grid, block : int or tuple of int
            Blocks in the grid, and threads in a block: up to three numbers each.
        arguments : tuple
            One for each parameter of the kernel; :func:`drv.launch` says what they may be.
        shared : int
            Dynamic shared memory per block, in bytes.
        stream : Stream, optional
            Where to queue the launch; the default stream of the function's device if not given.
        cooperative : bool
            Whether all blocks run at the same time, so that they may wait for one another.

        Raises
        ------
        InvalidValueError, LaunchResourcesError, CudaError
            As :func:`drv.launch`.
        """
        launch(self, grid, block, arguments, shared=shared, stream=stream, cooperative=cooperative)


def _load(device: Device, image: bytes) -> Any:
    from cuda.bindings.driver import CUjit_option

    runtime = device.runtime
    log = bytearray(_LOG_BYTES)
    options = [
        CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        CUjit_option.CU_JIT_LOG_VERBOSE,
    ]
    # A graph that has the module's kernels keeps the module, so a capture need not see that it is loaded.
    with unseen_by_captures(runtime):
        # PTX is read up to a null byte.
        status, handle = runtime.driver.cuModuleLoadDataEx(
            image + b"\0", len(options), options, [log, _LOG_BYTES, 0]
        )
    if status:
        error = failure(runtime, status, f"cuModuleLoadDataEx(module on device {device.ordinal})")
        said = bytes(log).split(b"\0", 1)[0].decode(errors="replace").strip()
        if isinstance(error, ModuleLoadError):
            message = f"{error}\n{said}" if said else str(error)
            raise ModuleLoadError(message, log=said, status=error.status, call=error.call)
        raise error
    return handle


def _parameters(function: Function) -> tuple[Parameter, ...] | None:
    """Parameters, found by asking until there are no more; ``None`` where the driver cannot tell."""
    from cuda.bindings.driver import CUresult

    ask = getattr(function.runtime.driver, "cuFuncGetParamInfo", None)
    if ask is None:
        return None
    parameters: list[Parameter] = []
    try:
        while True:
            status, offset, size = ask(function.handle, len(parameters))
            if status == CUresult.CUDA_ERROR_INVALID_VALUE:
                return tuple(parameters)
            if status:
                return None
            parameters.append(Parameter(int(offset), int(size)))
    except RuntimeError:
        # Drivers before CUDA 12.4 lack the function, and the bindings raise.
        return None


def _attribute(name: str) -> Any:
    from cuda.bindings.driver import CUfunction_attribute

    key = name.upper()
    if not key.startswith(_ATTRIBUTE_PREFIX):
        key = _ATTRIBUTE_PREFIX + key
    member = getattr(CUfunction_attribute, key, None)
    if member is None:
        raise NotFoundError(f"CUDA has no function attribute {name!r}")
    return member
