"""Vector functions of the simulated cuBLAS: dot products, norms, ``axpy``, ``scal``.

float16 and bfloat16 vectors are computed with in float32 and rounded once; norms are accumulated in float64, so
that they overflow only where the result does.
"""

# ruff: noqa: N815 - the names are C's

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.bindings.library_types import cudaDataType as Type

from .cublas_state import NOT_SUPPORTED, CublasState, call, number
from .library_call import Refusal
from .matrix_products import DTYPES
from .strided_memory import load, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from drv.simulator.memory.library_memory import LibraryMemory

#: For each element type, the type in which vectors of it are computed with.
_EXECUTION = {
    Type.CUDA_R_16F: Type.CUDA_R_32F,
    Type.CUDA_R_16BF: Type.CUDA_R_32F,
    Type.CUDA_R_32F: Type.CUDA_R_32F,
    Type.CUDA_R_64F: Type.CUDA_R_64F,
    Type.CUDA_C_32F: Type.CUDA_C_32F,
    Type.CUDA_C_64F: Type.CUDA_C_64F,
}
#: The type of a norm, and of the computation.
_NORM = {
    Type.CUDA_R_16F: (Type.CUDA_R_16F, Type.CUDA_R_32F),
    Type.CUDA_R_16BF: (Type.CUDA_R_16BF, Type.CUDA_R_32F),
    Type.CUDA_R_32F: (Type.CUDA_R_32F, Type.CUDA_R_32F),
    Type.CUDA_R_64F: (Type.CUDA_R_64F, Type.CUDA_R_64F),
    Type.CUDA_C_32F: (Type.CUDA_R_32F, Type.CUDA_R_32F),
    Type.CUDA_C_64F: (Type.CUDA_R_64F, Type.CUDA_R_64F),
}


def load_vector(memory: LibraryMemory, address: int, data_type: int, n: int, increment: int) -> NDArray[Any]:
    """``n`` elements; with a negative increment they are stored from the last to the first, as in BLAS."""
    values = load(memory, address, DTYPES[data_type], (n,), (abs(increment),))
    return values[::-1] if increment < 0 else values


def store_vector(memory: LibraryMemory, address: int, values: NDArray[Any], increment: int) -> None:
    """Write a vector as :func:`load_vector` reads it."""
    store(memory, address, values[::-1] if increment < 0 else values, (abs(increment),))


def _dot(name: str, data_type: Type, *, conjugate: bool = False) -> Callable[..., None]:
    def dot(
        self: VectorCalls, handle: int, n: int, x: int, incx: int, y: int, incy: int, result: int, /
    ) -> None:
        self._dot(name, handle, n, x, incx, y, incy, result, data_type, conjugate=conjugate)

    dot.__name__ = name
    return call(dot)


def _nrm2(name: str, data_type: Type) -> Callable[..., None]:
    def nrm2(self: VectorCalls, handle: int, n: int, x: int, incx: int, result: int, /) -> None:
        self._nrm2(name, handle, n, x, incx, result, data_type)

    nrm2.__name__ = name
    return call(nrm2)


class VectorCalls(CublasState):
    """Functions of vectors."""

    cublasSdot = _dot("cublasSdot", Type.CUDA_R_32F)
    cublasDdot = _dot("cublasDdot", Type.CUDA_R_64F)
    cublasCdotu = _dot("cublasCdotu", Type.CUDA_C_32F)
    cublasCdotc = _dot("cublasCdotc", Type.CUDA_C_32F, conjugate=True)
    cublasZdotu = _dot("cublasZdotu", Type.CUDA_C_64F)
    cublasZdotc = _dot("cublasZdotc", Type.CUDA_C_64F, conjugate=True)
    cublasSnrm2 = _nrm2("cublasSnrm2", Type.CUDA_R_32F)
    cublasDnrm2 = _nrm2("cublasDnrm2", Type.CUDA_R_64F)
    cublasScnrm2 = _nrm2("cublasScnrm2", Type.CUDA_C_32F)
    cublasDznrm2 = _nrm2("cublasDznrm2", Type.CUDA_C_64F)

    @call
    def cublasDotEx(
        self,
        handle: int,
        n: int,
        x: int,
        xType: int,
        incx: int,
        y: int,
        yType: int,
        incy: int,
        result: int,
        resultType: int,
        executionType: int,
        /,
    ) -> None:
        self._handle(handle)
        _require_types(_EXECUTION, xType, (yType, resultType), executionType)
        self._dot("cublasDotEx", handle, n, x, incx, y, incy, result, xType, conjugate=False)

    @call
    def cublasDotcEx(
        self,
        handle: int,
        n: int,
        x: int,
        xType: int,
        incx: int,
        y: int,
        yType: int,
        incy: int,
        result: int,
        resultType: int,
        executionType: int,
        /,
    ) -> None:
        self._handle(handle)
        _require_types(_EXECUTION, xType, (yType, resultType), executionType)
        self._dot("cublasDotcEx", handle, n, x, incx, y, incy, result, xType, conjugate=True)

    @call
    def cublasNrm2Ex(
        self,
        handle: int,
        n: int,
        x: int,
        xType: int,
        incx: int,
        result: int,
        resultType: int,
        executionType: int,
        /,
    ) -> None:
        self._handle(handle)
        if _NORM.get(xType) != (resultType, executionType):  # type: ignore[call-overload]
            raise Refusal(NOT_SUPPORTED, "this combination of types is not supported")
        self._nrm2("cublasNrm2Ex", handle, n, x, incx, result, xType)

    @call
    def cublasAxpyEx(
        self,
        handle: int,
        n: int,
        alpha: int,
        alphaType: int,
        x: int,
        xType: int,
        incx: int,
        y: int,
        yType: int,
        incy: int,
        executionType: int,
        /,
    ) -> None:
        state = self._handle(handle)
        _require_types(_EXECUTION, xType, (yType,), executionType)
        _require_alpha(alphaType, executionType)
        factor = self._scalar(state, alpha, alphaType, "alpha")
        if n <= 0:
            return

        def run(memory: LibraryMemory) -> None:
            scale = number(factor, memory)
            if scale == 0:
                return
            work = DTYPES[executionType]
            total = scale * load_vector(memory, x, xType, n, incx).astype(work)
            total += load_vector(memory, y, yType, n, incy).astype(work)
            store_vector(memory, y, total.astype(DTYPES[yType]), incy)

        self._queue(state, f"cublasAxpyEx n={n}", run)

    @call
    def cublasScalEx(
        self,
        handle: int,
        n: int,
        alpha: int,
        alphaType: int,
        x: int,
        xType: int,
        incx: int,
        executionType: int,
        /,
    ) -> None:
        state = self._handle(handle)
        _require_types(_EXECUTION, xType, (), executionType)
        _require_alpha(alphaType, executionType)
        factor = self._scalar(state, alpha, alphaType, "alpha")
        if n <= 0 or incx <= 0:
            return

        def run(memory: LibraryMemory) -> None:
            scaled = number(factor, memory) * load_vector(memory, x, xType, n, incx).astype(
                DTYPES[executionType]
            )
            store_vector(memory, x, scaled.astype(DTYPES[xType]), incx)

        self._queue(state, f"cublasScalEx n={n}", run)

    def _dot(
        self,
        name: str,
        handle: int,
        n: int,
        x: int,
        incx: int,
        y: int,
        incy: int,
        result: int,
        data_type: int,
        *,
        conjugate: bool,
    ) -> None:
        state = self._handle(handle)
        work = DTYPES[_EXECUTION[Type(data_type)]]

        def compute(memory: LibraryMemory) -> Any:
            if n <= 0:
                return 0
            left = load_vector(memory, x, data_type, n, incx).astype(work)
            right = load_vector(memory, y, data_type, n, incy).astype(work)
            return np.dot(left.conj() if conjugate else left, right)

        self._deliver(state, f"{name} n={n}", result, DTYPES[data_type], compute)

    def _nrm2(self, name: str, handle: int, n: int, x: int, incx: int, result: int, data_type: int) -> None:
        state = self._handle(handle)

        def compute(memory: LibraryMemory) -> Any:
            if n <= 0 or incx <= 0:
                return 0
            values = load_vector(memory, x, data_type, n, incx)
            wide = np.abs(values.astype(np.complex128 if values.dtype.kind == "c" else np.float64))
            largest = wide.max()
            if largest == 0 or not np.isfinite(largest):
                return largest
            return largest * np.sqrt(np.sum((wide / largest) ** 2))

        self._deliver(state, f"{name} n={n}", result, DTYPES[_NORM[Type(data_type)][0]], compute)


def _require_types(table: dict[Type, Type], first: int, others: tuple[int, ...], execution: int) -> None:
    if table.get(first) != execution or any(other != first for other in others):  # type: ignore[call-overload]
        raise Refusal(NOT_SUPPORTED, "this combination of types is not supported")


def _require_alpha(alpha: int, execution: int) -> None:
    if alpha != execution:
        raise Refusal(NOT_SUPPORTED, "alpha has another type than the computation")
