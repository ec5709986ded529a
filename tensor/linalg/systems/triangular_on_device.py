"""Triangular systems on a device, by cuBLAS' ``trsm``: queued on the current stream, as any operation.

Row-major matrices are the transposes of what cuBLAS sees, so that it solves the transposed system, from the
other side. A batch of small triangles is one call, which takes addresses from arrays in device memory; those are
made there.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from drv.bindings.cublas import cublasDiagType_t as Diagonal
from drv.bindings.cublas import cublasFillMode_t as Triangle
from drv.bindings.cublas import cublasOperation_t as Operation
from drv.bindings.cublas import cublasSideMode_t as Side
from drv.bindings.library_types import cudaDataType as Type
from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels.dtypes import complex64, complex128, float32, float64, int64
from tensor.core.base import empty
from tensor.core.layout import contiguous
from tensor.core.plans import planned
from tensor.core.plans.copies import COPY
from tensor.operations.creation.factories import full
from tensor.operations.creation.ranges import arange
from tensor.operations.products import blas

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

_LETTERS = {
    float32: ("S", Type.CUDA_R_32F),
    float64: ("D", Type.CUDA_R_64F),
    complex64: ("C", Type.CUDA_C_32F),
    complex128: ("Z", Type.CUDA_C_64F),
}
#: Up to so many triangles, of at least that order, are solved one after the other, each by all of the device.
_FEW, _LARGE = 8, 64


class System(NamedTuple):
    """What is solved: ``A @ X = B``, or ``X @ A = B`` from the right.

    Attributes
    ----------
    upper : bool
        Which triangle of A counts.
    left : bool
        Whether A stands on the left.
    unit : bool
        Whether the diagonal counts as ones.
    adjoint : bool
        Whether the conjugate transpose of A stands in its place.
    """

    upper: bool
    left: bool = True
    unit: bool = False
    adjoint: bool = False


def _trsm_plan(system: System, a: Layout, x: Layout) -> Callable[[Tensor, Tensor], None]:
    """How to solve systems of given layouts.

    ``device_state.plans[TRSM, system, a, x]``: ``run(a, x)`` solves for the right sides in ``x``, which it overwrites.

    ``x`` is row-major, and the batch dimensions of ``a`` broadcast to its own.
    """
    if not x.numel:
        return lambda *_: None
    device_state = x.device_state
    order, count = a.shape[-1], prod(x.shape[:-2])
    flat = _flattened(a, (*x.shape[:-2], order, order))
    read = None if flat is None else blas.factor(flat.shape, flat.strides)
    if read is None or (read.transposed and system.adjoint and a.dtype.is_complex):
        packed = a.as_contiguous()
        if packed is a:
            # The batch dimensions lie too far apart for one step from triangle to triangle.
            packed = contiguous[(*x.shape[:-2], order, order), a.dtype, device_state]
        solve, spread = device_state.plans[TRSM, system, packed, x], _per_channel(a, packed.shape)
        fill = device_state.plans[COPY, packed, spread]

        def run_packed(a: Tensor, x: Tensor) -> None:
            matrices = empty(packed)
            fill(matrices, a, True)
            solve(matrices, x)

        return run_packed
    return _solver(system, device_state, read, x, order, count)


TRSM = planned(_trsm_plan)


def _per_channel(a: Layout, shape: tuple[int, ...]) -> Layout:
    return a.with_strides(tuple(shape), tuple(strides_of.broadcast_strides(a.shape, a.strides, tuple(shape))))


def _flattened(a: Layout, shape: tuple[int, ...]) -> Layout | None:
    """Matrices broadcast to ``shape`` with one batch dimension, if they lie so."""
    spread = _per_channel(a, shape)
    expected = (prod(shape[:-2]), *shape[-2:])
    strides = strides_of.view_strides(spread.shape, spread.strides, expected)
    return None if strides is None else a.with_strides(expected, tuple(strides))


def _solver(
    system: System, device_state: Any, read: blas.Factor, x: Layout, order: int, count: int
) -> Callable[[Tensor, Tensor], None]:
    letter, scalar = _LETTERS[x.dtype]
    library = device_state.runtime.library("cublas")
    rows, columns = x.shape[-2:]
    # cuBLAS sees the transposes of row-major matrices.
    upper = system.upper if read.transposed else not system.upper
    operation = Operation.CUBLAS_OP_T if read.transposed else Operation.CUBLAS_OP_N
    if system.adjoint:
        operation = Operation.CUBLAS_OP_N if read.transposed else Operation.CUBLAS_OP_C
    flags = (
        int(Side.CUBLAS_SIDE_RIGHT if system.left else Side.CUBLAS_SIDE_LEFT),
        int(Triangle.CUBLAS_FILL_MODE_UPPER if upper else Triangle.CUBLAS_FILL_MODE_LOWER),
        int(operation),
        int(Diagonal.CUBLAS_DIAG_UNIT if system.unit else Diagonal.CUBLAS_DIAG_NON_UNIT),
        columns,
        rows,
    )
    itemsize, leading = x.itemsize, read.leading
    step_a, step_x = read.batch * itemsize, rows * columns * itemsize
    if count == 1 or (count <= _FEW and order >= _LARGE):
        single = getattr(library, f"cublas{letter}trsm")

        def run(a: Tensor, x: Tensor) -> None:
            handle = blas.handle_for(device_state)
            one = handle.one_and_zero[int(scalar)][0]
            matrix, right = a._address, x._address
            for number in range(count):
                single(
                    handle.handle,
                    *flags,
                    one,
                    matrix + number * step_a,
                    leading,
                    right + number * step_x,
                    columns,
                )

        return run
    batched = getattr(library, f"cublas{letter}trsmBatched")

    def run_batched(a: Tensor, x: Tensor) -> None:
        matrices = _addresses(device_state, a._address, step_a, count)
        rights = _addresses(device_state, x._address, step_x, count)
        handle = blas.handle_for(device_state)
        one = handle.one_and_zero[int(scalar)][0]
        batched(handle.handle, *flags, one, matrices._address, leading, rights._address, columns, count)

    return run_batched


def _addresses(device_state: Any, first: int, step: int, count: int) -> Tensor:
    """Addresses of matrices ``step`` bytes apart, in device memory."""
    if not step:
        return full((count,), first, dtype=int64, device=device_state.device)
    return arange(first, first + count * step, step, dtype=int64, device=device_state.device)


def solved(a: Tensor, b: Tensor, *systems: System) -> Tensor:
    """The solution of one system after the other, of the right sides ``b`` at first. Not recorded."""
    layout = b._layout
    batch = strides_of.broadcast_shapes(a._layout.shape[:-2], layout.shape[:-2])
    shape = (*batch, *layout.shape[-2:])
    plans = layout.device_state.plans
    x = empty(contiguous[shape, layout.dtype, layout.device_state])
    if x._layout.numel:
        plans[COPY, x._layout, _per_channel(layout, shape)](x, b, True)
    for system in systems:
        plans[TRSM, system, a._layout, x._layout](a, x)
    return x
