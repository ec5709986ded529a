"""Random programs, with and without control flow: the device's bits are NumPy's bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from .random_expressions import ARRAYS, LENGTH, TYPES, VARIABLES
from .random_programs import Program, programs

if TYPE_CHECKING:
    from tests.drv.simulator.kernels.conftest import Launch

LANES = 96
#: Programs in a source: compiling is most of the time of an example.
TOGETHER = 4

_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]
#: Compiling makes an example slow: few of them always run.
few = settings(max_examples=6, deadline=None, suppress_health_check=_CHECKS)
many = settings(max_examples=100, deadline=None, suppress_health_check=_CHECKS)


def arguments(*, control: bool) -> dict[str, st.SearchStrategy[Any]]:
    """Programs for one source, the seed of their inputs, and how many blocks run them."""
    return {
        "batch": st.lists(programs(control=control), min_size=TOGETHER, max_size=TOGETHER),
        "seed": st.integers(0, 2**20),
        "blocks": st.sampled_from([1, 3]),
    }


def inputs(seed: int) -> dict[str, np.ndarray]:
    """Values of every kind for each variable, special ones among them."""
    random = np.random.default_rng(seed)
    variables = {}
    for name, type_ in VARIABLES.items():
        dtype = TYPES[type_]
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            values = random.integers(info.min, info.max, LANES, dtype=dtype, endpoint=True)
            values >>= random.integers(0, info.bits, LANES).astype(dtype)
            special = np.array([0, 1, 2, info.min, info.max, info.max - 1], dtype)
        else:
            limits = np.finfo(dtype)
            exponents = random.integers(limits.minexp, limits.maxexp, LANES)
            exponents[LANES // 2 :] = random.integers(-4, 8, LANES // 2)
            values = np.ldexp(random.uniform(-2, 2, LANES), exponents - 1).astype(dtype)
            special = np.array(
                [0, -0.0, 1, np.inf, -np.inf, np.nan, limits.smallest_subnormal, limits.tiny, limits.max],
                dtype,
            )
        values[random.choice(LANES, len(special), replace=False)] = special
        variables[name] = values
    for array in ARRAYS:
        variables[array] = random.integers(-(2**31), 2**31, (LANES, LENGTH)).astype(np.int32)
    return variables


def bits(values: np.ndarray) -> np.ndarray:
    """Bit patterns; one NaN is as good as another."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    return values.view(f"u{values.dtype.itemsize}")


def check(launch: Launch, batch: list[Program], seed: int, blocks: int) -> None:
    source = "".join(program.written(f"program{at}") for at, program in enumerate(batch))
    note(source)
    for at, program in enumerate(batch):
        before = inputs(seed + at)
        after = {name: values.copy() for name, values in before.items()}
        threads = LANES // blocks
        # Without contraction, so that a product and a sum stay two operations.
        launch(
            source, blocks, threads, *after.values(), name=f"program{at}", shared=4 * LENGTH * threads,
            options=("-fmad=false",),
        )  # fmt: skip
        with np.errstate(all="ignore"):
            expected = program.run(before, threads)
        for name, values in expected.items():
            np.testing.assert_array_equal(bits(after[name]), bits(values), f"program{at}: {name}")


@few
@given(**arguments(control=False))
def test_straight_lines(launch: Launch, batch: list[Program], seed: int, blocks: int) -> None:
    check(launch, batch, seed, blocks)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@many
@given(**arguments(control=False))
def test_many_programs_with_straight_lines(
    launch: Launch, batch: list[Program], seed: int, blocks: int
) -> None:
    check(launch, batch, seed, blocks)


@few
@given(**arguments(control=True))
def test_control_flow(launch: Launch, batch: list[Program], seed: int, blocks: int) -> None:
    check(launch, batch, seed, blocks)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@many
@given(**arguments(control=True))
def test_many_programs_with_control_flow(
    launch: Launch, batch: list[Program], seed: int, blocks: int
) -> None:
    check(launch, batch, seed, blocks)
