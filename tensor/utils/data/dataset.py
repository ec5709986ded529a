"""Datasets: samples by index or one after another, and datasets made of others."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tensor.operations.random.creation import randperm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tensor.methods.tensor import Tensor
    from tensor.operations.random.generator import Generator

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by key. Subclasses define ``__getitem__``, mostly ``__len__``, and may define ``__getitems__``.

    ``__getitems__(indices)`` returns the list of samples of a batch, where reading them together is faster.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(
            f"{type(self).__name__}, a subclass of Dataset, should implement __getitem__."
        )

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples one after another. Subclasses define ``__iter__``.

    Every worker of a loader iterates over a copy; :func:`get_worker_info` tells it which part is its own.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(
            f"{type(self).__name__}, a subclass of IterableDataset, should implement __iter__."
        )

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Sample ``i`` is the tuple of ``tensor[i]`` of each tensor.

    >>> data = tensor.utils.data.TensorDataset(tensor.arange(3), tensor.zeros(3))
    >>> len(data), data[1]
    (3, (tensor(1), tensor(0.)))

    Raises
    ------
    AssertionError
        If the tensors differ in the size of their first dim.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [tensor.size(0) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(
                f"Size mismatch between tensors: their first dims must be equal, got sizes {sizes}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        length: int = self.tensors[0].size(0)
        return length


class StackDataset(Dataset[Any]):
    """Sample ``i`` is the tuple, or with keywords the dict, of sample ``i`` of each dataset.

    Raises
    ------
    ValueError
        If datasets are given both ways, if there is none, or if their lengths differ.
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset takes datasets by position, for tuples, or by keyword, for dicts; both were given"
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in self._parts()]
        if len(set(lengths)) > 1:
            raise ValueError(f"Size mismatch between datasets: their lengths are {lengths}")
        self._length = lengths[0]

    def _parts(self) -> Iterable[Any]:
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def _joined(self, samples: Iterable[Any]) -> Any:
        return (
            dict(zip(self.datasets, samples, strict=True))
            if isinstance(self.datasets, dict)
            else tuple(samples)
        )

    def __getitem__(self, index: Any) -> Any:
        return self._joined(dataset[index] for dataset in self._parts())

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        columns = []
        for dataset in self._parts():
            column = _samples(dataset, indices)
            if len(column) != len(indices):
                raise ValueError(
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}"
                )
            columns.append(column)
        return [self._joined(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """The samples of several datasets, one after the other.

    Raises
    ------
    AssertionError
        If there is no dataset, or an :class:`IterableDataset` among them.
    """

    datasets: list[Dataset[T_co]]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset: use ChainDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError(
                    f"absolute value of index should not exceed dataset length: {index} given, length {len(self)}"
                )
            index += len(self)
        elif index >= len(self):
            raise IndexError(f"index {index} is out of range for a ConcatDataset of length {len(self)}")
        which = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[Any]):
    """The samples of several iterable datasets, one after the other.

    >>> class Letters(tensor.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(Letters() + Letters())
    ['a', 'b', 'a', 'b']

    Iterating, or asking for the length, raises AssertionError if one of them is not an :class:`IterableDataset`.
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(
                    f"ChainDataset only supports IterableDataset, got {type(dataset).__name__}: use ConcatDataset"
                )
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._checked())

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[T_co]):
    """The samples of ``dataset`` at ``indices``, in that order.

    >>> subset = tensor.utils.data.Subset("abcde", [4, 0])
    >>> len(subset), subset[0]
    (2, 'e')
    """

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[each] for each in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[T_co]:
        samples: list[T_co] = _samples(self.dataset, [self.indices[index] for index in indices])
        return samples

    def __len__(self) -> int:
        return len(self.indices)


def _samples(dataset: Any, indices: Sequence[Any]) -> Any:
    together = getattr(dataset, "__getitems__", None)
    return together(indices) if callable(together) else [dataset[index] for index in indices]


def random_split(
    dataset: Dataset[T_co], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[T_co]]:
    """Disjoint random subsets of the given lengths.

    Parameters
    ----------
    lengths : sequence of int or float
        Lengths that sum to the dataset's, or fractions that sum to 1: each subset gets the fraction, rounded
        down, and the samples that are left go one each to the first subsets.
    generator : Generator, optional
        For the permutation.

    Raises
    ------
    ValueError
        If a fraction is not in [0, 1], or the lengths do not sum to the dataset's.
    """
    total = sum(lengths)
    count = len(dataset)  # type: ignore[arg-type]
    if math.isclose(total, 1) and total <= 1:
        for position, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {position} is not between 0 and 1: {fraction}")
        sizes = [math.floor(count * fraction) for fraction in lengths]
        for left in range(count - sum(sizes)):
            sizes[left % len(sizes)] += 1
        for position, size in enumerate(sizes):
            if size == 0:
                warnings.warn(
                    f"Length of split at index {position} is 0. This might result in an empty dataset.",
                    stacklevel=2,
                )
    else:
        sizes = lengths  # type: ignore[assignment]
    if sum(sizes) != count:
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset! {list(lengths)} sum to {total}, "
            f"the dataset has {count} samples"
        )
    order = randperm(count, generator=generator).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
