"""Matrix products of cuBLAS against NumPy in double precision: types, layouts, batches, scalars."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drv
from drv.bindings.cublas import cublasComputeType_t as Compute
from drv.bindings.cublas import cublasPointerMode_t as PointerMode
from drv.bindings.library_types import cudaDataType as Type

from .library_arrays import (
    BFLOAT,
    COMPLEX,
    DOUBLE,
    DOUBLE_COMPLEX,
    DTYPES,
    HALF,
    INT8,
    INT32,
    ROUNDING,
    SINGLE,
    DeviceArray,
    column_major,
    cublas_handle,
    random_values,
    scalar,
    wide,
)

pytestmark = pytest.mark.usefixtures("device")

layouts = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

_LETTERS = {"S": SINGLE, "D": DOUBLE, "C": COMPLEX, "Z": DOUBLE_COMPLEX}
_EX = [
    (HALF, HALF, Compute.CUBLAS_COMPUTE_32F, SINGLE),
    (HALF, SINGLE, Compute.CUBLAS_COMPUTE_32F, SINGLE),
    (BFLOAT, BFLOAT, Compute.CUBLAS_COMPUTE_32F, SINGLE),
    (BFLOAT, SINGLE, Compute.CUBLAS_COMPUTE_32F_PEDANTIC, SINGLE),
    (HALF, HALF, Compute.CUBLAS_COMPUTE_16F, HALF),
    (SINGLE, SINGLE, Compute.CUBLAS_COMPUTE_32F, SINGLE),
    (COMPLEX, COMPLEX, Compute.CUBLAS_COMPUTE_32F, COMPLEX),
    (DOUBLE, DOUBLE, Compute.CUBLAS_COMPUTE_64F, DOUBLE),
    (DOUBLE_COMPLEX, DOUBLE_COMPLEX, Compute.CUBLAS_COMPUTE_64F, DOUBLE_COMPLEX),
]


def operate(matrix: np.ndarray, operation: int) -> np.ndarray:
    if operation == 0:
        return matrix
    return np.swapaxes(matrix.conj() if operation == 2 else matrix, -1, -2)


def check(
    result: np.ndarray,
    exact: np.ndarray,
    magnitude: np.ndarray,
    output: Type,
    depth: int,
    accumulator: float = 2**-24,
) -> None:
    """``magnitude`` is the sum of the terms' absolute values, which bounds how errors of accumulation grow."""
    bound = (
        2 * ROUNDING[output] * np.abs(exact)
        + 4 * (depth + 4) * accumulator * magnitude
        + 1e-7 * (output == HALF)
    )
    error = np.abs(wide(result) - exact)
    assert (error <= bound).all(), f"error {error.max()}, allowed {bound[error > bound].min()}"


@st.composite
def products(draw: st.DrawFn) -> dict[str, int]:
    size = st.integers(1, 9)
    pad = st.integers(0, 3)
    m, n, k = draw(size), draw(size), draw(size)
    transa, transb = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    return {
        "m": m,
        "n": n,
        "k": k,
        "transa": transa,
        "transb": transb,
        "lda": (k if transa else m) + draw(pad),
        "ldb": (n if transb else k) + draw(pad),
        "ldc": m + draw(pad),
        "seed": draw(st.integers(0, 99)),
    }


SCALARS = st.sampled_from([0.0, 1.0, -0.75 + 0.5j])


@layouts
@given(p=products(), letter=st.sampled_from("SDCZ"), alpha=SCALARS, beta=SCALARS)
def test_gemm(p: dict[str, int], letter: str, alpha: complex, beta: complex) -> None:
    data_type = _LETTERS[letter]
    rng = np.random.default_rng(p["seed"])
    m, n, k = p["m"], p["n"], p["k"]
    a = random_values(rng, (k, m) if p["transa"] else (m, k), data_type)
    b = random_values(rng, (n, k) if p["transb"] else (k, n), data_type)
    c = random_values(rng, (m, n), data_type)
    if data_type in (SINGLE, DOUBLE):
        alpha, beta = alpha.real, beta.real
    on_a, on_b, on_c = column_major(a, p["lda"]), column_major(b, p["ldb"]), column_major(c, p["ldc"])
    one, other = scalar(data_type, alpha), scalar(data_type, beta)
    cublas, handle = cublas_handle()
    function = getattr(cublas, f"cublas{letter}gemm")
    function(
        handle, p["transa"], p["transb"], m, n, k, one.address, on_a.address, p["lda"], on_b.address, p["ldb"],
        other.address, on_c.address, p["ldc"],
    )  # fmt: skip
    result = on_c.numpy()
    cublas.cublasDestroy(handle)
    left, right = operate(wide(a), p["transa"]), operate(wide(b), p["transb"])
    exact = alpha * (left @ right) + beta * wide(c)
    magnitude = abs(alpha) * (np.abs(left) @ np.abs(right)) + abs(beta) * np.abs(wide(c))
    check(result, exact, magnitude, data_type, k, ROUNDING[data_type])


@layouts
@given(
    p=products(),
    types=st.sampled_from(_EX),
    batch=st.integers(1, 4),
    padding=st.tuples(*[st.sampled_from([None, 0, 1, 5])] * 2),
    beta=SCALARS,
)
def test_gemm_strided_batched_ex(
    p: dict[str, int],
    types: tuple[Type, Type, Compute, Type],
    batch: int,
    padding: tuple[int | None, ...],
    beta: complex,
) -> None:
    """Each of A and B is one matrix for all (stride 0), packed, or with gaps between the matrices."""
    inputs, output, compute, scale = types
    rng = np.random.default_rng(p["seed"])
    m, n, k = p["m"], p["n"], p["k"]
    shapes = ((k, m) if p["transa"] else (m, k), (n, k) if p["transb"] else (k, n))
    arrays, on_device, strides = [], [], []
    for shape, leading, gap in zip(shapes, (p["lda"], p["ldb"]), padding, strict=True):
        strides.append(0 if gap is None else leading * shape[1] + gap)
        values = random_values(rng, (1 if gap is None else batch, *shape), inputs)
        arrays.append(values)
        on_device.append(column_major(values, leading, strides[-1]))
    c = random_values(rng, (batch, m, n), output)
    stride_c = p["ldc"] * n + 3
    on_c = column_major(c, p["ldc"], stride_c)
    beta = beta if scale in (COMPLEX, DOUBLE_COMPLEX) else beta.real
    one, other = scalar(scale, 0.5), scalar(scale, beta)
    cublas, handle = cublas_handle()
    cublas.cublasGemmStridedBatchedEx(
        handle, p["transa"], p["transb"], m, n, k, one.address,
        on_device[0].address, inputs, p["lda"], strides[0], on_device[1].address, inputs, p["ldb"], strides[1],
        other.address, on_c.address, output, p["ldc"], stride_c, batch, compute, -1,
    )  # fmt: skip
    result = on_c.numpy()
    cublas.cublasDestroy(handle)
    left, right = operate(wide(arrays[0]), p["transa"]), operate(wide(arrays[1]), p["transb"])
    exact = 0.5 * (left @ right) + beta * wide(c)
    magnitude = 0.5 * (np.abs(left) @ np.abs(right)) + abs(beta) * np.abs(wide(c))
    accumulator = ROUNDING[HALF if compute == Compute.CUBLAS_COMPUTE_16F else scale]
    check(result, exact, magnitude, output, k, accumulator)


@pytest.mark.parametrize("letter", "SDCZ")
def test_gemm_strided_batched(letter: str) -> None:
    data_type = _LETTERS[letter]
    rng = np.random.default_rng(0)
    a, b = random_values(rng, (3, 4, 5), data_type), random_values(rng, (3, 5, 6), data_type)
    on_a, on_b = column_major(a, 4, 20), column_major(b, 7, 50)
    on_c = column_major(np.full((3, 4, 6), np.nan, DTYPES[data_type]), 5, 40)
    one, zero = scalar(data_type, 1), scalar(data_type, 0)
    cublas, handle = cublas_handle()
    getattr(cublas, f"cublas{letter}gemmStridedBatched")(
        handle, 0, 0, 4, 6, 5, one.address, on_a.address, 4, 20, on_b.address, 7, 50, zero.address,
        on_c.address, 5, 40, 3,
    )  # fmt: skip
    magnitude = np.abs(wide(a)) @ np.abs(wide(b))
    check(on_c.numpy(), wide(a) @ wide(b), magnitude, data_type, 5, ROUNDING[data_type])


def test_gemm_batched_ex_takes_addresses_from_device_memory() -> None:
    rng = np.random.default_rng(1)
    matrices = [[random_values(rng, shape, HALF) for shape in ((6, 3), (3, 2), (6, 2))] for _ in range(4)]
    on_device = [[column_major(matrix, matrix.shape[0] + 1) for matrix in row] for row in matrices]
    # The same A may serve several products.
    on_device[2][0] = on_device[1][0]
    lists = [DeviceArray(np.array([row[i].address for row in on_device], np.int64)) for i in range(3)]
    one, zero = scalar(SINGLE, 1), scalar(SINGLE, 0)
    cublas, handle = cublas_handle()
    cublas.cublasGemmBatchedEx(
        handle, 0, 0, 6, 2, 3, one.address, lists[0].address, HALF, 7, lists[1].address, HALF, 4,
        zero.address, lists[2].address, HALF, 7, 4, Compute.CUBLAS_COMPUTE_32F, -1,
    )  # fmt: skip
    for index, (a, b, _) in enumerate(matrices):
        left = wide(matrices[1][0] if index == 2 else a)
        check(on_device[index][2].numpy(), left @ wide(b), np.abs(left) @ np.abs(wide(b)), HALF, 3)


@pytest.mark.parametrize(("transa", "transb"), [(0, 0), (1, 0), (0, 1)])
def test_int8_products_are_exact(transa: int, transb: int) -> None:
    rng = np.random.default_rng(2)
    a, b = (
        random_values(rng, (8, 64) if not transa else (64, 8), INT8),
        random_values(rng, (64, 12) if not transb else (12, 64), INT8),
    )
    c = rng.integers(-1000, 1000, (8, 12)).astype(np.int32)
    on_a, on_b, on_c = column_major(a, 64), column_major(b, 64), column_major(c, 8)
    alpha, beta = scalar(INT32, -3), scalar(INT32, 2)
    cublas, handle = cublas_handle()
    cublas.cublasGemmEx(
        handle, transa, transb, 8, 12, 64, alpha.address, on_a.address, INT8, 64, on_b.address, INT8, 64,
        beta.address, on_c.address, INT32, 8, Compute.CUBLAS_COMPUTE_32I, -1,
    )  # fmt: skip
    left, right = operate(a.astype(np.int64), transa), operate(b.astype(np.int64), transb)
    np.testing.assert_array_equal(on_c.numpy(), -3 * (left @ right) + 2 * c)


@pytest.mark.parametrize("letter", "SDCZ")
def test_scalars_in_device_memory(letter: str) -> None:
    data_type = _LETTERS[letter]
    rng = np.random.default_rng(3)
    a, b, c = (random_values(rng, (4, 4), data_type) for _ in range(3))
    on_a, on_b, on_c = (column_major(matrix, 4) for matrix in (a, b, c))
    factors = np.array([2.0, -1.0], DTYPES[data_type])
    on_device = DeviceArray(factors)
    cublas, handle = cublas_handle()
    cublas.cublasSetPointerMode(handle, PointerMode.CUBLAS_POINTER_MODE_DEVICE)
    assert cublas.cublasGetPointerMode(handle) == PointerMode.CUBLAS_POINTER_MODE_DEVICE
    getattr(cublas, f"cublas{letter}gemm")(
        handle, 0, 0, 4, 4, 4, on_device.address, on_a.address, 4, on_b.address, 4,
        on_device.address + factors.itemsize, on_c.address, 4,
    )  # fmt: skip
    exact = 2 * (wide(a) @ wide(b)) - wide(c)
    magnitude = 2 * (np.abs(wide(a)) @ np.abs(wide(b))) + np.abs(wide(c))
    check(on_c.numpy(), exact, magnitude, data_type, 4, ROUNDING[data_type])


def test_output_is_not_read_when_beta_is_zero() -> None:
    a, b = np.ones((3, 2), np.float32), np.ones((2, 4), np.float32)
    on_a, on_b = column_major(a, 3), column_major(b, 2)
    on_c = column_major(np.full((3, 4), np.nan, np.float32), 3)
    one, zero = scalar(SINGLE, 1), scalar(SINGLE, 0)
    cublas, handle = cublas_handle()
    cublas.cublasSgemm(
        handle, 0, 0, 3, 4, 2, one.address, on_a.address, 3, on_b.address, 2, zero.address, on_c.address, 3
    )
    np.testing.assert_array_equal(on_c.numpy(), np.full((3, 4), 2))


def test_a_sum_of_no_products() -> None:
    """``k`` of 0 leaves ``beta * C``; ``m`` or ``n`` of 0 leaves everything."""
    c = np.arange(6, dtype=np.float32).reshape(2, 3)
    on_c = column_major(c, 2)
    one, half, zero = (scalar(SINGLE, value) for value in (1, 0.5, 0))
    cublas, handle = cublas_handle()
    address = on_c.address
    cublas.cublasSgemm(handle, 0, 0, 0, 3, 2, one.address, address, 1, address, 2, zero.address, address, 2)
    cublas.cublasSgemm(handle, 0, 0, 2, 3, 0, one.address, address, 2, address, 1, half.address, address, 2)
    np.testing.assert_array_equal(on_c.numpy(), c / 2)
    cublas.cublasSgemm(handle, 0, 0, 2, 3, 0, one.address, address, 2, address, 1, zero.address, address, 2)
    np.testing.assert_array_equal(on_c.numpy(), np.zeros((2, 3)))


def test_products_run_on_the_handles_stream() -> None:
    cublas, handle = cublas_handle()
    assert cublas.cublasGetStream(handle) == 0
    stream = drv.Stream(drv.Device(0))
    cublas.cublasSetStream(handle, int(stream.handle))
    assert cublas.cublasGetStream(handle) == int(stream.handle)
    on_a, on_b, on_c = (column_major(np.full((4, 4), value, np.float32), 4) for value in (2, 3, 0))
    one, zero = scalar(SINGLE, 1), scalar(SINGLE, 0)
    cublas.cublasSgemm(
        handle, 0, 0, 4, 4, 4, one.address, on_a.address, 4, on_b.address, 4, zero.address, on_c.address, 4
    )
    one.value = 100.0
    stream.synchronize()
    np.testing.assert_array_equal(on_c.numpy(), np.full((4, 4), 24))
    cublas.cublasDestroy(handle)
