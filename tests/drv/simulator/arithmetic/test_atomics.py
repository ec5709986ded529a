"""Atomics of many lanes against the same operations one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from drv.simulator.arithmetic import DTYPES, UnknownInstruction, atomic, resolve
from tests.drv.simulator.arithmetic.lanes import random_lanes, same

OPERATIONS = [
    *((op, t) for op in ("add", "min", "max") for t in ("u32", "s32", "u64", "s64")),
    *((op, t) for op in ("and", "or", "xor", "exch", "cas") for t in ("b32", "b64")),
    *(("add", t) for t in ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")),
    *((op, t) for op in ("min", "max") for t in ("f16", "bf16x2", "f32")),
    ("inc", "u32"),
    ("dec", "u32"),
    ("cas", "b16"),
]


def _one(op: str, t: str, old: NDArray[Any], value: NDArray[Any], compare: NDArray[Any]) -> NDArray[Any]:
    """The new value of one element, as arrays of one lane, written as the PTX manual does."""
    match op:
        case "add":
            return resolve(f"add.{t}").function(old, value)
        case "min" | "max":
            return resolve(f"{op}.{t}").function(old, value)
        case "and":
            return old & value
        case "or":
            return old | value
        case "xor":
            return old ^ value
        case "exch":
            return value
        case "cas":
            return value if old.tolist() == compare.tolist() else old
        case "inc":
            return old + np.uint32(1) if old[0] < value[0] else np.zeros(1, np.uint32)
        case _:
            return value if old[0] == 0 or old[0] > value[0] else old - np.uint32(1)


def _check(op: str, t: str, lanes: int, elements: int, rng: np.random.Generator) -> None:
    memory = random_lanes(t, elements, rng)
    skewed = rng.integers(0, elements, lanes) >> rng.integers(0, 12, lanes)
    indices = rng.permutation(elements)[:lanes] if rng.random() < 0.2 else skewed
    lanes = len(indices)
    few = random_lanes(t, 3, rng)
    value = random_lanes(t, lanes if rng.random() < 0.8 else 1, rng)
    compare = rng.choice(np.concatenate((few, memory[:3])), lanes if rng.random() < 0.8 else 1)
    if op == "cas":
        value = rng.choice(np.concatenate((few, memory[:3])), len(value))
    if op in ("inc", "dec"):
        value = rng.integers(0, 9, len(value)).astype(np.uint32)
        memory = rng.integers(0, 12, elements).astype(np.uint32)
    expected, result = memory.copy(), np.empty(lanes, memory.dtype)
    operands = (value, compare) if op == "cas" else (value,)
    with np.errstate(all="ignore"):
        for lane, element in enumerate(indices.tolist()):
            result[lane] = expected[element]
            own = slice(lane, lane + 1)
            new = _one(
                op,
                t,
                expected[element : element + 1],
                np.broadcast_to(value, lanes)[own],
                np.broadcast_to(compare, lanes)[own],
            )
            expected[element : element + 1] = new
        before = memory.copy()
        old = atomic(memory, indices, op, t, *operands, want_old=True)
        assert old is not None
        nothing = atomic(before, indices, op, t, *operands, want_old=False)
    assert nothing is None
    assert old.dtype == DTYPES[t]
    assert same(t, old, result).all()
    assert same(t, memory, expected).all()
    assert same(t, before, expected).all()


@pytest.mark.parametrize(("op", "t"), OPERATIONS)
@settings(max_examples=15, deadline=None)
@given(
    lanes=st.integers(1, 300),
    elements=st.sampled_from([1, 2, 13, 40, 1000]),
    seed=st.integers(0, 2**32),
)
def test_lanes_come_one_after_the_other(op: str, t: str, lanes: int, elements: int, seed: int) -> None:
    _check(op, t, lanes, elements, np.random.default_rng(seed))


@settings(max_examples=20, deadline=None)
@given(lanes=st.integers(1, 100), elements=st.sampled_from([1, 3, 40]), seed=st.integers(0, 2**32))
def test_exchanges_of_16_bytes(lanes: int, elements: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 2, (elements, 2), dtype=np.uint64)
    indices = rng.integers(0, elements, lanes)
    value = rng.integers(0, 2, (lanes, 2), dtype=np.uint64)
    compare = rng.integers(0, 2, (1, 2), dtype=np.uint64)
    for op in ("cas", "exch"):
        expected, result = memory.copy(), []
        for lane, element in enumerate(indices):
            result.append(expected[element].tolist())
            if op == "exch" or expected[element].tolist() == compare[0].tolist():
                expected[element] = value[lane]
        operands = (value, compare) if op == "cas" else (value,)
        old = atomic(memory, indices, op, "b128", *operands, want_old=True)
        assert old is not None
        assert old.tolist() == result
        assert memory.tolist() == expected.tolist()


def test_a_float_sum_rounds_in_lane_order() -> None:
    memory = np.zeros(1, np.float32)
    value = np.array([2.0**24, *[1.0] * 100, -(2.0**24)], np.float32)
    old = atomic(memory, np.zeros(102, np.int64), "add", "f32", value, want_old=True)
    assert old is not None
    assert old.tolist() == [0.0, *[2.0**24] * 101]
    assert memory.tolist() == [0.0]


@pytest.mark.parametrize(("op", "t"), [("inc", "s32"), ("cas", "f32"), ("and", "f32"), ("swap", "b32")])
def test_an_unknown_operation_is_named(op: str, t: str) -> None:
    with pytest.raises(UnknownInstruction, match=rf"atom\.{op}\.{t}"):
        atomic(np.zeros(1, DTYPES[t]), np.zeros(1, np.int64), op, t, np.zeros(1, DTYPES[t]), want_old=True)
