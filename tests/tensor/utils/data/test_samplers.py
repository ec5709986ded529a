"""Samplers: the same errors and lengths as PyTorch's, and orders with the properties that they promise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import tensor
from tensor.utils import data
from tests.tensor.comparison import assert_same_outcome, outcome


def equal(found: Any, expected: Any) -> None:
    assert found == expected


def theirs() -> Any:
    pytest.importorskip("torch")
    from torch.utils import data as module

    return module


def shares(d: Any, count: int, replicas: int, drop_last: bool) -> Any:
    options = {"num_replicas": replicas, "shuffle": False, "drop_last": drop_last}
    return [list(d.DistributedSampler(range(count), rank=rank, **options)) for rank in range(replicas)]


CASES = {
    "sequential": lambda d: list(d.SequentialSampler("abc")),
    "replacement": lambda d: d.RandomSampler("abc", replacement=1),
    "negative": lambda d: d.RandomSampler("abc", num_samples=-1),
    "no number": lambda d: d.RandomSampler("abc", num_samples=1.5),
    "of nothing": lambda d: list(d.RandomSampler("")),
    "none": lambda d: list(d.RandomSampler("abc", num_samples=0)),
    "random lengths": lambda d: [len(d.RandomSampler("abc", num_samples=n)) for n in (None, 2, 7)],
    "weights of rows": lambda d: d.WeightedRandomSampler([[0.1], [0.2]], 1),
    "weighted none": lambda d: d.WeightedRandomSampler([0.1, 0.2], 0),
    "weighted bool": lambda d: d.WeightedRandomSampler([0.1, 0.2], True),
    "weighted replacement": lambda d: d.WeightedRandomSampler([0.1, 0.2], 2, 1),
    "weighted too many": lambda d: list(d.WeightedRandomSampler([0.1, 0.2], 3, False)),
    "certain": lambda d: list(d.WeightedRandomSampler([0, 0, 2.0], 4)),
    "batches": lambda d: list(d.BatchSampler(range(7), 3, False)),
    "full batches": lambda d: list(d.BatchSampler(iter(range(7)), 3, True)),
    "batches lengths": lambda d: [
        len(d.BatchSampler(range(n), 3, b)) for n in (0, 3, 7) for b in (True, False)
    ],
    "batch size": lambda d: d.BatchSampler(range(7), 0, False),
    "batch bool": lambda d: d.BatchSampler(range(7), True, False),
    "drop_last": lambda d: d.BatchSampler(range(7), 2, 0),
    "abstract": lambda d: iter(d.Sampler()),
    "distributed": lambda d: [
        shares(d, n, r, b) for n in (1, 7, 8) for r in (1, 2, 5) for b in (True, False)
    ],
    "rank": lambda d: d.DistributedSampler("abc", 2, 2),
    "negative rank": lambda d: d.DistributedSampler("abc", 2, -1),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(name: str) -> None:
    case = CASES[name]
    assert_same_outcome(outcome(case, data), outcome(case, theirs()), equal)


def seeded(seed: int) -> tensor.Generator:
    return tensor.Generator().manual_seed(seed)


MAKE = {
    "random": lambda generator: data.RandomSampler(range(50), generator=generator),
    "replaced": lambda generator: data.RandomSampler(range(50), True, generator=generator),
    "subset": lambda generator: data.SubsetRandomSampler(list(range(50)), generator),
    "weighted": lambda generator: data.WeightedRandomSampler([1.0] * 50, 50, generator=generator),
}


@pytest.mark.parametrize("name", MAKE)
def test_generator_decides_the_order(name: str) -> None:
    make = MAKE[name]
    first = make(seeded(3))
    orders = [list(first), list(first)]
    again = make(seeded(3))
    assert orders == [list(again), list(again)]
    assert orders[0] != orders[1]


@pytest.mark.parametrize("name", MAKE)
def test_default_generator_decides_without_one(name: str) -> None:
    tensor.manual_seed(5)
    first = list(MAKE[name](None))
    tensor.manual_seed(5)
    assert first == list(MAKE[name](None))
    assert first != list(MAKE[name](None))


def test_permutations_follow_each_other() -> None:
    drawn = list(data.RandomSampler(range(5), num_samples=13))
    assert len(drawn) == 13
    assert all(sorted(drawn[start : start + 5]) == list(range(5)) for start in (0, 5))
    assert len(set(drawn[10:])) == 3


def test_with_replacement_all_come() -> None:
    drawn = list(data.RandomSampler(range(4), True, 3000))
    assert len(drawn) == 3000
    assert set(drawn) == {0, 1, 2, 3}
    assert min(Counter(drawn).values()) > 500


def test_subset() -> None:
    assert sorted(data.SubsetRandomSampler(["b", "a", "c"])) == ["a", "b", "c"]


def test_weights() -> None:
    drawn = Counter(data.WeightedRandomSampler([1.0, 0.0, 3.0], 2000))
    assert set(drawn) == {0, 2}
    assert 2 * drawn[0] < drawn[2] < 4.5 * drawn[0]
    assert sorted(data.WeightedRandomSampler([1, 2, 3], 3, False)) == [0, 1, 2]


def test_distributed_shuffles_alike_and_by_epoch() -> None:
    parts = [data.DistributedSampler(range(10), 2, rank, seed=4) for rank in range(2)]
    first = [list(part) for part in parts]
    assert sorted(first[0] + first[1]) == list(range(10))
    assert first == [list(part) for part in parts]
    for part in parts:
        part.set_epoch(1)
    assert first != [list(part) for part in parts]


def test_distributed_needs_its_place() -> None:
    with pytest.raises(RuntimeError, match=r"parallel\.DistributedSampler"):
        data.DistributedSampler(range(10))
