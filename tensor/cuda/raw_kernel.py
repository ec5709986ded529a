"""Kernels that users write, launched on tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import drv
import nvrtc_kernels
from tensor.core.base import TensorBase
from tensor.core.devices.state import cuda_state
from tensor.core.devices.stream import Stream
from tensor.core.parameter_casts import hand_out

from .devices import native_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.devices.current import DeviceArgument


class RawKernel(nvrtc_kernels.RawKernel):
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
    >>> double = tensor.cuda.RawKernel('__global__ void twice(float* x) { x[threadIdx.x] *= 2; }', "twice")
    >>> x = tensor.ones(256, device="cuda")  # doctest: +SKIP
    >>> double(1, 256, (x,))  # doctest: +SKIP
    """

    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        args: Sequence[Any],
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        """Launch the kernel. It returns once the launch is queued.

        Parameters
        ----------
        grid, block
            Blocks in the grid, threads in a block: up to three numbers each.
        args
            Tensors pass the address of their first element; the kernel must know shape and strides. A
            Python int is passed as 64 bits, a float as a double, a bool as one byte, NumPy and ctypes
            scalars at their own width, ``bytes`` as a structure by value.
        shared_mem : int
            Dynamic shared memory per block, in bytes.
        stream : Stream, optional
            Where to queue the launch, also a stream of another library (``__cuda_stream__``); by default
            this thread's current stream on the current device. The kernel runs on the stream's device.

        Raises
        ------
        RuntimeError
            If a tensor is where the kernel cannot reach it: on another device without peer access, or in
            host memory that is not pinned.
        CompileError
            If the source does not compile.
        InvalidValueError
            If there is not one argument for each parameter of the kernel, or one has another size than its parameter.
        """
        if stream is None:
            stream = cuda_state().local.stream
        elif not isinstance(stream, Stream):
            native = drv.Stream.from_object(stream)
            stream = Stream.of(cuda_state(native.device.ordinal), native)
        passed = []
        pinned = []
        for position, argument in enumerate(args):
            if isinstance(argument, TensorBase):
                if argument._layout.device_state is not stream.device_state:
                    self._check_reach(argument, position, stream)
                    if not argument._layout.device_state.is_cuda:
                        pinned.append(argument._storage)
                if argument._layout.device_state.is_cuda:
                    hand_out(argument._storage)
                argument = _Address(argument._address)
            passed.append(argument)
        super().__call__(grid, block, passed, shared_mem, stream.native)
        for storage in pinned:
            storage.record_use(stream)

    def function(self, device: drv.Device | DeviceArgument = None) -> drv.Function:
        """The loaded kernel on ``device``, by default the current one: a :class:`drv.Function`, with its attributes.

        Raises
        ------
        CompileError
            If the source does not compile.
        ValueError
            For the CPU, or a device that does not exist.
        """
        return super().function(device if isinstance(device, drv.Device) else native_device(device))

    def _check_reach(self, tensor: TensorBase, position: int, stream: Stream) -> None:
        """Raise RuntimeError if a kernel on ``stream`` cannot use memory of ``tensor``, which is elsewhere."""
        device_state = tensor._layout.device_state
        what = f"argument {position} of kernel '{self.name}' is a tensor on {device_state.device}"
        if not device_state.is_cuda:
            if not tensor._storage.is_pinned():
                raise RuntimeError(
                    f"{what}, and the kernel runs on {stream.device}: kernels reach host memory only where it is "
                    "pinned. Pass tensor.cuda(), tensor.pin_memory(), or a number (tensor.item()) for a scalar"
                )
            return
        there, here = device_state.native, stream.device_state.native
        if there.runtime is not here.runtime:
            raise drv.DroppedRuntimeError(
                f"{what} of another runtime, which drv.reset() dropped; make a new one"
            )
        if not here.peer_access_enabled(there):
            raise RuntimeError(
                f"{what}, and the kernel runs on {stream.device}: copy the tensor there, launch on {device_state.device} "
                f"(with tensor.cuda.device({there.ordinal})), or let {stream.device} use its memory with "
                f"tensor.cuda.enable_peer_access({there.ordinal}, {here.ordinal})"
            )


class _Address:
    """An address in device memory, which a kernel's pointer parameter takes."""

    __slots__ = ("__cuda_array_interface__",)

    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {"data": (address, False)}
