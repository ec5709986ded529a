"""Random arithmetic programs, with and without control flow: the device's bits are NumPy's bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from .random_programs import TYPES, VARIABLES, Statement, block, programs, run

if TYPE_CHECKING:
    from .conftest import Launch

LANES = 96
#: Programs in a source: compiling is most of the time of an example.
TOGETHER = 4

fuzz = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def kernel(name: str, statements: list[Statement]) -> str:
    parameters = ", ".join(f"{type_}* p{variable}" for variable, type_ in VARIABLES.items())
    loads = "".join(f"    {type_} {variable} = p{variable}[t];\n" for variable, type_ in VARIABLES.items())
    stores = "".join(f"    p{variable}[t] = {variable};\n" for variable in VARIABLES)
    return f"""
extern "C" __global__ void {name}({parameters}) {{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
{loads}{block(statements, "")}{stores}}}
"""


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
    return variables


def check(launch: Launch, batch: list[list[Statement]], seed: int, blocks: int) -> None:
    source = "".join(kernel(f"program{at}", statements) for at, statements in enumerate(batch))
    note(source)
    for at, statements in enumerate(batch):
        variables = inputs(seed + at)
        actual = {name: values.copy() for name, values in variables.items()}
        # Without contraction, so that a product and a sum stay two operations.
        launch(
            source, blocks, LANES // blocks, *actual.values(), name=f"program{at}", options=("-fmad=false",)
        )
        with np.errstate(all="ignore"):
            run(statements, variables, np.ones(LANES, bool), np.zeros(LANES, bool))
        for name, expected in variables.items():
            # Bits, except that one NaN is as good as another.
            got = actual[name]
            if got.dtype.kind == "f":
                got, expected = (np.where(np.isnan(v), v.dtype.type(np.nan), v) for v in (got, expected))
            unsigned = np.dtype(f"u{got.dtype.itemsize}")
            np.testing.assert_array_equal(got.view(unsigned), expected.view(unsigned), f"program{at}: {name}")


@fuzz
@given(
    batch=st.lists(programs(control=False), min_size=TOGETHER, max_size=TOGETHER),
    seed=st.integers(0, 2**20),
    blocks=st.sampled_from([1, 3]),
)
def test_straight_lines(launch: Launch, batch: list[list[Statement]], seed: int, blocks: int) -> None:
    check(launch, batch, seed, blocks)


@fuzz
@given(
    batch=st.lists(programs(control=True), min_size=TOGETHER, max_size=TOGETHER),
    seed=st.integers(0, 2**20),
    blocks=st.sampled_from([1, 3]),
)
def test_branches_and_loops(launch: Launch, batch: list[list[Statement]], seed: int, blocks: int) -> None:
    check(launch, batch, seed, blocks)
