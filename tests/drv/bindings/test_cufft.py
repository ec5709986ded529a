"""cuFFT against NumPy in double precision: types, ranks, batches, layouts, work areas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drv
from drv.bindings.cufft import CUFFT_FORWARD, CUFFT_INVERSE, Cufft, cufftType
from drv.bindings.library_types import cudaDataType as Type

from .library_arrays import DeviceArray, cufft_library, wide

pytestmark = pytest.mark.usefixtures("device")

layouts = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

C2C, R2C, C2R = cufftType.CUFFT_C2C, cufftType.CUFFT_R2C, cufftType.CUFFT_C2R
Z2Z, D2Z, Z2D = cufftType.CUFFT_Z2Z, cufftType.CUFFT_D2Z, cufftType.CUFFT_Z2D
_DOUBLE = (Z2Z, D2Z, Z2D)
_NAMES = {kind: f"cufftExec{kind.name.removeprefix('CUFFT_')}" for kind in cufftType}
_XT = {
    C2C: (Type.CUDA_C_32F, Type.CUDA_C_32F, Type.CUDA_C_32F),
    R2C: (Type.CUDA_R_32F, Type.CUDA_C_32F, Type.CUDA_C_32F),
    C2R: (Type.CUDA_C_32F, Type.CUDA_R_32F, Type.CUDA_C_32F),
    Z2Z: (Type.CUDA_C_64F, Type.CUDA_C_64F, Type.CUDA_C_64F),
    D2Z: (Type.CUDA_R_64F, Type.CUDA_C_64F, Type.CUDA_C_64F),
    Z2D: (Type.CUDA_C_64F, Type.CUDA_R_64F, Type.CUDA_C_64F),
}


def dtypes(kind: cufftType) -> tuple[np.dtype, np.dtype]:
    """Types of input and output elements."""
    real, complex_ = (np.float64, np.complex128) if kind in _DOUBLE else (np.float32, np.complex64)
    argument = real if kind in (R2C, D2Z) else complex_
    expected = real if kind in (C2R, Z2D) else complex_
    return np.dtype(argument), np.dtype(expected)


def shapes(kind: cufftType, n: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of input and output of one transform."""
    half = (*n[:-1], n[-1] // 2 + 1)
    return half if kind in (C2R, Z2D) else n, half if kind in (R2C, D2Z) else n


def sample(kind: cufftType, n: tuple[int, ...], batch: int, seed: int = 0) -> np.ndarray:
    """Random input; for transforms to real, the half spectrum of a real signal."""
    rng = np.random.default_rng(seed)
    if kind in (C2R, Z2D):
        signal = rng.standard_normal((batch, *n))
        values = np.fft.rfftn(signal, axes=range(1, len(n) + 1), norm="ortho")
    else:
        values = rng.standard_normal((batch, *n))
        if kind in (C2C, Z2Z):
            values = values + 1j * rng.standard_normal((batch, *n))
    return values.astype(dtypes(kind)[0])


def reference(kind: cufftType, values: np.ndarray, n: tuple[int, ...], direction: int) -> np.ndarray:
    """The transform in double precision, not normalised."""
    axes = tuple(range(1, len(n) + 1))
    values = wide(values)
    if kind in (R2C, D2Z):
        return np.fft.rfftn(values, axes=axes)
    if kind in (C2R, Z2D):
        return np.fft.irfftn(values, s=n, axes=axes, norm="forward")
    return (
        np.fft.fftn(values, axes=axes)
        if direction == CUFFT_FORWARD
        else np.fft.ifftn(values, axes=axes, norm="forward")
    )


def close(result: np.ndarray, exact: np.ndarray, kind: cufftType) -> None:
    tolerance = 1e-13 if kind in _DOUBLE else 2e-6
    assert result.dtype == dtypes(kind)[1]
    assert np.abs(wide(result) - exact).max() <= tolerance * (np.abs(exact).max() + 1)


def execute(
    cufft: Cufft, plan: int, kind: cufftType, source: int, target: int, direction: int = CUFFT_FORWARD
) -> None:
    directions = (direction,) if kind in (C2C, Z2Z) else ()
    getattr(cufft, _NAMES[kind])(plan, source, target, *directions)


@st.composite
def transforms(draw: st.DrawFn) -> tuple[cufftType, tuple[int, ...], int, int]:
    n = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    if len(n) == 1:
        n = [draw(st.integers(1, 40))]
    kind = draw(st.sampled_from(list(cufftType)))
    return kind, tuple(n), draw(st.integers(1, 3)), draw(st.sampled_from([CUFFT_FORWARD, CUFFT_INVERSE]))


@layouts
@given(transform=transforms())
def test_packed(transform: tuple[cufftType, tuple[int, ...], int, int]) -> None:
    kind, n, batch, direction = transform
    values = sample(kind, n, batch)
    source = DeviceArray(values)
    target = DeviceArray(np.zeros((batch, *shapes(kind, n)[1]), dtypes(kind)[1]))
    cufft = cufft_library()
    plan = cufft.cufftPlanMany(len(n), n, None, 1, 0, None, 1, 0, kind, batch)
    execute(cufft, plan, kind, source.address, target.address, direction)
    close(target.numpy(), reference(kind, values, n, direction), kind)
    cufft.cufftDestroy(plan)


@st.composite
def embeddings(draw: st.DrawFn) -> tuple[int, ...]:
    return tuple(draw(st.integers(0, 2)) for _ in range(3))


@layouts
@given(
    transform=transforms(),
    embeddings=st.tuples(embeddings(), embeddings()),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    gaps=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    interleaved=st.booleans(),
    xt=st.booleans(),
)
def test_advanced_layouts(
    transform: tuple[cufftType, tuple[int, ...], int, int],
    embeddings: tuple[tuple[int, ...], ...],
    strides: tuple[int, int],
    gaps: tuple[int, int],
    interleaved: bool,
    xt: bool,
) -> None:
    """Padded storage, strides, gaps between transforms; ``interleaved`` puts the batch innermost."""
    kind, n, batch, direction = transform
    values = sample(kind, n, batch)
    arrays, sides = [], []
    blank = np.zeros((batch, *shapes(kind, n)[1]), dtypes(kind)[1])
    for array, extra, stride, gap in zip((values, blank), embeddings, strides, gaps, strict=True):
        embed = tuple(size + more for size, more in zip(array.shape[1:], extra, strict=False))
        step, dist = (batch + gap, 1) if interleaved else (stride, int(np.prod(embed)) * stride + gap)
        steps = [step]
        for size in reversed(embed[1:]):
            steps.insert(0, steps[0] * size)
        arrays.append(DeviceArray(array, (dist, *steps)))
        sides.append((embed, step, dist))
    cufft = cufft_library()
    plan = cufft.cufftCreate()
    if xt:
        types = _XT[kind]
        cufft.cufftXtMakePlanMany(plan, len(n), n, *sides[0], types[0], *sides[1], types[1], batch, types[2])
        cufft.cufftXtExec(plan, arrays[0].address, arrays[1].address, direction)
    else:
        cufft.cufftMakePlanMany64(plan, len(n), n, *sides[0], *sides[1], kind, batch)
        execute(cufft, plan, kind, arrays[0].address, arrays[1].address, direction)
    close(arrays[1].numpy(), reference(kind, values, n, direction), kind)
    cufft.cufftDestroy(plan)


@layouts
@given(transform=transforms())
def test_in_place(transform: tuple[cufftType, tuple[int, ...], int, int]) -> None:
    """Real rows are padded to the length of the complex ones."""
    kind, n, batch, direction = transform
    values = sample(kind, n, batch)
    length = n[-1] // 2 + 1
    rows = (batch, *n[:-1])
    if kind in (R2C, D2Z):
        argument = np.zeros((*rows, 2 * length), values.dtype)
        argument[..., : n[-1]] = values
    else:
        argument = values
    data = DeviceArray(argument)
    cufft = cufft_library()
    plan = cufft.cufftPlanMany(len(n), n, None, 1, 0, None, 1, 0, kind, batch)
    execute(cufft, plan, kind, data.address, data.address, direction)
    result = data.raw().view(dtypes(kind)[1])
    if kind in (C2R, Z2D):
        result = result.reshape(*rows, 2 * length)[..., : n[-1]]
    elif kind in (R2C, D2Z):
        result = result.reshape(*rows, length)
    close(result.reshape(batch, *shapes(kind, n)[1]), reference(kind, values, n, direction), kind)
    cufft.cufftDestroy(plan)


@pytest.mark.parametrize("length", [1, 64, 1009, 4096])
def test_there_and_back_multiplies_by_the_length(length: int) -> None:
    values = sample(C2C, (length,), 2)
    data = DeviceArray(values)
    cufft = cufft_library()
    plan = cufft.cufftPlanMany(1, (length,), None, 1, 0, None, 1, 0, C2C, 2)
    cufft.cufftExecC2C(plan, data.address, data.address, CUFFT_FORWARD)
    cufft.cufftExecC2C(plan, data.address, data.address, CUFFT_INVERSE)
    assert np.abs(data.numpy() / length - values).max() < 1e-5
    cufft.cufftDestroy(plan)


def test_imaginary_parts_of_what_must_be_real_are_ignored() -> None:
    values = sample(C2R, (8,), 1)
    expected = reference(C2R, values, (8,), CUFFT_INVERSE)
    values[0, 0] += 3j
    values[0, 4] += 5j
    source, target = DeviceArray(values), DeviceArray(np.zeros((1, 8), np.float32))
    cufft = cufft_library()
    plan = cufft.cufftPlanMany(1, (8,), None, 1, 0, None, 1, 0, C2R, 1)
    cufft.cufftExecC2R(plan, source.address, target.address)
    close(target.numpy(), expected, C2R)


def test_a_work_area_of_the_callers() -> None:
    cufft = cufft_library()
    stream = drv.Stream(drv.Device(0))
    values = sample(Z2Z, (12, 10), 3)
    source, target = DeviceArray(values), DeviceArray(np.zeros_like(values))
    before = drv.Device(0).memory_info().free
    plan = cufft.cufftCreate()
    cufft.cufftSetAutoAllocation(plan, 0)
    arguments = (plan, 2, (12, 10), None, 1, 0, None, 1, 0, Z2Z, 3)
    size = cufft.cufftMakePlanMany(*arguments)
    assert cufft.cufftGetSize(plan) == size
    assert drv.Device(0).memory_info().free <= before
    area = drv.DeviceMemory(max(size, 256))
    cufft.cufftSetWorkArea(plan, area.address)
    cufft.cufftSetStream(plan, int(stream.handle))
    cufft.cufftExecZ2Z(plan, source.address, target.address, CUFFT_INVERSE)
    stream.synchronize()
    close(target.numpy(), reference(Z2Z, values, (12, 10), CUFFT_INVERSE), Z2Z)
    cufft.cufftDestroy(plan)
    assert area.address


@pytest.mark.parametrize("kind", list(cufftType), ids=lambda value: value.name)
def test_sizes_can_be_asked_for_first(kind: cufftType) -> None:
    cufft = cufft_library()
    geometry = (2, (33, 1009), None, 1, 0, None, 1, 0, kind, 4)
    assert cufft.cufftEstimateMany(*geometry) > 0
    plan = cufft.cufftCreate()
    size = cufft.cufftGetSizeMany(plan, *geometry)
    assert size == cufft.cufftGetSizeMany64(plan, *geometry)
    cufft.cufftSetAutoAllocation(plan, 0)
    assert cufft.cufftMakePlanMany(plan, *geometry) == size > 0
    cufft.cufftDestroy(plan)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({0: 4, 1: (2, 2, 2, 2)}, "CUFFT_INVALID_VALUE"),
        ({0: 0}, "CUFFT_INVALID_VALUE"),
        ({1: None}, "CUFFT_INVALID_VALUE"),
        ({1: (0,)}, "CUFFT_INVALID_SIZE"),
        ({1: (-3,)}, "CUFFT_INVALID_SIZE"),
        ({9: 0}, "CUFFT_INVALID_SIZE"),
        ({8: 7}, "CUFFT_INVALID_TYPE"),
    ],
)
def test_plans_that_cannot_be(changed: dict[int, object], status: str) -> None:
    arguments: list[object] = [1, (8,), None, 1, 0, None, 1, 0, C2C, 1]
    for index, value in changed.items():
        arguments[index] = value
    cufft = cufft_library()
    with pytest.raises(drv.InvalidValueError, match=rf"cufftPlanMany\(rank=.* failed: {status}") as caught:
        cufft.cufftPlanMany(*arguments)  # type: ignore[arg-type]
    assert caught.value.status == status


def test_plans_that_do_not_exist_any_more() -> None:
    cufft = cufft_library()
    data = DeviceArray(np.zeros(8, np.complex64))
    plan = cufft.cufftPlanMany(1, (8,), None, 1, 0, None, 1, 0, C2C, 1)
    cufft.cufftDestroy(plan)
    for use in (
        lambda: cufft.cufftExecC2C(plan, data.address, data.address, CUFFT_FORWARD),
        lambda: cufft.cufftDestroy(plan),
        lambda: cufft.cufftGetSize(plan),
        lambda: cufft.cufftSetStream(plan, 0),
        lambda: cufft.cufftSetWorkArea(plan, 0),
        lambda: cufft.cufftSetAutoAllocation(plan, 1),
    ):
        with pytest.raises(drv.InvalidHandleError, match="CUFFT_INVALID_PLAN"):
            use()


def test_executions_that_cannot_be() -> None:
    cufft = cufft_library()
    data = DeviceArray(np.zeros(8, np.complex64))
    plan = cufft.cufftCreate()
    with pytest.raises(drv.InvalidHandleError, match="CUFFT_INVALID_PLAN"):
        cufft.cufftExecC2C(plan, data.address, data.address, CUFFT_FORWARD)
    cufft.cufftMakePlanMany(plan, 1, (8,), None, 1, 0, None, 1, 0, C2C, 1)
    with pytest.raises(drv.InvalidHandleError, match="CUFFT_INVALID_PLAN"):
        cufft.cufftMakePlanMany(plan, 1, (8,), None, 1, 0, None, 1, 0, C2C, 1)
    with pytest.raises(drv.InvalidValueError, match="CUFFT_INVALID_VALUE"):
        cufft.cufftExecC2C(plan, data.address, data.address, 3)
    with pytest.raises(drv.InvalidValueError, match="CUFFT_INVALID_VALUE"):
        cufft.cufftExecC2C(plan, 0, data.address, CUFFT_FORWARD)
    with pytest.raises(drv.InvalidValueError, match="CUFFT_INVALID_TYPE"):
        cufft.cufftExecR2C(plan, data.address, data.address)
    cufft.cufftDestroy(plan)
