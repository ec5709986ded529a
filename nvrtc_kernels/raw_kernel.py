"""Kernels that users write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import drv
from drv.compiler import has_c_linkage

from .kernel_cache import KernelCache
from .program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RawKernel:
    """A kernel given as CUDA C++ source. Compiled at its first launch, and kept on disk.

    Parameters
    ----------
    code : str
        Source text.
    name : str
        The kernel's C++ name. It need not be ``extern "C"``: ``"scale"``, ``"blas::scale"`` and
        ``"scale<float>"`` (which instantiates the template) all do.
    options : sequence of str
        Options of NVRTC, such as ``"-DWIDTH=4"``.
    include_dirs : sequence of str
        Directories of headers, searched before CUDA's own.
    headers : mapping, optional
        Text of headers by the name under which the source includes them.

    Examples
    --------
    >>> double = RawKernel('__global__ void twice(float* x) { x[threadIdx.x] *= 2; }', "twice")
    >>> double(1, 256, (memory,))
    """

    def __init__(
        self,
        code: str,
        name: str,
        options: Sequence[str] = (),
        *,
        include_dirs: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.code = code
        self.name = name
        self.options = tuple(options)
        self._program = Program(
            code,
            name=f"{''.join(c if c.isalnum() or c in '_-' else '_' for c in name)}.cu",
            options=self.options,
            include_dirs=tuple(include_dirs),
            headers=tuple((headers or {}).items()),
            name_expressions=() if has_c_linkage(code, name) else (name,),
        )

    def __repr__(self) -> str:
        return f"RawKernel({self.name!r})"

    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        args: Sequence[Any],
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        """Launch the kernel.

        Parameters
        ----------
        grid, block
            Blocks in the grid, threads in a block: up to three numbers each.
        args
            Device memory and arrays (anything with ``__cuda_array_interface__``) pass their address, a
            Python int 64 bits (so an address may be an int), a float a double, a bool one byte, NumPy and
            ctypes scalars their own width, ``bytes`` a structure by value.
        shared_mem : int
            Dynamic shared memory per block, in bytes. More than the usual 48 KiB is asked for as needed.
        stream : optional
            A :class:`drv.Stream` or anything with ``__cuda_stream__``; the kernel runs on its device.
            By default the current device's default stream.

        Raises
        ------
        CompileError
            If the source does not compile.
        InvalidValueError
            If an argument does not fit the kernel's parameter: the message says which, what was given and
            what is expected.
        """
        if stream is None:
            stream = drv.current_device().default_stream
        elif not isinstance(stream, drv.Stream):
            stream = drv.Stream.from_object(stream)
        function = self.function(stream.device)
        if shared_mem and shared_mem > function.max_dynamic_shared_bytes:
            function.max_dynamic_shared_bytes = shared_mem
        drv.launch(function, grid, block, args, shared=shared_mem, stream=stream)

    def function(self, device: drv.Device | None = None) -> drv.Function:
        """The loaded kernel on ``device``, the current one by default: attributes, occupancy.

        Raises
        ------
        CompileError
            If the source does not compile; the message has the compiler's log.
        CudaError
            If the driver refuses to load it, or has no function of the kernel's name.
        """
        if device is None:
            device = drv.current_device()
        return KernelCache.of(device.runtime).function(self._program, self.name, device)
