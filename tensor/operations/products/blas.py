"""Matrix products through cuBLAS.

Each thread has a handle for each device; that of a thread that has ended goes to the next one. A handle works on one
stream at a time, with a workspace that belongs to handle and stream and comes from the caching allocator, so that the
memory statistics count it and products on different streams never share one.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from drv.bindings.cublas import HostScalar
from drv.bindings.cublas import cublasComputeType_t as Compute
from drv.bindings.cublas import cublasMath_t as Math
from drv.bindings.library_types import cudaDataType as Type
from drv.environment import cublas_workspace_bytes
from tensor.core.devices import leases
from tensor.core.devices.graph_capture import capture_of
from tensor.core.modes.precision import settings
from tensor.core.storage import DeviceStorage, device_storage

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Runtime
    from nvrtc_kernels.dtypes import dtype
    from tensor.core.devices.state import CudaState
    from tensor.core.devices.stream import Stream

#: Bytes of a workspace: what NVIDIA recommends from compute capability 9.0 on, and before.
_WORKSPACE_HOPPER, _WORKSPACE = 32 << 20, 4 << 20
TYPES = {
    "float16": Type.CUDA_R_16F,
    "bfloat16": Type.CUDA_R_16BF,
    "float32": Type.CUDA_R_32F,
    "float64": Type.CUDA_R_64F,
    "complex64": Type.CUDA_C_32F,
    "complex128": Type.CUDA_C_64F,
}
_SCALARS = (Type.CUDA_R_16F, Type.CUDA_R_32F, Type.CUDA_R_64F, Type.CUDA_C_32F, Type.CUDA_C_64F)
#: The settings that let partial sums be kept in half precision.
_REDUCTIONS = {"float16": "fp16_reduced_reduction", "bfloat16": "bf16_reduced_reduction"}
_ALGORITHM = -1


class Handle:
    """A cuBLAS handle of one thread and device."""

    __slots__ = (
        "constants",
        "described",
        "device_state",
        "handle",
        "library",
        "one_and_zero",
        "reduced_reduction",
        "scalars",
        "stream",
        "stream_address",
        "workspace",
        "workspace_bytes",
        "workspaces",
    )

    def __init__(self, device_state: CudaState) -> None:
        self.device_state = device_state
        self.library: Any = device_state.runtime.library("cublas")
        device_state.native.use()
        self.handle = self.library.cublasCreate()
        self.stream: Stream | None = None
        self.stream_address = 0
        self.workspace_bytes = _workspace_bytes(device_state)
        self.workspaces: dict[Stream, DeviceStorage] = {}
        #: Address and bytes of that of the stream.
        self.workspace = (0, 0)
        #: What :mod:`.epilogues` has described to cuBLASLt, for which a handle of cuBLAS is one too.
        self.described: dict[Any, Any] = {}
        self.reduced_reduction = True
        self.scalars = {
            int(data_type): (HostScalar(data_type), HostScalar(data_type)) for data_type in _SCALARS
        }
        self.constants = {
            int(data_type): (HostScalar(data_type, 1), HostScalar(data_type, 0)) for data_type in _SCALARS
        }
        self.one_and_zero = {
            data_type: (one.address, zero.address) for data_type, (one, zero) in self.constants.items()
        }
        # Workspaces and handles go with the runtime.
        _handles(device_state.runtime).append(self)

    def use(self, stream: Stream) -> None:
        """Queue what follows on ``stream``."""
        self.device_state.native.use()
        if self.stream is stream:
            return
        # If one of the calls fails, the handle is no longer set to the stream that it was set to before.
        self.stream = None
        self.stream_address = int(stream.handle)
        self.library.cublasSetStream(self.handle, self.stream_address)
        workspaces: dict[Any, DeviceStorage] = self.workspaces
        key: Any = stream
        capture = capture_of(self.device_state)
        if capture is not None:
            # A graph has workspaces of its own: it may be replayed while the stream works on something else.
            workspaces, key = capture.workspaces, (self, stream)
        storage = workspaces.get(key)
        if storage is None and self.workspace_bytes:
            block = self.device_state.allocate(self.workspace_bytes, stream.cuda_stream)
            storage = workspaces[key] = device_storage(self.device_state, self.workspace_bytes, block)
        self.workspace = (0, 0) if storage is None else (storage.address, storage.capacity)
        self.library.cublasSetWorkspace(self.handle, *self.workspace)
        self.stream = stream

    def allow_reduced_reduction(self, allowed: bool) -> None:
        """Say whether partial sums of half precision products may be kept in half precision."""
        if self.reduced_reduction is not allowed:
            mode = int(Math.CUBLAS_DEFAULT_MATH)
            if not allowed:
                mode |= Math.CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
            self.library.cublasSetMathMode(self.handle, mode)
            self.reduced_reduction = allowed


class _Handles(list[Handle]):
    """All handles of a runtime."""

    __slots__ = ("__weakref__",)


class _Workspaces:
    """Is told of captures, and lets the handles go with the runtime's cache."""

    def __init__(self, handles: _Handles) -> None:
        self._handles = weakref.ref(handles)

    def capture_begins(self, _: Any) -> None:
        """Have each handle look for its workspace: a stream that is captured has another one than before."""
        for handle in self._handles() or ():
            handle.stream = None

    capture_ends = capture_begins


def _handles(runtime: Runtime) -> _Handles:
    def make() -> _Handles:
        result = _Handles()
        runtime.capture_listeners.append(_Workspaces(result))
        return result

    return runtime.cache("cublas handles", make)


def _workspace_bytes(device_state: CudaState) -> int:
    """Bytes of a workspace: as the environment says, or as suits the device."""
    argument = cublas_workspace_bytes()
    if argument is not None:
        return argument
    return _WORKSPACE_HOPPER if device_state.native.compute_capability >= (9, 0) else _WORKSPACE


def handle_for(device_state: CudaState) -> Handle:
    """The handle of this thread, set to its current stream on the device."""
    handle: Handle = leases.handle_for(device_state, "blas", Handle)
    return handle


class Factor:
    """How cuBLAS reads a matrix of a batch.

    Attributes
    ----------
    transposed : bool
        Whether the columns are what is contiguous.
    leading : int
        Elements between neighbouring rows (columns, where transposed).
    batch : int
        Elements between neighbouring matrices.
    """

    __slots__ = ("batch", "leading", "transposed")

    def __init__(self, transposed: bool, leading: int, batch: int) -> None:
        self.transposed = transposed
        self.leading = leading
        self.batch = batch


def factor(shape: tuple[int, ...], strides: tuple[int, ...]) -> Factor | None:
    """How cuBLAS can read a matrix of ``shape`` ``(batch, rows, columns)``; ``None`` if it has to be copied."""
    _, rows, columns = shape
    batch, row, column = strides
    if column == 1 or columns == 1:
        leading = row if rows > 1 else max(columns, 1)
        if leading >= max(columns, 1) and (column == 1 or leading >= 1):
            return Factor(False, leading, batch)
    if row == 1 or rows == 1:
        leading = column if columns > 1 else max(rows, 1)
        if leading >= max(rows, 1):
            return Factor(True, leading, batch)
    return None


#: Accumulation and the type of the scalars, unless a setting says otherwise.
_PLAIN = {
    "float16": (int(Compute.CUBLAS_COMPUTE_32F), int(Type.CUDA_R_32F)),
    "bfloat16": (int(Compute.CUBLAS_COMPUTE_32F), int(Type.CUDA_R_32F)),
    "float32": (int(Compute.CUBLAS_COMPUTE_32F), int(Type.CUDA_R_32F)),
    "float64": (int(Compute.CUBLAS_COMPUTE_64F), int(Type.CUDA_R_64F)),
    "complex64": (int(Compute.CUBLAS_COMPUTE_32F), int(Type.CUDA_C_32F)),
    "complex128": (int(Compute.CUBLAS_COMPUTE_64F), int(Type.CUDA_C_64F)),
}
#: The same while the setting holds that :class:`Precision` names.
_FAST = {
    "float16": (int(Compute.CUBLAS_COMPUTE_16F), int(Type.CUDA_R_16F)),
    "float32": (int(Compute.CUBLAS_COMPUTE_32F_FAST_TF32), int(Type.CUDA_R_32F)),
    "complex64": (int(Compute.CUBLAS_COMPUTE_32F_FAST_TF32), int(Type.CUDA_C_32F)),
}


class Precision:
    """How precisely products of a type are computed, as the settings say at the time.

    Parameters
    ----------
    dtype
        Of the factors.
    tf32
        The setting that says whether float32 is rounded to TF32; ``None``: never.
    widened
        Whether the result is wider than the factors, so that sums in half precision would not go into it.

    Attributes
    ----------
    reduction : str or None
        The setting that says whether partial sums may be kept in half precision.
    """

    __slots__ = ("_fast", "_plain", "_setting", "reduction")

    def __init__(self, dtype: dtype, tf32: str | None, *, widened: bool) -> None:
        self._plain = _PLAIN[dtype.name]
        self._fast = _FAST.get(dtype.name, self._plain)
        self._setting = None
        if not widened:
            self._setting = (
                "fp16_accumulation" if dtype.name == "float16" else tf32 if dtype.name in _FAST else None
            )
        self.reduction = _REDUCTIONS.get(dtype.name)

    def now(self) -> tuple[int, int]:
        """The accumulation, and the type of the scalars."""
        return self._fast if self._setting is not None and getattr(settings, self._setting) else self._plain


def product(
    device_state: CudaState,
    dtype: dtype,
    sizes: tuple[int, int, int, int],
    a: Factor,
    b: Factor,
    c: Factor,
    tf32: str | None = "matmul_tf32",
    output: dtype | None = None,
) -> Callable[..., None]:
    """``run(c, a, b, alpha=1, beta=0)``: ``C = alpha * A @ B + beta * C``, for addresses of batches of matrices.

    It runs on the current stream of the thread that calls it, as precisely as the settings say then.

    Parameters
    ----------
    sizes
        Matrices, rows of A, columns of B, columns of A.
    a, b, c
        How each is read; C is row-major.
    tf32
        The setting that says whether float32 is rounded to TF32; ``None``: never.
    output
        Type of C, where it is another one: float32 for half precision factors.
    """
    count, m, n, k = sizes
    data = int(TYPES[dtype.name])
    result = data if output is None else int(TYPES[output.name])
    precision = Precision(dtype, tf32, widened=result != data)
    reduction = precision.reduction
    local = device_state.local
    native = device_state.native
    current = device_state.runtime.current
    library: Any = device_state.runtime.library("cublas")
    # Row-major matrices are the transposes of what cuBLAS sees: it computes the transpose of the product.
    operation_b, operation_a = int(b.transposed), int(a.transposed)
    leading_a, leading_b, leading_c = a.leading, b.leading, c.leading
    single, batched = library.cublasGemmEx, library.cublasGemmStridedBatchedEx

    def run(c_address: int, a_address: int, b_address: int, alpha: complex = 1, beta: complex = 0) -> None:
        blas = local.blas
        if blas is None or blas.stream is not local.stream or current.device is not native:
            blas = handle_for(device_state)
        compute, scalar = precision.now()
        if reduction is not None:
            blas.allow_reduced_reduction(getattr(settings, reduction))
        if alpha == 1 and beta == 0:
            one, two = blas.one_and_zero[scalar]
        elif alpha == 1 and beta == 1:
            one = two = blas.one_and_zero[scalar][0]
        else:
            scalars = blas.scalars[scalar]
            scalars[0].value, scalars[1].value = alpha, beta
            one, two = scalars[0].address, scalars[1].address
        if count == 1:
            single(
                blas.handle,
                operation_b,
                operation_a,
                n,
                m,
                k,
                one,
                b_address,
                data,
                leading_b,
                a_address,
                data,
                leading_a,
                two,
                c_address,
                result,
                leading_c,
                compute,
                _ALGORITHM,
            )
            return
        batched(
            blas.handle,
            operation_b,
            operation_a,
            n,
            m,
            k,
            one,
            b_address,
            data,
            leading_b,
            b.batch,
            a_address,
            data,
            leading_a,
            a.batch,
            two,
            c_address,
            result,
            leading_c,
            c.batch,
            count,
            compute,
            _ALGORITHM,
        )

    return run
