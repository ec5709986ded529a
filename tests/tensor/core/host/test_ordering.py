"""The order of packed keys is NumPy's stable order, whatever bits of the keys there is no room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tensor.core.host import ordering
from tensor.core.host.ordering import stable_order

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHAPES = ((5000,), (40, 100), (3, 2048), (200_000,))


def _floats(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[Any]:
    normal = rng.standard_normal(shape).astype(dtype)
    yield normal
    yield np.abs(normal)
    special = np.round(normal, 1)
    for number in (np.nan, -np.nan, -0.0, np.inf, -np.inf):
        special[rng.random(shape) < 0.05] = number
    yield special
    # Which differ in their last bits only, most of them, and a few that are far away.
    near = (1 + 2.0**-50 * rng.integers(0, 9, shape)).astype(dtype)
    yield near
    near.flat[::3] = normal.flat[::3]
    yield near
    near.flat[0], near.flat[1] = np.finfo(dtype).max, np.finfo(dtype).min
    yield near
    yield np.zeros(shape, dtype)


def _integers(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[Any]:
    ends = np.iinfo(dtype)
    yield rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    yield rng.integers(ends.max // 2, ends.max, shape, dtype)
    yield rng.integers(0, ends.max >> 3, shape, dtype)
    few = rng.integers(0, 50, shape, dtype)
    yield few
    few.flat[0], few.flat[1] = ends.max, ends.min
    yield few


@pytest.mark.parametrize("shape", _SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u4", "u8", "i2"])
def test_stable_order(dtype: str, shape: tuple[int, ...]) -> None:
    arrays = _floats if dtype[0] == "f" else _integers
    for a in arrays(dtype, shape, np.random.default_rng(1)):
        for x in (a, a[..., ::2], a[::-1], a.T if a.shape[0] >= 100 else a):
            expected = np.argsort(x, axis=-1, kind="stable")
            np.testing.assert_array_equal(stable_order(x), expected)
            expected = (x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable"))[..., ::-1]
            np.testing.assert_array_equal(stable_order(x, descending=True), expected)


def test_keys_without_room_are_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few such keys the positions are sorted afterwards; of many the whole array is."""
    calls = []
    break_ties = ordering._break_ties
    monkeypatch.setattr(
        ordering, "_break_ties", lambda *arguments: (calls.append(1), break_ties(*arguments))[1]
    )
    rng = np.random.default_rng(2)
    few = rng.integers(-(2**63), 2**63, 100_000)
    few[1::50] = few[::50] ^ rng.integers(0, 4, 2000)
    np.testing.assert_array_equal(stable_order(few), np.argsort(few, kind="stable"))
    assert len(calls) == 1
    many = rng.integers(0, 9, 100_000)
    many[:2] = -(2**63), 2**63 - 1
    np.testing.assert_array_equal(stable_order(many), np.argsort(many, kind="stable"))
    assert len(calls) == 1
