"""Rounding rules of the simulated cuBLAS."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drv import simulator
from drv.bindings.cublas import cublasComputeType_t as Compute
from drv.bindings.cublas import cublasMath_t as Math
from drv.bindings.library_types import cudaDataType as Type
from drv.simulator.libraries.matrix_products import Rule, product_rule, round_to_bfloat16, round_to_tf32
from tests.drv.bindings.library_arrays import SINGLE, column_major, cublas_handle, scalar

SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(SINGLES, min_size=1, max_size=20))
def test_tf32_is_nearest_with_ties_away(numbers: list[float]) -> None:
    values = np.array(numbers, np.float32)
    below = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    step = np.maximum(2.0 ** (np.floor(np.log2(np.maximum(np.abs(below), 2.0**-126))) - 10), 2.0**-136)
    distance = np.abs(values.astype(np.float64)) - np.abs(below)
    expected = np.where(distance >= step / 2, np.abs(below) + step, np.abs(below))
    # The largest numbers round to infinity, as cvt.rna does without .satfinite.
    expected = np.where(expected > np.finfo(np.float32).max, np.inf, expected)
    np.testing.assert_array_equal(round_to_tf32(values), np.copysign(expected, values))


def test_tf32_keeps_special_values() -> None:
    bits = np.array([0x7F800000, 0xFF800000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x80000000], np.uint32)
    rounded = round_to_tf32(bits.view(np.float32))
    assert np.isposinf(rounded[0])
    assert np.isneginf(rounded[1])
    assert np.isnan(rounded[2:5]).all()
    assert np.signbit(rounded[5])
    assert rounded[5] == 0


def test_parts_of_complex_numbers_are_rounded() -> None:
    values = np.array([[1 + 2**-12, 2**-13 - 3]], np.complex64) * (1 + 1j)
    for function, dtype in ((round_to_tf32, np.float32), (round_to_bfloat16, np.float32)):
        expected = function(values.view(dtype))
        np.testing.assert_array_equal(function(values).view(dtype), expected)
        assert function(values).shape == values.shape


def rule(inputs: Type, output: Type, compute: Compute, mode: int = 0) -> Rule:
    result = product_rule(inputs, output, compute, mode)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("compute", "mode", "rounding"),
    [
        (Compute.CUBLAS_COMPUTE_32F, Math.CUBLAS_DEFAULT_MATH, None),
        (Compute.CUBLAS_COMPUTE_32F, Math.CUBLAS_PEDANTIC_MATH, None),
        (Compute.CUBLAS_COMPUTE_32F, Math.CUBLAS_TF32_TENSOR_OP_MATH, round_to_tf32),
        (Compute.CUBLAS_COMPUTE_32F, Math.CUBLAS_TF32_TENSOR_OP_MATH | 16, round_to_tf32),
        (Compute.CUBLAS_COMPUTE_32F, 16, None),
        (Compute.CUBLAS_COMPUTE_32F_PEDANTIC, Math.CUBLAS_TF32_TENSOR_OP_MATH, None),
        (Compute.CUBLAS_COMPUTE_32F_FAST_TF32, Math.CUBLAS_DEFAULT_MATH, round_to_tf32),
        (Compute.CUBLAS_COMPUTE_32F_FAST_16F, Math.CUBLAS_DEFAULT_MATH, round_to_tf32),
        (Compute.CUBLAS_COMPUTE_32F_FAST_16BF, Math.CUBLAS_DEFAULT_MATH, round_to_bfloat16),
    ],
)
def test_when_inputs_are_rounded(compute: Compute, mode: int, rounding: object) -> None:
    for inputs in (Type.CUDA_R_32F, Type.CUDA_C_32F):
        assert rule(inputs, inputs, compute, mode).round_inputs is rounding


def test_doubles_and_halves_are_never_rounded_first() -> None:
    tf32 = Math.CUBLAS_TF32_TENSOR_OP_MATH
    assert rule(Type.CUDA_R_64F, Type.CUDA_R_64F, Compute.CUBLAS_COMPUTE_64F, tf32).round_inputs is None
    assert rule(Type.CUDA_R_16F, Type.CUDA_R_32F, Compute.CUBLAS_COMPUTE_32F, tf32).round_inputs is None


def test_half_accumulators_lose_what_single_ones_keep() -> None:
    """2048 + 1 is 2048 in float16: ones added one by one stop there."""
    ones = np.ones((1, 1, 4096), np.float16)
    column = ones.swapaxes(1, 2)
    single = rule(Type.CUDA_R_16F, Type.CUDA_R_16F, Compute.CUBLAS_COMPUTE_32F)
    assert single.combine(1.0, single.multiply(ones, column), 0, None)[0, 0, 0] == 4096
    pedantic = rule(Type.CUDA_R_16F, Type.CUDA_R_16F, Compute.CUBLAS_COMPUTE_16F_PEDANTIC)
    assert pedantic.combine(1.0, pedantic.multiply(ones, column), 0, None)[0, 0, 0] == 2048
    in_half = rule(Type.CUDA_R_16F, Type.CUDA_R_16F, Compute.CUBLAS_COMPUTE_16F)
    values = np.random.default_rng(0).standard_normal((1, 1, 96)).astype(np.float16)
    total = np.float16(0)
    for start in range(0, 96, 16):
        chunk = values[0, 0, start : start + 16].astype(np.float64)
        total = np.float16(np.float32(total) + np.float32(chunk.sum()))
    assert in_half.multiply(values, column[:, :96])[0, 0, 0] == total


def test_outputs_are_rounded_once_to_nearest_even() -> None:
    a = np.array([[[1.0, 2.0**-9]]], ml_dtypes.bfloat16)
    b = np.array([[[1.0], [1.0]]], ml_dtypes.bfloat16)
    bf16_to_f32 = rule(Type.CUDA_R_16BF, Type.CUDA_R_32F, Compute.CUBLAS_COMPUTE_32F)
    assert bf16_to_f32.combine(1.0, bf16_to_f32.multiply(a, b), 0, None)[0, 0, 0] == 1 + 2.0**-9
    rounded = rule(Type.CUDA_R_16BF, Type.CUDA_R_16BF, Compute.CUBLAS_COMPUTE_32F)
    # 3 * (1 + 2**-9) lies above the middle between two neighbours, 1 + 2**-9 below it.
    assert rounded.combine(1.0, rounded.multiply(a, b), 0, None)[0, 0, 0] == 1
    assert rounded.combine(3.0, rounded.multiply(a, b), 0, None)[0, 0, 0] == 3
    with np.errstate(over="ignore"):
        overflow = rule(Type.CUDA_R_16F, Type.CUDA_R_16F, Compute.CUBLAS_COMPUTE_32F)
        assert np.isinf(overflow.combine(2.0, np.full((1, 1, 1), 40000, np.float32), 0, None)[0, 0, 0])


def test_integer_results_wrap_around() -> None:
    integers = rule(Type.CUDA_R_8I, Type.CUDA_R_32I, Compute.CUBLAS_COMPUTE_32I)
    a = np.full((1, 1, 4), -128, np.int8)
    product = integers.multiply(a, a.swapaxes(1, 2))
    c = np.full((1, 1, 1), 2**31 - 1, np.int32)
    assert integers.combine(1, product, 1, c)[0, 0, 0] == (2**31 - 1 + 65536) - 2**32
    assert integers.combine(40000, product, 0, None)[0, 0, 0] == 40000 * 65536 - 2**32


def test_errors_with_and_without_tf32() -> None:
    """The figures that users are told: about 2e-3 of the mean magnitude with TF32, under 4e-5 without."""
    simulator.install()
    n = 1024
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    on_a, on_b, on_c = (column_major(matrix, n) for matrix in (a, b, np.zeros((n, n), np.float32)))
    one, zero = scalar(SINGLE, 1), scalar(SINGLE, 0)
    cublas, handle = cublas_handle()
    errors = {}
    for mode in (Math.CUBLAS_DEFAULT_MATH, Math.CUBLAS_TF32_TENSOR_OP_MATH):
        cublas.cublasSetMathMode(handle, mode)
        assert cublas.cublasGetMathMode(handle) == mode
        cublas.cublasSgemm(
            handle,
            0,
            0,
            n,
            n,
            n,
            one.address,
            on_a.address,
            n,
            on_b.address,
            n,
            zero.address,
            on_c.address,
            n,
        )
        errors[mode] = np.abs(on_c.numpy() - exact).max() / np.abs(exact).mean()
    assert 1e-7 < errors[Math.CUBLAS_DEFAULT_MATH] < 4e-5
    assert 1.5e-3 < errors[Math.CUBLAS_TF32_TENSOR_OP_MATH] < 3e-3
