"""Other matrix functions of the simulated cuBLAS: ``gemv``, ``geam``, ``trsm``."""

# ruff: noqa: N815 - the names are C's

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.bindings.library_types import cudaDataType as Type

from .cublas_state import POINTER, CublasState, call, number, refuse_value
from .cublas_vectors import load_vector, store_vector
from .matrix_layout import column_major, require_leading, require_operations, require_sizes
from .matrix_products import DTYPES, operate, solve_triangular
from .strided_memory import load, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.memory.library_memory import LibraryMemory


def _gemv(name: str, data_type: Type) -> Callable[..., None]:
    def gemv(
        self: MatrixCalls,
        handle: int,
        trans: int,
        m: int,
        n: int,
        alpha: int,
        A: int,
        lda: int,
        x: int,
        incx: int,
        beta: int,
        y: int,
        incy: int,
        /,
    ) -> None:
        self._gemv(name, data_type, handle, trans, m, n, alpha, A, lda, x, incx, beta, y, incy)

    gemv.__name__ = name
    return call(gemv)


def _geam(name: str, data_type: Type) -> Callable[..., None]:
    def geam(
        self: MatrixCalls,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        alpha: int,
        A: int,
        lda: int,
        beta: int,
        B: int,
        ldb: int,
        C: int,
        ldc: int,
        /,
    ) -> None:
        self._geam(name, data_type, handle, transa, transb, m, n, alpha, A, lda, beta, B, ldb, C, ldc)

    geam.__name__ = name
    return call(geam)


def _trsm(name: str, data_type: Type) -> Callable[..., None]:
    def trsm(
        self: MatrixCalls,
        handle: int,
        side: int,
        uplo: int,
        trans: int,
        diag: int,
        m: int,
        n: int,
        alpha: int,
        A: int,
        lda: int,
        B: int,
        ldb: int,
        /,
    ) -> None:
        self._trsm(name, data_type, handle, side, uplo, trans, diag, m, n, alpha, A, lda, B, ldb)

    trsm.__name__ = name
    return call(trsm)


def _trsm_batched(name: str, data_type: Type) -> Callable[..., None]:
    def trsm(
        self: MatrixCalls,
        handle: int,
        side: int,
        uplo: int,
        trans: int,
        diag: int,
        m: int,
        n: int,
        alpha: int,
        A: int,
        lda: int,
        B: int,
        ldb: int,
        batchCount: int,
        /,
    ) -> None:
        if batchCount < 0:
            raise refuse_value(f"batchCount is {batchCount}")
        self._trsm(name, data_type, handle, side, uplo, trans, diag, m, n, alpha, A, lda, B, ldb, batchCount)

    trsm.__name__ = name
    return call(trsm)


class MatrixCalls(CublasState):
    """Functions of matrices that are no products of two."""

    cublasSgemv = _gemv("cublasSgemv", Type.CUDA_R_32F)
    cublasDgemv = _gemv("cublasDgemv", Type.CUDA_R_64F)
    cublasCgemv = _gemv("cublasCgemv", Type.CUDA_C_32F)
    cublasZgemv = _gemv("cublasZgemv", Type.CUDA_C_64F)
    cublasSgeam = _geam("cublasSgeam", Type.CUDA_R_32F)
    cublasDgeam = _geam("cublasDgeam", Type.CUDA_R_64F)
    cublasCgeam = _geam("cublasCgeam", Type.CUDA_C_32F)
    cublasZgeam = _geam("cublasZgeam", Type.CUDA_C_64F)
    cublasStrsm = _trsm("cublasStrsm", Type.CUDA_R_32F)
    cublasDtrsm = _trsm("cublasDtrsm", Type.CUDA_R_64F)
    cublasCtrsm = _trsm("cublasCtrsm", Type.CUDA_C_32F)
    cublasZtrsm = _trsm("cublasZtrsm", Type.CUDA_C_64F)
    cublasStrsmBatched = _trsm_batched("cublasStrsmBatched", Type.CUDA_R_32F)
    cublasDtrsmBatched = _trsm_batched("cublasDtrsmBatched", Type.CUDA_R_64F)
    cublasCtrsmBatched = _trsm_batched("cublasCtrsmBatched", Type.CUDA_C_32F)
    cublasZtrsmBatched = _trsm_batched("cublasZtrsmBatched", Type.CUDA_C_64F)

    def _gemv(
        self,
        name: str,
        data_type: Type,
        handle: int,
        trans: int,
        m: int,
        n: int,
        alpha: int,
        A: int,
        lda: int,
        x: int,
        incx: int,
        beta: int,
        y: int,
        incy: int,
    ) -> None:
        state = self._handle(handle)
        require_operations(trans)
        require_sizes(m=m, n=n)
        require_leading("lda", lda, m)
        if incx == 0 or incy == 0:
            raise refuse_value(f"incx is {incx} and incy {incy}: neither may be 0")
        factor = self._scalar(state, alpha, data_type, "alpha")
        old_factor = self._scalar(state, beta, data_type, "beta")
        if m == 0 or n == 0:
            return
        rows, columns = (m, n) if trans == 0 else (n, m)
        workspace = state.workspace
        stored = column_major(DTYPES[data_type], m, n, lda)

        def run(memory: LibraryMemory) -> None:
            first, second = number(factor, memory), number(old_factor, memory)
            workspace.use(memory, rows * stored.dtype.itemsize)
            result = np.zeros(rows, stored.dtype)
            if first != 0:
                matrix = operate(stored.load(memory, A)[0], trans)
                result = first * (matrix @ load_vector(memory, x, data_type, columns, incx))
            if second != 0:
                result = result + second * load_vector(memory, y, data_type, rows, incy)
            store_vector(memory, y, result, incy)

        self._queue(state, f"{name} m={m} n={n}", run)

    def _geam(
        self,
        name: str,
        data_type: Type,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        alpha: int,
        A: int,
        lda: int,
        beta: int,
        B: int,
        ldb: int,
        C: int,
        ldc: int,
    ) -> None:
        state = self._handle(handle)
        require_operations(transa, transb)
        require_sizes(m=m, n=n)
        a_shape, b_shape = ((m, n) if trans == 0 else (n, m) for trans in (transa, transb))
        require_leading("lda", lda, a_shape[0])
        require_leading("ldb", ldb, b_shape[0])
        require_leading("ldc", ldc, m)
        for matrix, letter, trans, leading in ((A, "A", transa, lda), (B, "B", transb, ldb)):
            if matrix == C and (trans or leading != ldc):
                raise refuse_value(
                    f"C is {letter}, which must then not be transposed and have C's leading dimension"
                )
        factor = self._scalar(state, alpha, data_type, "alpha")
        other_factor = self._scalar(state, beta, data_type, "beta")
        if m == 0 or n == 0:
            return
        dtype = DTYPES[data_type]
        a_layout, b_layout = column_major(dtype, *a_shape, lda), column_major(dtype, *b_shape, ldb)

        def run(memory: LibraryMemory) -> None:
            result = np.zeros((m, n), dtype)
            for scalar, layout, address, trans in (
                (factor, a_layout, A, transa),
                (other_factor, b_layout, B, transb),
            ):
                scale = number(scalar, memory)
                if scale != 0:
                    result = result + scale * operate(layout.load(memory, address)[0], trans)
            store(memory, C, result, (1, ldc))

        self._queue(state, f"{name} m={m} n={n}", run)

    def _trsm(
        self,
        name: str,
        data_type: Type,
        handle: int,
        side: int,
        uplo: int,
        trans: int,
        diag: int,
        m: int,
        n: int,
        alpha: int,
        A: int,
        lda: int,
        B: int,
        ldb: int,
        pointers: int | None = None,
    ) -> None:
        """Check a system and queue it; ``pointers`` is how many addresses the arrays ``A`` and ``B`` hold."""
        state = self._handle(handle)
        if side not in (0, 1) or uplo not in (0, 1) or diag not in (0, 1):
            raise refuse_value(f"side {side}, uplo {uplo}, diag {diag}: each must be 0 or 1")
        require_operations(trans)
        require_sizes(m=m, n=n)
        order = m if side == 0 else n
        require_leading("lda", lda, order)
        require_leading("ldb", ldb, m)
        factor = self._scalar(state, alpha, data_type, "alpha")
        if m == 0 or n == 0 or pointers == 0:
            return
        dtype = DTYPES[data_type]
        lower, unit = (uplo == 0) == (trans == 0), diag == 1

        def solve(memory: LibraryMemory, scale: complex, a: int, b: int) -> None:
            if scale == 0:
                store(memory, b, np.zeros((m, n), dtype), (1, ldb))
                return
            matrix = operate(_load_triangle(memory, a, dtype, order, lda, upper=uplo == 1, unit=unit), trans)
            right = scale * load(memory, b, dtype, (m, n), (1, ldb))
            if side == 0:
                solved = solve_triangular(matrix, right, lower=lower, unit=unit)
            else:
                solved = solve_triangular(matrix.T, right.T, lower=not lower, unit=unit).T
            store(memory, b, solved, (1, ldb))

        def run(memory: LibraryMemory) -> None:
            scale = number(factor, memory)
            if pointers is None:
                solve(memory, scale, A, B)
                return
            lists = [load(memory, array, POINTER, (pointers,), (1,)).tolist() for array in (A, B)]
            for a, b in zip(*lists, strict=True):
                solve(memory, scale, a, b)

        self._queue(state, f"{name} m={m} n={n}", run)


def _load_triangle(
    memory: LibraryMemory,
    address: int,
    dtype: np.dtype[Any],
    order: int,
    leading: int,
    *,
    upper: bool,
    unit: bool,
) -> Any:
    """A triangular matrix, column by column: what is outside the triangle is not read."""
    matrix = np.zeros((order, order), dtype)
    skipped = 1 if unit else 0
    for column in range(order):
        rows = slice(0, column + 1 - skipped) if upper else slice(column + skipped, order)
        start = address + (column * leading + rows.start) * dtype.itemsize
        matrix[rows, column] = load(memory, start, dtype, (rows.stop - rows.start,), (1,))
    return matrix
