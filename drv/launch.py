"""Launching kernels.

A launch is prepared once per kernel and types of arguments. After that it packs its parameters into a
buffer that is used again, with one :meth:`struct.Struct.pack_into`, and makes one driver call.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from .arguments import check_parameters, encode, has_fixed_size, size_of
from .errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .arguments import Code
    from .module import Function
    from .stream import Stream

#: ``launcher(grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream_handle, *values)``
Launcher = Callable[..., None]

#: CUDA_ERROR_INVALID_CONTEXT and CUDA_ERROR_INVALID_HANDLE: another library may have changed the context.
_WRONG_CONTEXT = (201, 400)


def prepare(function: Function, types: Iterable[Code], *, cooperative: bool = False) -> Launcher:
    """Make the function that launches a kernel with parameters of given types.

    Parameters
    ----------
    types
        One code per parameter: a character of :mod:`struct` (``? b B h H i I q Q e f d``), ``"P"`` for
        an address, or a number of bytes for a structure, which is then given as ``bytes``. A string such
        as ``"PPfi"`` will do.
    cooperative : bool
        Whether all blocks of a launch run at the same time, so that they may wait for one another. A launch of more
        blocks than the device can have at once is then refused.

    Returns
    -------
    Launcher
        ``launcher(grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream_handle, *values)``:
        ``shared`` is dynamic shared memory per block in bytes, ``stream_handle`` the ``handle`` of a
        :class:`Stream` of the function's device. Safe to call from several threads.

    Raises
    ------
    InvalidValueError
        If the number or sizes of the parameters are not the kernel's, where the driver can tell.
    """
    codes = tuple(types)
    check_parameters(function, codes)
    blocking = function.runtime.launch_blocking
    return (_blocking_launcher if blocking else _launcher)(function, codes, cooperative)


def bind(
    function: Function,
    types: Iterable[Code],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    *first: Any,
    shared: int = 0,
) -> Callable[..., None]:
    """Make the function that launches a kernel whose grid, block and first arguments are always the same.

    They are packed once; a launch packs the others.

    Parameters
    ----------
    function : Function
        The kernel.
    types
        One code per parameter, as for :func:`prepare`.
    grid, block : tuple of int
        Blocks in the grid and threads in a block, three numbers each.
    first
        Values of the first parameters.
    shared : int
        Dynamic shared memory per block, in bytes.

    Returns
    -------
    callable
        ``run(stream_handle, *others)``. Safe to call from several threads.

    Raises
    ------
    InvalidValueError
        If the number or sizes of the parameters are not the kernel's, where the driver can tell.
    """
    codes = tuple(types)
    check_parameters(function, codes)
    if function.runtime.launch_blocking:
        prepared = _blocking_launcher(function, codes, cooperative=False)
        return lambda stream, *others: prepared(*grid, *block, shared, stream, *first, *others)
    return _bound(function, codes, (*grid, *block, shared), first)


def launch(
    function: Function,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    arguments: Sequence[Any] = (),
    *,
    shared: int = 0,
    stream: Stream | None = None,
    cooperative: bool = False,
) -> None:
    """Launch a kernel with arguments whose types are read off the values.

    Parameters
    ----------
    function : Function
        The kernel.
    grid, block
        Blocks in the grid and threads in a block, up to three numbers each.
    arguments
        :class:`DeviceMemory`, :class:`PinnedMemory` and objects with ``__cuda_array_interface__`` are
        passed as addresses; a Python int (also an address) as 64 bits, a float as double, a bool as one
        byte, a complex as two doubles; NumPy and ctypes scalars at their own width; ``bytes`` as a
        structure by value.
    shared : int
        Dynamic shared memory per block, in bytes.
    stream : Stream, optional
        A stream of the function's device; its legacy default stream by default.
    cooperative : bool
        Whether all blocks run at the same time, so that they may wait for one another, as ``grid.sync()`` of
        cooperative groups does.

    Raises
    ------
    InvalidValueError
        If there is not one argument for each parameter of the kernel, one has another size than its parameter, or the
        driver refuses grid or block.
    CudaError
        If a cooperative launch has more blocks than the device can run at once: see
        :meth:`Function.max_active_blocks`.
    LaunchResourcesError
        If a block needs more than a multiprocessor has.

    Notes
    -----
    The launch only queues the kernel: what goes wrong while it runs is raised by a later synchronising call, or
    here with ``CUDA_LAUNCH_BLOCKING=1``.

    Examples
    --------
    >>> source = 'extern "C" __global__ void fill(float* out, float x) { out[threadIdx.x] = x; }'
    >>> program = drv.compile_program(source, "compute_90")
    >>> fill = drv.Module(program.image).function("fill")
    >>> memory = drv.DeviceMemory(4 * 32)
    >>> drv.launch(fill, 1, 32, (memory, np.float32(0.5)), stream=drv.Stream())
    >>> drv.Device(0).synchronize()
    """
    device = function.device
    if stream is None:
        stream = device.default_stream
    elif stream.device is not device:
        raise InvalidValueError(
            f"kernel '{function.name}' is loaded on device {device.ordinal}, the stream is on device "
            f"{stream.device.ordinal}"
        )
    types = tuple(map(type, arguments))
    plan = function.launchers.get((cooperative, types))
    if plan is None:
        plan = _plan(function, types, arguments, cooperative)
    launcher, converters = plan
    if converters is not None:
        arguments = [
            value if convert is None else convert(value)
            for convert, value in zip(converters, arguments, strict=True)
        ]
    launcher(*_extent(grid), *_extent(block), shared, stream.handle, *arguments)


def _plan(function: Function, types: tuple[type, ...], arguments: Sequence[Any], cooperative: bool) -> Any:
    encoded = [encode(value, position, function.name) for position, value in enumerate(arguments)]
    codes = tuple(code for code, _ in encoded)
    # Values of some classes differ in size, so that the classes alone do not tell the types.
    key = (cooperative, types if all(map(has_fixed_size, types)) else (types, codes))
    plan = function.launchers.get(key)
    if plan is None:
        check_parameters(function, codes, arguments)
        converters = [convert for _, convert in encoded]
        launcher = prepare(function, codes, cooperative=cooperative)
        plan = launcher, converters if any(converters) else None
        function.launchers[key] = plan
    return plan


def _extent(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(numbers, int):
        return numbers, 1, 1
    size = len(numbers)
    if size == 3:
        return numbers
    if size == 2:
        return numbers[0], numbers[1], 1
    if size == 1:
        return numbers[0], 1, 1
    raise InvalidValueError(f"grid and block have 1 to 3 numbers, {numbers} was given")


def _launcher(function: Function, codes: tuple[Code, ...], cooperative: bool) -> Launcher:
    runtime, device, handle = function.runtime, function.device, function.handle
    call = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
    launch_kernel = getattr(runtime.driver, call)
    if cooperative:
        launch_kernel = _without_last(launch_kernel)
    remember = runtime.recent_launches.append
    packer, new_buffer = parameter_layout(codes)
    pack = packer.pack_into
    pool: list[tuple[Callable[..., None], int, Any]] = []
    take, give_back = pool.pop, pool.append

    def fresh() -> tuple[Callable[..., None], int, Any]:
        data, address, table = new_buffer()
        # Quicker than a call with the buffer and values that come as a tuple.
        return partial(pack, data, 0), address, table

    def launcher(
        grid_x: int,
        grid_y: int,
        grid_z: int,
        block_x: int,
        block_y: int,
        block_z: int,
        shared: int,
        stream: Any,
        *values: Any,
    ) -> None:
        # A dropped runtime has no current device, so this also keeps a stale launcher from launching.
        if runtime.current.device is not device:
            device.make_current()
        try:
            buffer = take()
        except IndexError:
            buffer = fresh()
        try:
            buffer[0](*values)
        except struct.error as error:
            raise InvalidValueError(f"arguments of kernel '{function.name}': {error}") from error
        status = launch_kernel(
            handle, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, buffer[1], 0
        )[0]
        if status:
            if int(status) in _WRONG_CONTEXT:
                device.make_current()
                status = launch_kernel(
                    handle, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, buffer[1], 0
                )[0]
            if status:
                _fail(function, call, status, (grid_x, grid_y, grid_z), (block_x, block_y, block_z), shared)
        give_back(buffer)
        remember(function)

    return launcher


def _without_last(launch_kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A call with the arguments of ``cuLaunchKernel``, which has one more than a cooperative launch."""
    return lambda *arguments: launch_kernel(*arguments[:-1])


def _bound(
    function: Function, codes: tuple[Code, ...], shape: tuple[int, ...], first: tuple[Any, ...]
) -> Callable[..., None]:
    runtime, device, handle = function.runtime, function.device, function.handle
    launch_kernel = runtime.driver.cuLaunchKernel
    remember = runtime.recent_launches.append
    gx, gy, gz, bx, by, bz, shared = shape
    whole, new_buffer = parameter_layout(codes)
    start, rest = _after(codes, len(first))
    pack = rest.pack_into
    pool: list[tuple[Callable[..., None], int, Any]] = []
    take, give_back = pool.pop, pool.append

    def fresh(others: tuple[Any, ...]) -> tuple[Callable[..., None], int, Any]:
        data, address, table = new_buffer()
        whole.pack_into(data, 0, *first, *others)
        return partial(pack, data, start), address, table

    def run(stream: Any, *others: Any) -> None:
        # A dropped runtime has no current device, so this also keeps a stale launcher from launching.
        if runtime.current.device is not device:
            device.make_current()
        try:
            if pool:
                buffer = take()
                buffer[0](*others)
            else:
                buffer = fresh(others)
        except IndexError:
            buffer = fresh(others)
        except struct.error as error:
            raise InvalidValueError(f"arguments of kernel '{function.name}': {error}") from error
        status = launch_kernel(handle, gx, gy, gz, bx, by, bz, shared, stream, buffer[1], 0)[0]
        if status:
            if int(status) in _WRONG_CONTEXT:
                device.make_current()
                status = launch_kernel(handle, gx, gy, gz, bx, by, bz, shared, stream, buffer[1], 0)[0]
            if status:
                _fail(function, "cuLaunchKernel", status, (gx, gy, gz), (bx, by, bz), shared)
        give_back(buffer)
        remember(function)

    return run


def _fail(function: Function, call: str, status: Any, grid: Any, block: Any, shared: int) -> None:
    function.runtime.fail(
        status,
        call,
        f"grid {grid}, block {block}",
        f"{shared} bytes of dynamic shared memory",
        kernel=function.name,
    )


def _blocking_launcher(function: Function, codes: tuple[Code, ...], cooperative: bool) -> Launcher:
    """A launcher that waits for its kernel, so that errors are raised where the launch stands."""
    start = _launcher(function, codes, cooperative)
    runtime = function.runtime
    wait = runtime.driver.cuStreamSynchronize

    def launcher(*arguments: Any) -> None:
        start(*arguments)
        if runtime.is_captured(arguments[7]):
            return
        status = wait(arguments[7])[0]
        if status:
            runtime.fail(status, "cuLaunchKernel", "CUDA_LAUNCH_BLOCKING=1", kernel=function.name)
        runtime.raise_pending()

    return launcher


def _packing(codes: tuple[Code, ...]) -> tuple[list[str], list[int]]:
    """For each parameter its format, with the padding before it, and its offset."""
    formats, offsets, offset = [], [], 0
    for code in codes:
        size = size_of(code)
        alignment = min(size & -size or 1, 16)
        padding = -offset % alignment
        form = f"{code}s" if isinstance(code, int) else "Q" if code == "P" else code
        formats.append(f"{padding}x{form}" if padding else form)
        offsets.append(offset + padding)
        offset += padding + size
    return formats, offsets


def _after(codes: tuple[Code, ...], first: int) -> tuple[int, struct.Struct]:
    """Where the parameters after the ``first`` ones start, and what packs them."""
    formats, offsets = _packing(codes)
    start = offsets[first - 1] + size_of(codes[first - 1]) if first else 0
    return start, struct.Struct("=" + "".join(formats[first:]))


def parameter_layout(codes: tuple[Code, ...]) -> tuple[struct.Struct, Callable[[], tuple[Any, int, Any]]]:
    """What packs parameters of these types, and what makes a buffer for them.

    A buffer is its bytes, the address of the table of pointers into them that the driver takes, and that
    table. The driver has copied the parameters when the launch returns, so a buffer serves again.
    """
    formats, offsets = _packing(codes)
    packer = struct.Struct("=" + "".join(formats))

    def new_buffer() -> tuple[Any, int, Any]:
        data = (ctypes.c_char * max(packer.size, 1))()
        base = ctypes.addressof(data)
        table = (ctypes.c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
        return data, ctypes.addressof(table) if offsets else 0, table

    return packer, new_buffer
