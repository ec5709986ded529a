"""The simulated cuBLASLt: its signatures, epilogues, algorithms, and what it refuses."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import drv
from drv import simulator
from drv.bindings.cublas import cublasComputeType_t as Compute
from drv.bindings.cublaslt import CublasLt, HeuristicResult
from drv.bindings.cublaslt import cublasLtEpilogue_t as Epilogue
from drv.bindings.cublaslt import cublasLtMatmulDescAttributes_t as Desc
from drv.bindings.cublaslt import cublasLtMatmulPreferenceAttributes_t as Preference
from drv.bindings.cublaslt import cublasLtMatrixLayoutAttribute_t as Matrix
from drv.bindings.library_types import cudaDataType as Type
from drv.bindings.prototypes import prototypes
from drv.simulator.libraries.cublaslt import SimulatedCublasLt
from tests.drv.bindings.library_arrays import SINGLE, DeviceArray, column_major, scalar

TYPES = {np.float16: Type.CUDA_R_16F, ml_dtypes.bfloat16: Type.CUDA_R_16BF, np.float32: Type.CUDA_R_32F}
PLAIN, BIAS, OF_A, OF_B = (
    Epilogue.CUBLASLT_EPILOGUE_DEFAULT,
    Epilogue.CUBLASLT_EPILOGUE_BIAS,
    Epilogue.CUBLASLT_EPILOGUE_BGRADA,
    Epilogue.CUBLASLT_EPILOGUE_BGRADB,
)


@pytest.mark.parametrize("name", list(prototypes(CublasLt)))
def test_signatures_are_the_declared_ones(name: str) -> None:
    parameters = inspect.signature(getattr(SimulatedCublasLt, name)).parameters.values()
    assert [parameter.kind for parameter in parameters] == [inspect.Parameter.POSITIONAL_ONLY] * len(
        parameters
    )
    assert len(parameters) - 1 == len(prototypes(CublasLt)[name].parameters)


class Product:
    """``D = epilogue(A @ B)`` of column-major matrices that are ``(m, k)`` and ``(k, n)`` once ``transposed`` says how."""

    def __init__(
        self,
        epilogue: int = PLAIN,
        dtype: Any = np.float32,
        output: Any = None,
        transposed: tuple[int, int] = (0, 0),
        sizes: tuple[int, int, int] = (5, 4, 3),
    ) -> None:
        drv.reset()
        self.runtime = simulator.install(check="full")
        self.device = drv.Device(0)
        self.device.use()
        self.library: Any = self.runtime.library("cublasLt")
        self.handle = self.library.cublasLtCreate()
        m, n, k = sizes
        rng = np.random.default_rng(0)
        output = output or dtype
        self.left, self.right = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
        stored = [x.T if flag else x for x, flag in zip((self.left, self.right), transposed, strict=True)]
        self.a, self.b = (column_major(np.ascontiguousarray(x), x.shape[0]) for x in stored)
        self.d = column_major(np.zeros((m, n), output), m)
        length = n if epilogue == OF_B else m
        self.vector = rng.standard_normal(length).astype(output)
        self.bias = DeviceArray(self.vector)
        self.one, self.zero = scalar(SINGLE, 1), scalar(SINGLE, 0)
        make = self.library.cublasLtMatrixLayoutCreate
        self.layouts = [
            make(TYPES[x.dtype.type], *x.shape, x.shape[0]) for x in (*stored, np.zeros((m, n), output))
        ]
        self.operation = self.library.cublasLtMatmulDescCreate(Compute.CUBLAS_COMPUTE_32F, Type.CUDA_R_32F)
        for attribute, value in (
            (Desc.CUBLASLT_MATMUL_DESC_TRANSA, ctypes.c_int32(transposed[0])),
            (Desc.CUBLASLT_MATMUL_DESC_TRANSB, ctypes.c_int32(transposed[1])),
            (Desc.CUBLASLT_MATMUL_DESC_EPILOGUE, ctypes.c_uint32(epilogue)),
            (Desc.CUBLASLT_MATMUL_DESC_BIAS_POINTER, ctypes.c_uint64(self.bias.address)),
        ):
            self.set(attribute, value)

    def set(self, attribute: int, value: Any) -> None:
        self.library.cublasLtMatmulDescSetAttribute(
            self.operation, attribute, ctypes.addressof(value), ctypes.sizeof(value)
        )

    def algorithm(self, **preferences: int) -> HeuristicResult:
        preference = self.library.cublasLtMatmulPreferenceCreate()
        for name, number in preferences.items():
            wide = "WORKSPACE" in name
            value: Any = (ctypes.c_uint64 if wide else ctypes.c_uint32)(number)
            self.library.cublasLtMatmulPreferenceSetAttribute(
                preference,
                Preference[f"CUBLASLT_MATMUL_PREF_{name}"],
                ctypes.addressof(value),
                ctypes.sizeof(value),
            )
        result = HeuristicResult()
        a, b, d = self.layouts
        count = self.library.cublasLtMatmulAlgoGetHeuristic(
            self.handle, self.operation, a, b, d, d, preference, 1, ctypes.addressof(result)
        )
        self.library.cublasLtMatmulPreferenceDestroy(preference)
        assert count == 1
        return result

    def run(self, algorithm: HeuristicResult | None = None, *, shift: int = 0, stream: int = 0) -> None:
        a, b, d = self.layouts
        self.library.cublasLtMatmul(
            self.handle, self.operation, self.one.address, self.a.address + shift, a, self.b.address, b,
            self.zero.address, self.d.address, d, self.d.address, d,
            0 if algorithm is None else ctypes.addressof(algorithm), 0, 0, stream,
        )  # fmt: skip

    def result(self) -> Any:
        self.device.synchronize()
        return self.d.numpy()


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(
    ("dtype", "output"), [(np.float32, None), (np.float16, None), (ml_dtypes.bfloat16, np.float32)]
)
@pytest.mark.parametrize("epilogue", [PLAIN, BIAS, OF_A, OF_B])
def test_epilogues(epilogue: int, dtype: Any, output: Any, transposed: tuple[int, int]) -> None:
    product = Product(epilogue, dtype, output, transposed)
    product.run(product.algorithm())
    left, right = product.left.astype(np.float32), product.right.astype(np.float32)
    expected = left @ right
    if epilogue == BIAS:
        # Before the one rounding.
        expected += product.vector.astype(np.float32)[:, None]
    tolerance = 1e-3 if (output or dtype) is np.float16 else 1e-5
    np.testing.assert_allclose(product.result().astype(np.float32), expected, rtol=tolerance, atol=tolerance)
    sums = {OF_A: left.sum(1), OF_B: right.sum(0)}.get(epilogue, product.vector)
    np.testing.assert_allclose(
        product.bias.numpy().astype(np.float32), sums.astype(np.float32), rtol=tolerance, atol=tolerance
    )


def test_a_handle_of_cublas_is_one_too() -> None:
    product = Product()
    product.handle = product.runtime.library("cublas").cublasCreate()
    product.run()
    np.testing.assert_allclose(product.result(), product.left @ product.right, rtol=1e-5)
    assert product.library.cublasLtGetVersion() == product.runtime.library("cublas").cublasGetVersion(
        product.handle
    )


def test_algorithms_are_for_a_product_and_an_alignment() -> None:
    strange = Product(BIAS, sizes=(4, 4, 4)).algorithm()
    product = Product(BIAS)
    with pytest.raises(drv.InvalidValueError, match="the algorithm is for another product"):
        product.run(strange)
    usual, narrow = (
        product.algorithm(),
        product.algorithm(
            MIN_ALIGNMENT_A_BYTES=4, MIN_ALIGNMENT_B_BYTES=4, MIN_ALIGNMENT_C_BYTES=4, MIN_ALIGNMENT_D_BYTES=4
        ),
    )
    with pytest.raises(drv.NotSupportedError, match="aligned to 256 bytes"):
        product.run(usual, shift=4)
    product.run(usual)
    product.run(narrow)
    assert product.algorithm(MAX_WORKSPACE_BYTES=1 << 20).workspaceSize > 0
    product.result()


def test_what_is_refused() -> None:
    product = Product(BIAS)
    for attribute, value, message in (
        (Desc.CUBLASLT_MATMUL_DESC_EPILOGUE, ctypes.c_uint32(36), "epilogue 36 is not simulated"),
        (
            Desc.CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
            ctypes.c_int32(Type.CUDA_R_16F),
            "another type than the result",
        ),
    ):
        with pytest.raises(drv.NotSupportedError, match=message):
            product.set(attribute, value)
            product.algorithm()
        product = Product(BIAS)
    product.set(Desc.CUBLASLT_MATMUL_DESC_BIAS_POINTER, ctypes.c_uint64(0))
    with pytest.raises(drv.InvalidValueError, match="BIAS_POINTER, which is null"):
        product.run()
    with pytest.raises(drv.InvalidValueError, match="has 4 bytes, 8 were given"):
        product.set(Desc.CUBLASLT_MATMUL_DESC_TRANSA, ctypes.c_uint64(1))
    with pytest.raises(drv.InvalidValueError, match="is no"):
        product.set(Desc.CUBLASLT_MATMUL_DESC_TRANSA, ctypes.c_int32(1))
        product.run()
    product.library.cublasLtMatmulDescDestroy(product.operation)
    with pytest.raises(drv.InvalidValueError, match="does not exist, or was destroyed"):
        product.run()
    with pytest.raises(drv.InvalidHandleError, match="cublasLtDestroy"):
        product.library.cublasLtDestroy(12345)


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        (Matrix.CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, ctypes.c_int32(2), "batches"),
        (Matrix.CUBLASLT_MATRIX_LAYOUT_ORDER, ctypes.c_int32(1), "orders other than column-major"),
    ],
)
def test_what_is_refused_though_the_like_was_accepted(attribute: int, value: Any, message: str) -> None:
    product = Product()
    product.run()
    for layout in product.layouts:
        product.library.cublasLtMatrixLayoutSetAttribute(
            layout, attribute, ctypes.addressof(value), ctypes.sizeof(value)
        )
    with pytest.raises(drv.NotSupportedError, match=message):
        product.run()


def test_what_two_streams_write_is_a_race() -> None:
    product = Product(OF_B)
    streams = [drv.Stream(), drv.Stream()]
    for stream in streams:
        product.run(stream=int(stream.handle))
    with pytest.raises(drv.DataRaceError, match="cublasLtMatmul bias gradient"):
        product.device.synchronize()
