"""Matrix products through cuBLAS.

Each thread has a handle for each device. A handle works on one stream at a time, with a workspace that belongs
to handle and stream and comes from the caching allocator, so that the memory statistics count it and products
on different streams never share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drv.cublas import HostScalar
from drv.cublas import cublasComputeType_t as Compute
from drv.library_types import cudaDataType as Type

from .precision import settings
from .storage import DeviceStorage

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype

    from .places import CudaPlace
    from .streams import Stream

#: Bytes of a workspace: what NVIDIA recommends from compute capability 9.0 on, and before.
_WORKSPACE_HOPPER, _WORKSPACE = 32 << 20, 4 << 20
_TYPES = {
    "float16": Type.CUDA_R_16F,
    "bfloat16": Type.CUDA_R_16BF,
    "float32": Type.CUDA_R_32F,
    "float64": Type.CUDA_R_64F,
    "complex64": Type.CUDA_C_32F,
    "complex128": Type.CUDA_C_64F,
}
_SCALARS = {
    "float64": Type.CUDA_R_64F,
    "complex64": Type.CUDA_C_32F,
    "complex128": Type.CUDA_C_64F,
}
_ALGORITHM = -1


class Handle:
    """A cuBLAS handle of one thread and device."""

    __slots__ = ("handle", "library", "place", "scalars", "stream", "workspace_bytes", "workspaces")

    def __init__(self, place: CudaPlace) -> None:
        self.place = place
        self.library: Any = place.runtime.library("cublas")
        place.native.use()
        self.handle = self.library.cublasCreate()
        self.stream: Stream | None = None
        hopper = place.native.compute_capability >= (9, 0)
        self.workspace_bytes = _WORKSPACE_HOPPER if hopper else _WORKSPACE
        self.workspaces: dict[Stream, DeviceStorage] = {}
        self.scalars = {
            kind: (HostScalar(kind), HostScalar(kind))
            for kind in (Type.CUDA_R_16F, Type.CUDA_R_32F, *_SCALARS.values())
        }
        # Workspaces and handles go with the runtime.
        place.runtime.cache("cublas handles", list).append(self)

    def use(self, stream: Stream) -> None:
        """Queue what follows on ``stream``."""
        self.place.native.use()
        if self.stream is stream:
            return
        self.library.cublasSetStream(self.handle, int(stream.handle))
        storage = self.workspaces.get(stream)
        if storage is None:
            block = self.place.allocate(self.workspace_bytes, stream.cuda_stream)
            storage = self.workspaces[stream] = DeviceStorage(self.place, self.workspace_bytes, block)
        self.library.cublasSetWorkspace(self.handle, storage.address, storage.size)
        self.stream = stream


def handle_for(place: CudaPlace) -> Handle:
    """The handle of this thread, set to its current stream on the device."""
    local = place.local
    found: Handle | None = getattr(local, "blas", None)
    if found is None:
        found = local.blas = Handle(place)
    found.use(local.stream)
    return found


def drop_workspaces(place: CudaPlace) -> None:
    """Give the workspaces of all handles of a device back to the allocator."""
    for handle in place.runtime.cache("cublas handles", list):
        if handle.place is place:
            handle.workspaces.clear()
            handle.stream = None


def _compute(kind: dtype, tf32: str) -> tuple[Compute, Type]:
    """Accumulation, and the type of the scalars, as the settings are now."""
    name = kind.name
    if name == "float32":
        return (
            Compute.CUBLAS_COMPUTE_32F_FAST_TF32 if getattr(settings, tf32) else Compute.CUBLAS_COMPUTE_32F
        ), Type.CUDA_R_32F
    if name == "float16" and settings.fp16_accumulation:
        return Compute.CUBLAS_COMPUTE_16F, Type.CUDA_R_16F
    if name in ("float16", "bfloat16"):
        return Compute.CUBLAS_COMPUTE_32F, Type.CUDA_R_32F
    if name == "complex64":
        return (
            Compute.CUBLAS_COMPUTE_32F_FAST_TF32 if getattr(settings, tf32) else Compute.CUBLAS_COMPUTE_32F
        ), Type.CUDA_C_32F
    return Compute.CUBLAS_COMPUTE_64F, _SCALARS[name]


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


def multiply(
    place: CudaPlace,
    kind: dtype,
    sizes: tuple[int, int, int, int],
    a: tuple[int, Factor],
    b: tuple[int, Factor],
    c: tuple[int, Factor],
    alpha: complex = 1,
    beta: complex = 0,
    tf32: str = "matmul_tf32",
) -> None:
    """``C = alpha * A @ B + beta * C`` for a batch of matrices, on this thread's current stream.

    Parameters
    ----------
    sizes
        Matrices, rows of A, columns of B, columns of A.
    a, b, c
        Address of each, and how it is read; C is row-major.
    tf32
        The setting that says whether float32 is rounded to TF32.
    """
    count, m, n, k = sizes
    blas = handle_for(place)
    compute, scalar = _compute(kind, tf32)
    one, two = blas.scalars[scalar]
    one.value, two.value = alpha, beta
    data = _TYPES[kind.name]
    # Row-major matrices are the transposes of what cuBLAS sees: it computes the transpose of the product.
    first, second = b, a
    if count == 1:
        blas.library.cublasGemmEx(
            blas.handle,
            int(first[1].transposed),
            int(second[1].transposed),
            n,
            m,
            k,
            one.address,
            first[0],
            data,
            first[1].leading,
            second[0],
            data,
            second[1].leading,
            two.address,
            c[0],
            data,
            c[1].leading,
            compute,
            _ALGORITHM,
        )
        return
    blas.library.cublasGemmStridedBatchedEx(
        blas.handle,
        int(first[1].transposed),
        int(second[1].transposed),
        n,
        m,
        k,
        one.address,
        first[0],
        data,
        first[1].leading,
        first[1].batch,
        second[0],
        data,
        second[1].leading,
        second[1].batch,
        two.address,
        c[0],
        data,
        c[1].leading,
        c[1].batch,
        count,
        compute,
        _ALGORITHM,
    )
