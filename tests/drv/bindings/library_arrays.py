"""NumPy arrays on a device, in the layouts that cuBLAS and cuFFT take."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import drv
from drv.bindings.cublas import Cublas, HostScalar
from drv.bindings.cufft import Cufft
from drv.bindings.library_types import cudaDataType as Type

HALF, BFLOAT, SINGLE, DOUBLE = Type.CUDA_R_16F, Type.CUDA_R_16BF, Type.CUDA_R_32F, Type.CUDA_R_64F
COMPLEX, DOUBLE_COMPLEX, INT8, INT32 = Type.CUDA_C_32F, Type.CUDA_C_64F, Type.CUDA_R_8I, Type.CUDA_R_32I

DTYPES: dict[Type, Any] = {
    HALF: np.float16,
    BFLOAT: ml_dtypes.bfloat16,
    SINGLE: np.float32,
    DOUBLE: np.float64,
    COMPLEX: np.complex64,
    DOUBLE_COMPLEX: np.complex128,
    INT8: np.int8,
    INT32: np.int32,
}
#: Largest relative error of one rounding to each type.
ROUNDING = {
    HALF: 2**-11,
    BFLOAT: 2**-8,
    SINGLE: 2**-24,
    DOUBLE: 2**-53,
    COMPLEX: 2**-23,
    DOUBLE_COMPLEX: 2**-52,
}
#: What fills memory that no element is in.
FILL = 0x5A


def installed(name: str) -> Any:
    """The library of the driver in use; skips where NVIDIA's is not installed."""
    try:
        return drv.runtime().library(name)
    except drv.LibraryNotInstalledError:
        pytest.skip(f"{name} is not installed")


def cublas_handle() -> tuple[Cublas, int]:
    """cuBLAS and a handle; the current context is device 0's."""
    drv.Device(0).use()
    cublas: Cublas = installed("cublas")
    return cublas, cublas.cublasCreate()


def cufft_library() -> Cufft:
    """cuFFT; the current context is device 0's."""
    drv.Device(0).use()
    cufft: Cufft = installed("cufft")
    return cufft


class DeviceArray:
    """Elements with strides (in elements) in an allocation of their own, filled with ``FILL`` between them."""

    def __init__(self, values: NDArray[Any], strides: tuple[int, ...] | None = None) -> None:
        self.shape, self.dtype = values.shape, values.dtype
        if strides is None:
            strides = tuple(step // values.itemsize for step in np.empty(values.shape, values.dtype).strides)
        self.strides = tuple(step * values.itemsize for step in strides)
        extent = (
            sum((n - 1) * abs(step) for n, step in zip(values.shape, self.strides, strict=True))
            if values.size
            else 0
        )
        self.host = np.full(extent + values.itemsize, FILL, np.uint8)
        self._elements(self.host)[...] = values
        self.memory = drv.DeviceMemory(self.host.nbytes)
        self.address = self.memory.address
        drv.copy_to_device(self.memory, self.host)

    def _elements(self, raw: NDArray[np.uint8]) -> NDArray[Any]:
        return as_strided(raw.view(self.dtype), self.shape, self.strides)

    def raw(self) -> NDArray[np.uint8]:
        """All bytes, those between the elements too."""
        drv.Device(0).synchronize()
        result = np.empty_like(self.host)
        drv.copy_to_host(result, self.memory)
        return result

    def numpy(self) -> NDArray[Any]:
        """The elements as they are now. Fails when bytes between them have changed."""
        raw = self.raw()
        values = self._elements(raw).copy()
        expected = self.host.copy()
        self._elements(expected)[...] = values
        np.testing.assert_array_equal(raw, expected, "bytes between the elements were written")
        return values


def column_major(matrices: NDArray[Any], leading: int, stride: int = 0) -> DeviceArray:
    """Matrices ``(rows, columns)`` or ``(batch, rows, columns)`` in cuBLAS' layout."""
    return DeviceArray(matrices, (stride, 1, leading) if matrices.ndim == 3 else (1, leading))


def random_values(rng: np.random.Generator, shape: tuple[int, ...], data_type: Type) -> NDArray[Any]:
    """Standard normal numbers, or integers of the whole range of int8."""
    dtype = np.dtype(DTYPES[data_type])
    if data_type in (INT8, INT32):
        return rng.integers(-128, 128, shape).astype(dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def wide(values: NDArray[Any]) -> NDArray[Any]:
    """The numbers in double precision."""
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def scalar(data_type: Type, value: complex) -> HostScalar:
    """A host scalar; the imaginary part is dropped where the type has none."""
    if data_type in (COMPLEX, DOUBLE_COMPLEX):
        return HostScalar(data_type, value)
    real = complex(value).real
    return HostScalar(data_type, round(real) if data_type == INT32 else real)
