"""Convolutions of cuDNN against NumPy in double precision: sizes, layouts, types, scalars, algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .cudnn_convolutions import (
    BFLOAT,
    DATA,
    DEFAULT,
    DOUBLE,
    FILTER,
    FLOAT,
    FMA,
    FORWARD,
    HALF,
    TENSOR,
    Convolution,
    Sizes,
    Type,
    cudnn_library,
    strides,
)

pytestmark = pytest.mark.usefixtures("device")

DIRECTIONS = (FORWARD, DATA, FILTER)
ROUNDING = {FLOAT: 2**-24, DOUBLE: 2**-53, HALF: 2**-11, BFLOAT: 2**-8}
shapes = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def sizes(draw: st.DrawFn) -> Sizes:
    dims, groups, dilation = draw(st.integers(2, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(dims))
    padding = draw(st.integers(0, 2))
    least = [max((n - 1) * dilation + 1 - 2 * padding, 1) for n in kernel]
    return Sizes(
        items=draw(st.integers(1, 5)),
        channels=groups * draw(st.integers(1, 3)),
        image=tuple(n + draw(st.integers(0, 4)) for n in least),
        filters=groups * draw(st.integers(1, 5)),
        kernel=kernel,
        padding=padding,
        stride=draw(st.integers(1, 3)),
        dilation=dilation,
        groups=groups,
        flipped=draw(st.booleans()),
    )


@shapes
@given(
    sizes=sizes(),
    data_type=st.sampled_from([FLOAT, DOUBLE]),
    channels_last=st.booleans(),
    scalars=st.sampled_from([(1.0, 0.0), (-0.5, 0.0), (2.0, 0.75)]),
    seed=st.integers(0, 99),
)
def test_all_algorithms_compute_all_shapes(
    sizes: Sizes, data_type: Type, channels_last: bool, scalars: tuple[float, float], seed: int
) -> None:
    library = cudnn_library()
    for direction in DIRECTIONS:
        case = Convolution(library, sizes, data_type, channels_last=channels_last, seed=seed)
        numbers = case.supported(direction)
        assert numbers
        for number in numbers:
            case = Convolution(library, sizes, data_type, channels_last=channels_last, seed=seed)
            case.alpha.value, case.beta.value = scalars
            case.run(direction, number)
            case.check(direction, ROUNDING[data_type], ROUNDING[data_type])


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("data_type", [HALF, BFLOAT])
def test_half_precision_is_rounded_once(direction: str, channels_last: bool, data_type: Type) -> None:
    """Sums are in float32 and of exact products, so that no more than the last rounding is lost."""
    case = Convolution(
        cudnn_library(), Sizes(channels=8, filters=16), data_type, math=TENSOR, channels_last=channels_last
    )
    case.alpha.value, case.beta.value = 0.5, 2.0
    case.run(direction)
    case.check(direction, ROUNDING[data_type])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_tf32_unless_the_math_type_forbids_it(direction: str) -> None:
    errors = []
    for math in (FMA, DEFAULT):
        case = Convolution(cudnn_library(), Sizes(channels=32, filters=16), FLOAT, math=math)
        case.run(direction)
        case.check(direction, 2**-24, operand=2**-11 if math == DEFAULT else 0.0)
        errors.append(np.abs(case.output(direction) - case.expected(direction)).max())
    assert errors[1] > 20 * errors[0]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_elements_between_items_stay(direction: str) -> None:
    case = Convolution(cudnn_library(), Sizes(), gap=5)
    case.run(direction)
    case.check(direction, 2**-24)


def test_the_result_of_packed_filters_may_have_any_layout() -> None:
    sizes = Sizes(items=3)
    image, _, result = sizes.shapes
    layouts = strides(image, channels_last=True), strides(result, gap=7)
    for direction in DIRECTIONS:
        case = Convolution(cudnn_library(), sizes, layouts=layouts)
        case.run(direction)
        case.check(direction, 2**-24)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_is_replaced_is_not_read(direction: str) -> None:
    case = Convolution(cudnn_library(), Sizes())
    replaced = case.arrays[case.order(direction)[2]]
    broken = np.full(replaced.shape, np.nan, np.float32)
    case.arrays[case.order(direction)[2]] = type(replaced)(broken)
    case.run(direction)
    case.check(direction, 2**-24)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_small_integers_are_exact(direction: str) -> None:
    """Whatever the order of the sums, and in TF32, too."""
    case = Convolution(cudnn_library(), Sizes(items=5, stride=2), math=DEFAULT, integers=True)
    for number in case.supported(direction):
        case.run(direction, number)
        np.testing.assert_array_equal(case.output(direction), case.expected(direction))
