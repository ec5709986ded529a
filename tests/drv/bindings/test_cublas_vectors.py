"""Vector functions of cuBLAS, and its matrix functions other than products, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drv
from drv.bindings.cublas import HostScalar
from drv.bindings.cublas import cublasPointerMode_t as PointerMode
from drv.bindings.library_types import cudaDataType as Type

from .library_arrays import (
    BFLOAT,
    COMPLEX,
    DOUBLE,
    DOUBLE_COMPLEX,
    DTYPES,
    HALF,
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
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

_LETTERS = {"S": SINGLE, "D": DOUBLE, "C": COMPLEX, "Z": DOUBLE_COMPLEX}
_EXECUTION = {
    HALF: SINGLE,
    BFLOAT: SINGLE,
    SINGLE: SINGLE,
    DOUBLE: DOUBLE,
    COMPLEX: COMPLEX,
    DOUBLE_COMPLEX: DOUBLE_COMPLEX,
}
_REAL = {COMPLEX: SINGLE, DOUBLE_COMPLEX: DOUBLE}
INCREMENTS = st.sampled_from([1, 2, 3, -1, -2])
SCALARS = st.sampled_from([0.0, 1.0, -0.75 + 0.5j])


def vector(values: np.ndarray, increment: int) -> DeviceArray:
    """A vector as BLAS stores it: from its last element with a negative increment."""
    return DeviceArray(values[::-1] if increment < 0 else values, (abs(increment),))


def read(stored: DeviceArray, increment: int) -> np.ndarray:
    values = stored.numpy()
    return values[::-1] if increment < 0 else values


def close(result: np.ndarray, exact: np.ndarray, magnitude: np.ndarray, data_type: Type, depth: int) -> None:
    accumulator = min(ROUNDING[data_type], 2**-24)
    bound = (
        2 * ROUNDING[data_type] * np.abs(exact)
        + 4 * (depth + 4) * accumulator * magnitude
        + 1e-7 * (data_type == HALF)
    )
    assert (np.abs(wide(np.asarray(result)) - exact) <= bound).all()


@layouts
@given(
    n=st.integers(1, 40), incx=INCREMENTS, incy=INCREMENTS, form=st.sampled_from(["Sdot", "Ddot", "Cdotu", "Cdotc", "Zdotu", "Zdotc"])
)  # fmt: skip
def test_dot(n: int, incx: int, incy: int, form: str) -> None:
    data_type = _LETTERS[form[0]]
    rng = np.random.default_rng(n)
    x, y = random_values(rng, (n,), data_type), random_values(rng, (n,), data_type)
    on_x, on_y = vector(x, incx), vector(y, incy)
    result = HostScalar(data_type)
    cublas, handle = cublas_handle()
    getattr(cublas, f"cublas{form}")(handle, n, on_x.address, incx, on_y.address, incy, result.address)
    left = wide(x).conj() if form.endswith("c") else wide(x)
    close(np.array(result.value), left @ wide(y), np.abs(left) @ np.abs(wide(y)), data_type, n)


@pytest.mark.parametrize("data_type", list(_EXECUTION), ids=lambda value: value.name)
@pytest.mark.parametrize("conjugate", [False, True])
def test_dot_ex_puts_its_result_where_the_pointer_mode_says(data_type: Type, conjugate: bool) -> None:
    rng = np.random.default_rng(0)
    x, y = random_values(rng, (33,), data_type), random_values(rng, (33,), data_type)
    on_x, on_y, result = vector(x, 1), vector(y, 2), DeviceArray(np.zeros(1, DTYPES[data_type]))
    cublas, handle = cublas_handle()
    cublas.cublasSetPointerMode(handle, PointerMode.CUBLAS_POINTER_MODE_DEVICE)
    function = cublas.cublasDotcEx if conjugate else cublas.cublasDotEx
    function(
        handle, 33, on_x.address, data_type, 1, on_y.address, data_type, 2, result.address, data_type,
        _EXECUTION[data_type],
    )  # fmt: skip
    left = wide(x).conj() if conjugate else wide(x)
    close(result.numpy()[0], left @ wide(y), np.abs(left) @ np.abs(wide(y)), data_type, 33)


@layouts
@given(
    n=st.integers(1, 40), incx=st.integers(1, 3), form=st.sampled_from(["Snrm2", "Dnrm2", "Scnrm2", "Dznrm2"])
)
def test_nrm2(n: int, incx: int, form: str) -> None:
    data_type = (
        {"S": SINGLE, "D": DOUBLE}[form[0]]
        if form[1] == "n"
        else {"S": COMPLEX, "D": DOUBLE_COMPLEX}[form[0]]
    )
    x = random_values(np.random.default_rng(n), (n,), data_type)
    result = HostScalar(_REAL.get(data_type, data_type))
    cublas, handle = cublas_handle()
    on_x = vector(x, incx)
    getattr(cublas, f"cublas{form}")(handle, n, on_x.address, incx, result.address)
    np.testing.assert_allclose(result.value, np.linalg.norm(wide(x)), rtol=16 * ROUNDING[data_type])


def test_norms_overflow_only_where_the_result_does() -> None:
    x = np.array([3e30, 4e30], np.float32)
    result = HostScalar(SINGLE)
    cublas, handle = cublas_handle()
    on_x = vector(x, 1)
    cublas.cublasNrm2Ex(handle, 2, on_x.address, SINGLE, 1, result.address, SINGLE, SINGLE)
    assert result.value == pytest.approx(5e30, rel=1e-6)
    huge = vector(np.array([3e300, 4e300]), 1)
    in_double = HostScalar(DOUBLE)
    cublas.cublasDnrm2(handle, 2, huge.address, 1, in_double.address)
    assert in_double.value == pytest.approx(5e300, rel=1e-12)
    cublas.cublasSnrm2(handle, 0, on_x.address, 1, result.address)
    assert result.value == 0


@layouts
@given(
    n=st.integers(1, 40), incx=INCREMENTS, incy=INCREMENTS, data_type=st.sampled_from(list(_EXECUTION)), alpha=SCALARS
)  # fmt: skip
def test_axpy(n: int, incx: int, incy: int, data_type: Type, alpha: complex) -> None:
    execution = _EXECUTION[data_type]
    alpha = alpha if execution in (COMPLEX, DOUBLE_COMPLEX) else alpha.real
    rng = np.random.default_rng(n)
    x, y = random_values(rng, (n,), data_type), random_values(rng, (n,), data_type)
    on_x, on_y, factor = vector(x, incx), vector(y, incy), scalar(execution, alpha)
    cublas, handle = cublas_handle()
    cublas.cublasAxpyEx(
        handle,
        n,
        factor.address,
        execution,
        on_x.address,
        data_type,
        incx,
        on_y.address,
        data_type,
        incy,
        execution,
    )
    exact = alpha * wide(x) + wide(y)
    close(read(on_y, incy), exact, np.abs(alpha * wide(x)) + np.abs(wide(y)), data_type, 1)


@layouts
@given(
    n=st.integers(1, 40), incx=st.integers(1, 3), data_type=st.sampled_from(list(_EXECUTION)), alpha=SCALARS
)
def test_scal(n: int, incx: int, data_type: Type, alpha: complex) -> None:
    execution = _EXECUTION[data_type]
    alpha = alpha if execution in (COMPLEX, DOUBLE_COMPLEX) else alpha.real
    x = random_values(np.random.default_rng(n), (n,), data_type)
    on_x, factor = vector(x, incx), scalar(execution, alpha)
    cublas, handle = cublas_handle()
    cublas.cublasScalEx(handle, n, factor.address, execution, on_x.address, data_type, incx, execution)
    close(on_x.numpy(), alpha * wide(x), np.abs(alpha * wide(x)), data_type, 1)


@layouts
@given(
    m=st.integers(1, 12),
    n=st.integers(1, 12),
    trans=st.integers(0, 2),
    pad=st.integers(0, 3),
    increments=st.tuples(INCREMENTS, INCREMENTS),
    letter=st.sampled_from("SDCZ"),
    scalars=st.tuples(SCALARS, SCALARS),
)
def test_gemv(
    m: int,
    n: int,
    trans: int,
    pad: int,
    increments: tuple[int, int],
    letter: str,
    scalars: tuple[complex, complex],
) -> None:
    data_type = _LETTERS[letter]
    alpha, beta = scalars if data_type in (COMPLEX, DOUBLE_COMPLEX) else (scalars[0].real, scalars[1].real)
    incx, incy = increments
    rng = np.random.default_rng(m)
    matrix = random_values(rng, (m, n), data_type)
    op = {0: wide(matrix), 1: wide(matrix).T, 2: wide(matrix).conj().T}[trans]
    x, y = random_values(rng, (op.shape[1],), data_type), random_values(rng, (op.shape[0],), data_type)
    on_a, on_x, on_y = column_major(matrix, m + pad), vector(x, incx), vector(y, incy)
    one, other = scalar(data_type, alpha), scalar(data_type, beta)
    cublas, handle = cublas_handle()
    getattr(cublas, f"cublas{letter}gemv")(
        handle,
        trans,
        m,
        n,
        one.address,
        on_a.address,
        m + pad,
        on_x.address,
        incx,
        other.address,
        on_y.address,
        incy,
    )
    exact = alpha * (op @ wide(x)) + beta * wide(y)
    magnitude = abs(alpha) * (np.abs(op) @ np.abs(wide(x))) + np.abs(beta * wide(y))
    close(read(on_y, incy), exact, magnitude, data_type, op.shape[1])


@layouts
@given(
    m=st.integers(1, 8),
    n=st.integers(1, 8),
    trans=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    pads=st.tuples(*[st.integers(0, 3)] * 3),
    letter=st.sampled_from("SDCZ"),
    scalars=st.tuples(SCALARS, SCALARS),
)
def test_geam(
    m: int,
    n: int,
    trans: tuple[int, int],
    pads: tuple[int, ...],
    letter: str,
    scalars: tuple[complex, complex],
) -> None:
    data_type = _LETTERS[letter]
    alpha, beta = scalars if data_type in (COMPLEX, DOUBLE_COMPLEX) else (scalars[0].real, scalars[1].real)
    rng = np.random.default_rng(n)
    terms, on_device = [], []
    for operation, pad in zip(trans, pads, strict=False):
        matrix = random_values(rng, (n, m) if operation else (m, n), data_type)
        terms.append({0: wide(matrix), 1: wide(matrix).T, 2: wide(matrix).conj().T}[operation])
        on_device.append((column_major(matrix, len(matrix) + pad), len(matrix) + pad))
    on_c = column_major(np.full((m, n), np.nan, DTYPES[data_type]), m + pads[2])
    one, other = scalar(data_type, alpha), scalar(data_type, beta)
    cublas, handle = cublas_handle()
    getattr(cublas, f"cublas{letter}geam")(
        handle, *trans, m, n, one.address, on_device[0][0].address, on_device[0][1], other.address,
        on_device[1][0].address, on_device[1][1], on_c.address, m + pads[2],
    )  # fmt: skip
    exact = alpha * terms[0] + beta * terms[1]
    close(on_c.numpy(), exact, np.abs(alpha * terms[0]) + np.abs(beta * terms[1]), data_type, 1)


def test_geam_in_place() -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    on_c = column_major(matrix, 4)
    two, zero = scalar(SINGLE, 2), scalar(SINGLE, 0)
    cublas, handle = cublas_handle()
    cublas.cublasSgeam(
        handle, 0, 0, 2, 3, two.address, on_c.address, 4, zero.address, on_c.address, 4, on_c.address, 4
    )
    np.testing.assert_array_equal(on_c.numpy(), 2 * matrix)
    with pytest.raises(drv.InvalidValueError, match="CUBLAS_STATUS_INVALID_VALUE"):
        cublas.cublasSgeam(
            handle, 1, 0, 2, 2, two.address, on_c.address, 4, zero.address, on_c.address, 4, on_c.address, 4
        )


@layouts
@given(
    m=st.integers(1, 9),
    n=st.integers(1, 9),
    flags=st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)),
    pad=st.integers(0, 3),
    letter=st.sampled_from("SDCZ"),
    alpha=SCALARS,
)
def test_trsm(
    m: int, n: int, flags: tuple[int, int, int, int], pad: int, letter: str, alpha: complex
) -> None:
    """The triangle that does not count is NaN, and so is the diagonal when it is all ones."""
    side, upper, trans, unit = flags
    data_type = _LETTERS[letter]
    alpha = alpha if data_type in (COMPLEX, DOUBLE_COMPLEX) else alpha.real
    order = n if side else m
    rng = np.random.default_rng(m)
    full = random_values(rng, (order, order), data_type)
    full += (order + 3) * np.eye(order, dtype=full.dtype)
    if unit:
        full = (full / (2 * order)).astype(full.dtype)
    triangle = np.triu(wide(full), 1) if upper else np.tril(wide(full), -1)
    triangle = triangle + (np.eye(order) if unit else np.diag(np.diag(wide(full))))
    stored = np.full_like(full, np.nan)
    untouched = (
        np.triu(np.ones((order, order), bool), unit)
        if upper
        else np.tril(np.ones((order, order), bool), -unit)
    )
    stored[untouched] = full[untouched]
    right = random_values(rng, (m, n), data_type)
    on_a, on_b = column_major(stored, order + pad), column_major(right, m + pad)
    factor = scalar(data_type, alpha)
    cublas, handle = cublas_handle()
    getattr(cublas, f"cublas{letter}trsm")(
        handle,
        side,
        upper,
        trans,
        unit,
        m,
        n,
        factor.address,
        on_a.address,
        order + pad,
        on_b.address,
        m + pad,
    )
    op = {0: triangle, 1: triangle.T, 2: triangle.conj().T}[trans]
    solution = wide(on_b.numpy())
    residual = (solution @ op if side else op @ solution) - alpha * wide(right)
    scale = np.abs(solution) @ np.abs(op) if side else np.abs(op) @ np.abs(solution)
    assert (
        np.abs(residual) <= 8 * (order + 2) * ROUNDING[data_type] * (scale + np.abs(alpha * wide(right)))
    ).all()


@pytest.mark.parametrize("letter", "SDCZ")
def test_batched_trsm(letter: str) -> None:
    """Two systems share a triangle, and the matrices lie anywhere."""
    data_type = _LETTERS[letter]
    rng = np.random.default_rng(0)
    triangles = [np.tril(random_values(rng, (3, 3), data_type)) + 4 * np.eye(3) for _ in range(2)]
    rights = [random_values(rng, (2, 3), data_type) for _ in range(3)]
    on_a = [column_major(each.astype(rights[0].dtype), 5) for each in triangles]
    on_b = [column_major(each, 4) for each in rights]
    chosen = (0, 1, 1)
    addresses = [
        column_major(np.array([[each.address for each in matrices]], np.int64), 1)
        for matrices in ([on_a[number] for number in chosen], on_b)
    ]
    one = scalar(data_type, 1)
    cublas, handle = cublas_handle()
    getattr(cublas, f"cublas{letter}trsmBatched")(
        handle, 1, 0, 2, 0, 2, 3, one.address, addresses[0].address, 5, addresses[1].address, 4, 3
    )
    for number, solved, right in zip(chosen, on_b, rights, strict=True):
        product = wide(solved.numpy()) @ wide(triangles[number]).conj().T
        np.testing.assert_allclose(product, wide(right), atol=100 * ROUNDING[data_type])
    with pytest.raises(drv.InvalidValueError, match="CUBLAS_STATUS_INVALID_VALUE"):
        getattr(cublas, f"cublas{letter}trsmBatched")(
            handle, 1, 0, 2, 0, 2, 3, one.address, addresses[0].address, 5, addresses[1].address, 4, -1
        )


def test_a_singular_triangle_gives_infinities() -> None:
    on_a, on_b = column_major(np.zeros((2, 2), np.float32), 2), column_major(np.ones((2, 1), np.float32), 2)
    one = scalar(SINGLE, 1)
    cublas, handle = cublas_handle()
    cublas.cublasStrsm(handle, 0, 0, 0, 0, 2, 1, one.address, on_a.address, 2, on_b.address, 2)
    assert not np.isfinite(on_b.numpy()).any()


@pytest.mark.parametrize(
    ("data_type", "value", "held"),
    [
        (HALF, 0.1, float(np.float16(0.1))),
        (SINGLE, 0.1, float(np.float32(0.1))),
        (DOUBLE, 0.1, 0.1),
        (COMPLEX, 0.1 - 2j, complex(np.complex64(0.1 - 2j))),
        (DOUBLE_COMPLEX, 0.1 - 2j, 0.1 - 2j),
        (Type.CUDA_R_32I, -7, -7),
    ],
)
def test_host_scalars(data_type: Type, value: complex, held: complex) -> None:
    result = HostScalar(data_type, value)
    address = result.address
    assert result.value == held
    assert address % 16 == 0
    result.value = 0
    assert (result.value, result.address) == (0, address)
    assert repr(result).startswith("HostScalar(0")


def test_host_scalars_of_other_types_do_not_exist() -> None:
    with pytest.raises(drv.InvalidValueError, match="no scalars of type"):
        HostScalar(Type.CUDA_R_8I)
