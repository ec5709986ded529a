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
#: Bits of an epilogue: an auxiliary matrix, relu or its gradient, a bias that is added.
AUX, OF_RELU, WITH_BIAS = 128, 2 | 8, 4
RELU_AUX, DRELU, GELU, GELU_AUX, DGELU = (
    Epilogue[f"CUBLASLT_EPILOGUE_{name}"] for name in ("RELU_AUX", "DRELU", "GELU", "GELU_AUX", "DGELU")
)
ACTIVATIONS = [each for each in Epilogue if each & (2 | 8 | 32 | 64)]


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
        schedule: str = "eager",
    ) -> None:
        drv.reset()
        self.runtime = simulator.install(check="full", schedule=schedule)
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
        if epilogue & AUX:
            self.leading = -(-m // 128) * 128 if epilogue & OF_RELU else -(-m // 8) * 8
            shape, aux_type = (
                ((self.leading // 8, n), np.uint8) if epilogue & OF_RELU else ((self.leading, n), output)
            )
            self.input = rng.standard_normal(shape).astype(output)
            if epilogue & OF_RELU:
                self.input = rng.integers(0, 256, shape).astype(np.uint8)
            self.aux = column_major(self.input.astype(aux_type), shape[0])
            self.set_aux(self.aux.address, self.leading)

    def set_aux(self, address: int, leading: int) -> None:
        self.set(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, ctypes.c_uint64(address))
        self.set(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ctypes.c_int64(leading))

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


def gelu(x: Any) -> Any:
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def gelu_slope(x: Any) -> Any:
    t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return (1 + t) / 2 + x * (1 - t * t) / 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)


def bits(mask: Any, rows: int) -> Any:
    """The elements that a mask, column after column, passes on."""
    return np.unpackbits(mask, axis=0, count=rows, bitorder="little").astype(bool)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize(
    ("dtype", "output"),
    [(np.float32, None), (np.float16, None), (ml_dtypes.bfloat16, None), (np.float16, np.float32)],
)
@pytest.mark.parametrize(
    "epilogue", ACTIVATIONS, ids=lambda each: each.name.removeprefix("CUBLASLT_EPILOGUE_")
)
def test_activations(epilogue: int, dtype: Any, output: Any, schedule: str) -> None:
    """More rows than 128, which is what a mask's columns are a multiple of."""
    product = Product(epilogue, dtype, output, (1, 0), (134, 4, 3), schedule)
    product.run(product.algorithm())
    total = product.left.astype(np.float64) @ product.right.astype(np.float64)
    vector = product.vector.astype(np.float64)
    if epilogue & WITH_BIAS:
        total += vector[:, None]
    rounding = {np.float32: 2e-6, np.float16: 2**-10, ml_dtypes.bfloat16: 2**-7}[output or dtype]
    name = Epilogue(epilogue).name.removeprefix("CUBLASLT_EPILOGUE_")
    if name.startswith("RELU"):
        expected = np.maximum(total, 0)
    elif name.startswith("GELU"):
        expected = gelu(total)
    elif name.startswith("DRELU"):
        expected = np.where(bits(product.input, 134), total, 0)
    else:
        expected = total * gelu_slope(product.input[:134].astype(np.float64))
    result = product.result().astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=rounding, atol=rounding)
    if name.endswith("BGRAD"):
        vector = expected.sum(1)
    np.testing.assert_allclose(
        product.bias.numpy().astype(np.float64), vector, rtol=rounding, atol=4 * rounding
    )
    if not epilogue & AUX:
        return
    left = product.aux.numpy()
    if name.startswith("RELU"):
        # Of what is 0 but for rounding either bit is right.
        clear = abs(total) > 1e-5
        assert (bits(left, 134) == (total > 0))[clear].all()
    elif name.startswith("GELU"):
        np.testing.assert_allclose(left[:134].astype(np.float64), total, rtol=rounding, atol=rounding)
        np.testing.assert_array_equal(left[134:], product.input[134:])
    else:
        np.testing.assert_array_equal(left, product.input)


def test_relu_of_nan_is_not_relied_on() -> None:
    product = Product(RELU_AUX)
    product.set(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE, ctypes.c_uint32(Epilogue.CUBLASLT_EPILOGUE_RELU_AUX_BIAS))
    product.vector[1] = np.nan
    product.bias = DeviceArray(product.vector)
    product.set(Desc.CUBLASLT_MATMUL_DESC_BIAS_POINTER, ctypes.c_uint64(product.bias.address))
    product.run()
    assert (product.result()[1] == 0).all()
    assert not bits(product.aux.numpy(), 5)[1].any()


def test_what_is_added_to_and_scaled_is_activated() -> None:
    product = Product(GELU)
    product.one, product.zero = scalar(SINGLE, 0.5), scalar(SINGLE, 2)
    before = np.arange(20, dtype=np.float32).reshape(5, 4) / 10 - 1
    product.d = column_major(before, 5)
    product.run()
    expected = gelu(0.5 * (product.left @ product.right) + 2 * before)
    np.testing.assert_allclose(product.result(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("epilogue", [DGELU, DRELU])
def test_auxiliary_matrices_are_checked(epilogue: int) -> None:
    product = Product(epilogue, sizes=(5, 4, 3))
    unwritten = drv.DeviceMemory(product.aux.memory.nbytes)
    product.set_aux(unwritten.address, product.leading)
    product.run()
    with pytest.raises(drv.UninitializedReadError, match="cublasLtMatmul d[rg]elu"):
        product.device.synchronize()
    product = Product(epilogue, sizes=(5, 4, 3))
    small = drv.DeviceMemory(16)
    product.set_aux(small.address, product.leading)
    product.run()
    with pytest.raises(drv.IllegalAddressError, match="cublasLtMatmul d[rg]elu"):
        product.device.synchronize()


@pytest.mark.parametrize("epilogue", [GELU_AUX, RELU_AUX])
def test_auxiliary_matrices_race(epilogue: int) -> None:
    """What one stream leaves for a backward pass, and another one reads without waiting."""
    product = Product(epilogue, schedule="lazy")
    first, second = drv.Stream(), drv.Stream()
    d, other = product.d, column_major(np.zeros((5, 4), np.float32), 5)
    product.run(stream=int(first.handle))
    back = {GELU_AUX: DGELU, RELU_AUX: DRELU}[epilogue]
    product.set(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE, ctypes.c_uint32(back))
    product.d = other
    product.run(stream=int(second.handle))
    assert d.address != other.address
    with pytest.raises(drv.DataRaceError, match="cublasLtMatmul [rg]elu aux"):
        product.device.synchronize()


@pytest.mark.parametrize(
    ("epilogue", "nbytes"), [(GELU, 0), (GELU_AUX, 134 * 4 * 2), (DGELU, 134 * 4 * 2), (RELU_AUX, 32 * 4)]
)
def test_auxiliary_matrices_are_counted(epilogue: int, nbytes: int) -> None:
    moved = []
    for each in (PLAIN, epilogue):
        product = Product(each, np.float16, sizes=(134, 4, 8))
        with simulator.timed() as timing:
            product.run()
            product.device.synchronize()
        launch = next(each for each in timing.operations if "cublasLt" in each.name)
        moved.append(launch.metrics["dram_bytes"])
    assert moved[1] - moved[0] == nbytes


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
        (Desc.CUBLASLT_MATMUL_DESC_EPILOGUE, ctypes.c_uint32(3), "epilogue 3 is not simulated"),
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
    ("epilogue", "attribute", "value", "message"),
    [
        (GELU_AUX, "AUX_LD", ctypes.c_int64(12), "AUX_LD is 12 elements: it must be a multiple of 8"),
        (DGELU, "AUX_LD", ctypes.c_int64(0), "AUX_LD is 0 elements: .* not below the 5 rows"),
        (RELU_AUX, "AUX_LD", ctypes.c_int64(64), "AUX_LD is 64 bits: it must be a multiple of 128"),
        (
            DRELU,
            "AUX_BATCH_STRIDE",
            ctypes.c_int64(8),
            "AUX_BATCH_STRIDE is 8 bits: it must be a multiple of 128",
        ),
        (GELU_AUX, "AUX_DATA_TYPE", ctypes.c_int32(Type.CUDA_R_16F), "AUX_DATA_TYPE is another type"),
        (GELU_AUX, "AUX_POINTER", ctypes.c_uint64(0), "AUX_POINTER, which is null"),
        (
            GELU_AUX,
            "AUX_POINTER",
            ctypes.c_uint64(0x7000_0000_0008),
            "AUX_POINTER 0x7.* not aligned to 16 bytes",
        ),
    ],
)
def test_what_is_refused_of_auxiliary_matrices(
    epilogue: int, attribute: str, value: Any, message: str
) -> None:
    product = Product(epilogue)
    product.run()
    product.set(Desc[f"CUBLASLT_MATMUL_DESC_EPILOGUE_{attribute}"], value)
    with pytest.raises(drv.InvalidValueError, match=message):
        product.run()


def test_activations_of_integers_are_refused() -> None:
    product = Product(GELU)
    make = product.library.cublasLtMatrixLayoutCreate
    shapes = (4, 4), (4, 4), (4, 4)
    types = Type.CUDA_R_8I, Type.CUDA_R_8I, Type.CUDA_R_32I
    product.layouts = [make(each, *shape, 4) for each, shape in zip(types, shapes, strict=True)]
    product.operation = product.library.cublasLtMatmulDescCreate(Compute.CUBLAS_COMPUTE_32I, Type.CUDA_R_32I)
    product.algorithm()
    product.set(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE, ctypes.c_uint32(GELU))
    with pytest.raises(drv.NotSupportedError, match="CUBLASLT_EPILOGUE_GELU of int32"):
        product.algorithm()


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
