"""How arrays are combined: in the order of the ranks, wherever the result goes, and wide where halves are summed."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallel.backends.reductions import DTYPES, reduction
from parallel.groups.reduce_op import ReduceOp

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
CASES = [
    (op, dtype)
    for op in ReduceOp
    for dtype in sorted(DTYPES, key=lambda dtype: dtype.name)
    if not (dtype.kind == "c" and op in (ReduceOp.MIN, ReduceOp.MAX))
    and not (op is ReduceOp.AVG and dtype.kind in "biu")
    and not (op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and dtype.kind not in "biu")
]


def _values(dtype: np.dtype[Any], count: int, generator: np.random.Generator) -> Any:
    values = generator.standard_normal(count) * 10
    if dtype.kind == "c":
        return (values + 1j * generator.standard_normal(count)).astype(dtype)
    return values.astype(dtype) if dtype.kind not in "bu" else np.abs(values).astype(dtype)


@given(
    case=st.sampled_from(CASES),
    ranks=st.integers(1, 5),
    count=st.integers(0, 70),
    where=st.integers(0, 5),
    seed=st.integers(0, 2**32),
)
def test_the_place_of_the_result_does_not_matter(
    case: tuple[ReduceOp, np.dtype[Any]], ranks: int, count: int, where: int, seed: int
) -> None:
    op, dtype = case
    generator = np.random.default_rng(seed)
    parts = [_values(dtype, count, generator) for _ in range(ranks)]
    combine = reduction(op, dtype, ranks)
    fresh = np.empty(count, dtype)
    combine.combine(fresh, parts)
    for part, kept in zip(parts, [part.copy() for part in parts], strict=True):
        assert part.tobytes() == kept.tobytes()
    # In pairs, as many ranks do it.
    total = combine.accumulator(parts[0])
    for part in parts[1:]:
        combine.accumulate(total, total.copy(), combine.accumulator(part))
    paired = np.empty(count, dtype)
    combine.finish(paired, total)
    # In the place of one of the parts, as the owner of a part does it.
    placed = [part.copy() for part in parts]
    output = placed[where % ranks]
    combine.combine(output, placed)
    for other in (paired, output):
        if dtype.kind == "c":
            np.testing.assert_allclose(other, fresh, rtol=1e-4, atol=1e-4)
        else:
            assert other.tobytes() == fresh.tobytes()


@pytest.mark.parametrize("dtype", [*HALVES, np.dtype(np.float32)])
def test_nan_goes_through_and_overflow_is_silent(dtype: np.dtype[Any]) -> None:
    first, second = np.array([np.nan, 1, 6e4, 1], dtype), np.array([1, np.nan, 6e4, 2], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for op in (ReduceOp.MIN, ReduceOp.MAX, ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.AVG):
            output = np.empty(4, dtype)
            reduction(op, dtype, 2).combine(output, [first, second])
            assert np.isnan(output[:2].astype(np.float32)).all()
        # The average of what overflows as a sum: sums are wide.
        assert float(output[2]) == pytest.approx(6e4, rel=1e-2)


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_of_halves_are_rounded_once(dtype: np.dtype[Any]) -> None:
    eps = float(ml_dtypes.finfo(dtype).eps)
    # One after another, each small one would be lost.
    parts = [np.array([1], dtype), *(np.array([eps / 4], dtype) for _ in range(4))]
    output = np.empty(1, dtype)
    reduction(ReduceOp.SUM, dtype, len(parts)).combine(output, parts)
    assert float(output[0]) == 1 + eps


def test_bools_are_logic() -> None:
    first, second = np.array([False, False, True, True]), np.array([False, True, False, True])
    either, both, one = first | second, first & second, first ^ second
    expected = {
        ReduceOp.SUM: either,
        ReduceOp.MAX: either,
        ReduceOp.BOR: either,
        ReduceOp.PRODUCT: both,
        ReduceOp.MIN: both,
        ReduceOp.BAND: both,
        ReduceOp.BXOR: one,
    }
    for op, result in expected.items():
        output = np.empty(4, np.bool_)
        reduction(op, np.dtype(np.bool_), 2).combine(output, [first, second])
        np.testing.assert_array_equal(output, result)


def test_what_makes_no_sense_is_an_error() -> None:
    for op, dtype, text in (
        (ReduceOp.MIN, np.complex64, "ReduceOp.MIN is not for complex64; it is for bfloat16, bool"),
        (ReduceOp.AVG, np.int32, "ReduceOp.AVG is not for int32; it is for bfloat16, complex128"),
        (ReduceOp.BXOR, np.float32, "ReduceOp.BXOR is not for float32"),
        (ReduceOp.SUM, np.uint32, "ReduceOp.SUM is not for uint32"),
    ):
        with pytest.raises(TypeError, match=text):
            reduction(op, np.dtype(dtype), 2)
