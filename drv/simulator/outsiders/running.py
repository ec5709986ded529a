"""One kernel on NumPy arrays."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from drv import environment
from drv.compiler import architecture_of, compile_program, has_c_linkage
from drv.copies import copy_to_device, copy_to_host
from drv.errors import InvalidValueError
from drv.launch import launch
from drv.memory import DeviceMemory
from drv.module import Module
from drv.runtime import Runtime
from drv.simulator.driver import SimulatedDriver
from drv.simulator.options import OptionError, parse_options

from .values import check_arrays, declared_types, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv.module import Function
    from drv.simulator.checks.findings import Finding

_PTX = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)


def run(
    source_or_ptx: str | bytes,
    kernel: str,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    arguments: Sequence[Any] = (),
    *,
    shared: int = 0,
    compile_options: Sequence[str] = (),
    collect: bool = False,
    **options: Any,
) -> tuple[Finding, ...]:
    """Run one kernel on a simulated GPU of its own, on NumPy arrays: the shortest way to test a kernel.

    Parameters
    ----------
    source_or_ptx : str or bytes
        CUDA C++, which NVRTC compiles, or PTX.
    kernel : str
        The kernel's name: in C++ as it is written there (``"scale"``, ``"scale<float>"``), in PTX that of the entry.
    grid, block : int or tuple of int
        Blocks in the grid and threads in a block, up to three numbers each.
    arguments : sequence
        One for each parameter. A NumPy array is copied to the device, its address is passed, and what the kernel wrote
        is copied back into it, unless it is read-only; the same array twice is the same memory. A number of Python
        takes the type of the parameter. NumPy and ctypes scalars and structures and ``bytes`` are passed by value and
        must have the parameter's size. ``None`` is a null pointer.
    shared : int
        Dynamic shared memory per block, in bytes.
    compile_options : sequence of str
        Options of NVRTC, such as ``"-DWIDTH=4"``.
    collect : bool
        Whether findings are returned, instead of the first being raised.
    **options
        Of the simulated GPU, as :func:`install` takes them; ``check`` is ``"full"`` unless given.

    Returns
    -------
    tuple of Finding
        What the checkers found; empty for a correct kernel, and always without ``collect``.

    Raises
    ------
    FindingError
        The first finding, such as :class:`drv.DataRaceError`; the arrays stay as they were.
    DeviceFaultError
        If the kernel was stopped, by an illegal address or a failed ``assert`` for example; with ``collect``, too.
    CompileError, ModuleLoadError
        If the source or the PTX is wrong.
    NotFoundError
        If there is no kernel of that name.
    InvalidValueError
        If an argument does not fit its parameter, an option does not exist, or the grid or block is refused.

    Notes
    -----
    A driver that is in use already, NVIDIA's or a simulated one, is not touched.

    Examples
    --------
    >>> x = np.arange(4, dtype=np.float32)
    >>> source = "__global__ void scale(float* x, float a) { x[threadIdx.x] *= a; }"
    >>> drv.simulator.run(source, "scale", 1, 4, [x, 10])
    ()
    >>> x.tolist()
    [0.0, 10.0, 20.0, 30.0]
    """
    try:
        parsed = parse_options(environment.simulator_options(), **{"check": "full", **options})
    except OptionError as error:
        raise InvalidValueError(str(error)) from error
    check_arrays(arguments, kernel)
    runtime = Runtime(SimulatedDriver(parsed), simulated=True)
    try:
        findings = runtime.driver.findings
        if not collect:
            _run(runtime, source_or_ptx, kernel, grid, block, arguments, shared, tuple(compile_options))
        else:
            with findings.collecting():
                _run(runtime, source_or_ptx, kernel, grid, block, arguments, shared, tuple(compile_options))
        return tuple(findings)
    finally:
        runtime.close()


def _run(
    runtime: Runtime,
    source_or_ptx: str | bytes,
    kernel: str,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    arguments: Sequence[Any],
    shared: int,
    compile_options: tuple[str, ...],
) -> None:
    device = runtime.devices[0]
    text = source_or_ptx.decode() if isinstance(source_or_ptx, (bytes, bytearray)) else source_or_ptx
    if _PTX.search(text):
        ptx, name = text, kernel
    else:
        ptx, name = _compiled(text, kernel, architecture_of(device), compile_options)
    function = Module(ptx, device).function(name)
    parameters = _parameters(function, arguments, declared_types(ptx, name), kernel)
    memory: dict[int, DeviceMemory] = {}
    values: list[Any] = []
    for value, parameter in zip(arguments, parameters, strict=True):
        if isinstance(value, np.ndarray):
            if id(value) not in memory:
                memory[id(value)] = _copied_to(device, value)
            values.append(memory[id(value)])
        else:
            values.append(parameter)
    if shared > function.max_dynamic_shared_bytes:
        function.max_dynamic_shared_bytes = shared
    launch(function, grid, block, values, shared=shared)
    device.synchronize()
    for value in arguments:
        if isinstance(value, np.ndarray) and value.flags.writeable and value.size and id(value) in memory:
            result = np.empty(value.shape, value.dtype)
            copy_to_host(result, memory.pop(id(value)))
            value[...] = result


@lru_cache(maxsize=64)
def _compiled(source: str, kernel: str, architecture: str, options: tuple[str, ...]) -> tuple[str, str]:
    """PTX, and the kernel's name in it. Kept, since tests run one kernel with many arguments."""
    expressions = () if has_c_linkage(source, kernel) else (kernel,)
    program = compile_program(
        source, architecture, name="kernel.cu", options=options, name_expressions=expressions, line_info=True
    )
    return program.image.decode(), program.names.get(kernel, kernel)


def _parameters(
    function: Function, arguments: Sequence[Any], declared: Sequence[str], kernel: str
) -> list[bytes | None]:
    """For each argument that is no array its bytes; raises InvalidValueError where one does not fit."""
    expected = function.parameters or ()
    if len(arguments) != len(expected):
        raise InvalidValueError(
            f"kernel '{kernel}' has {len(expected)} parameters, {len(arguments)} arguments were given"
        )
    result: list[bytes | None] = []
    for position, (value, parameter) in enumerate(zip(arguments, expected, strict=True)):
        subject = f"argument {position} of kernel '{kernel}'"
        ptx_type = declared[position] if len(declared) == len(expected) else ""
        if not isinstance(value, np.ndarray):
            result.append(encode(value, parameter.size, ptx_type, subject))
            continue
        if parameter.size != 8 or ptx_type.startswith("f"):
            raise InvalidValueError(
                f"{subject} is an array, and the parameter is no pointer but {parameter.size} bytes: give a number, "
                "or a NumPy scalar of its type"
            )
        result.append(None)
    return result


def _copied_to(device: Any, array: np.ndarray[Any, Any]) -> DeviceMemory:
    # An array without elements has an address, too, and no byte that a kernel may touch is inside the array.
    memory = DeviceMemory(max(array.nbytes, 1), device)
    if array.nbytes:
        copy_to_device(memory, np.ascontiguousarray(array))
    return memory
