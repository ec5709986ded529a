"""Datasets behave as PyTorch's do."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from tensor.utils import data
from tests.tensor.comparison import assert_same_outcome, outcome


class Squares(data.Dataset[int]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index * index


class Counting(data.IterableDataset[int]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Any:
        return iter(range(self.count))


class Together(Squares):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return [100 + index for index in indices[: self.count - 1]]


def equal(found: Any, expected: Any) -> None:
    assert found == expected


def theirs() -> Any:
    pytest.importorskip("torch")
    from torch.utils import data as module

    return module


CASES = {
    "concatenated": lambda d: [d.ConcatDataset([range(3), "ab", [7]])[i] for i in range(-6, 6)],
    "sizes": lambda d: d.ConcatDataset([range(3), "ab"]).cumulative_sizes,
    "below": lambda d: d.ConcatDataset([range(3)])[-4],
    "above": lambda d: d.ConcatDataset([range(3)])[3],
    "none": lambda d: d.ConcatDataset([]),
    "of an iterator": lambda d: len(d.ConcatDataset(iter([range(3), range(2)]))),
    "subset": lambda d: [d.Subset(range(10, 20), [3, 1])[i] for i in (0, 1, -1)],
    "subset of a list": lambda d: d.Subset(range(10, 20), [3, 1]).__getitems__([1, 0]),
    "subset outside": lambda d: d.Subset(range(10, 20), [3, 1])[2],
    "stacked": lambda d: d.StackDataset(range(3), "abc")[2],
    "stacked by name": lambda d: d.StackDataset(x=range(3), y="abc")[2],
    "stacked together": lambda d: d.StackDataset(x=range(3), y="abc").__getitems__([2, 0]),
    "stacked both ways": lambda d: d.StackDataset(range(3), y="abc"),
    "nothing stacked": lambda d: d.StackDataset(),
    "stacked unequal": lambda d: d.StackDataset(range(3), "ab"),
    "stacked too few": lambda d: d.StackDataset(Together(3)).__getitems__([0, 1, 2]),
    "abstract": lambda d: d.Dataset()[0],
    "no tensors": lambda d: len(d.TensorDataset()),
    "chained": lambda d: list(d.ChainDataset([range(2)])),
    "lengths": lambda d: [len(part) for part in d.random_split(range(10), [3, 7])],
    "fractions": lambda d: [len(part) for part in d.random_split(range(11), [0.5, 0.3, 0.2])],
    "thirds": lambda d: [len(part) for part in d.random_split(range(10), [1 / 3, 1 / 3, 1 / 3])],
    "wrong lengths": lambda d: d.random_split(range(10), [3, 6]),
    "wrong fraction": lambda d: d.random_split(range(10), [1.5, -0.5]),
    "fractions above one": lambda d: d.random_split(range(10), [0.5, 0.7]),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(name: str) -> None:
    case = CASES[name]
    assert_same_outcome(outcome(case, data), outcome(case, theirs()), equal)


def test_tensors() -> None:
    x, y = tensor.arange(6).reshape(3, 2), tensor.arange(3)
    pairs = data.TensorDataset(x, y)
    assert len(pairs) == 3
    assert [(a.tolist(), b.item()) for a, b in (pairs[0], pairs[2])] == [([0, 1], 0), ([4, 5], 2)]
    assert pairs[1:][0].tolist() == [[2, 3], [4, 5]]
    with pytest.raises(AssertionError, match=r"Size mismatch.*\[3, 2\]"):
        data.TensorDataset(x, y[:2])


def test_sums_of_datasets() -> None:
    both = Squares(3) + Squares(2)
    assert [both[i] for i in range(len(both))] == [0, 1, 4, 0, 1]
    chained = Counting(2) + Counting(3)
    assert isinstance(chained, data.ChainDataset)
    assert list(chained) == [0, 1, 0, 1, 2]
    assert len(chained) == 5
    with pytest.raises(AssertionError, match="use ChainDataset"):
        data.ConcatDataset([Squares(2), Counting(3)])
    with pytest.raises(AssertionError, match="only supports IterableDataset, got Squares"):
        list(Counting(2) + Squares(2))


def test_subsets_read_together() -> None:
    assert data.Subset(Together(5), [4, 2, 0]).__getitems__([2, 1]) == [100, 102]


def test_split_is_a_permutation_given_by_the_generator() -> None:
    def split(seed: int) -> list[list[int]]:
        generator = tensor.Generator().manual_seed(seed)
        return [list(part.indices) for part in data.random_split(range(20), [0.5, 0.5], generator)]

    assert sorted(split(1)[0] + split(1)[1]) == list(range(20))
    assert split(1) == split(1)
    assert split(1) != split(2)


def test_empty_split_warns() -> None:
    with pytest.warns(UserWarning, match="split at index 1 is 0"):
        data.random_split(range(1), [1.0, 0.0])
