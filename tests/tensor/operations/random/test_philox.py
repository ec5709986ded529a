"""Philox 4x32-10 against the known answers of its authors, and in parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvrtc_kernels import host_loops
from tensor.operations.random.philox import words


# Known answers published with the authors' Random123 library (philox4x32, 10 rounds).
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]) -> None:
    block, call = counter[0] | counter[1] << 32, counter[2] | counter[3] << 32
    assert tuple(words(key[0] | key[1] << 32, call, 4, start=4 * block)) == expected


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 70000), st.integers(0, 40))
def test_a_part_is_a_part_of_the_whole(seed: int, call: int, start: int, count: int) -> None:
    whole = words(seed, call, start + count)
    assert np.array_equal(words(seed, call, count, start), whole[start:])


def test_calls_and_seeds_give_other_numbers() -> None:
    streams = [words(seed, call, 1000) for seed in (0, 1) for call in (0, 1)]
    for i, one in enumerate(streams):
        for two in streams[i + 1 :]:
            assert (one == two).mean() < 0.01


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 4 * 30))
def test_blocks_whose_numbers_need_more_than_32_bits(seed: int, call: int, before: int) -> None:
    """Few blocks are computed by Python's integers, many by arrays, of one upper half of the number at a time."""
    start = (4 << 32) - before
    many = words(seed, call, 200, start)
    few = np.concatenate([words(seed, call, 4, at) for at in range(start, start + 200, 4)])
    assert np.array_equal(many, few)


@pytest.mark.parametrize("count", [8192, 8195, 600_001])
@pytest.mark.parametrize("start", [0, 1, 1000, (4 << 32) - 10_000])
def test_native_words_are_the_same_wherever_they_begin(start: int, count: int) -> None:
    before, results = host_loops.mode(), []
    try:
        for mode in ("off", "on"):
            host_loops.set_mode(mode)
            results.append(words(2**63 + 11, 2**40 + 3, count, start))
    finally:
        host_loops.set_mode(before)
    assert len(results[0]) == count
    assert np.array_equal(*results)
