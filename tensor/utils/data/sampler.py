"""Samplers: which samples of a dataset a loader reads, in which order, and in which batches."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nvrtc_kernels.dtypes import float64
from tensor.operations.creation.construction import as_tensor
from tensor.operations.random.creation import randint, randperm
from tensor.operations.random.generator import Generator
from tensor.operations.random.sampling import multinomial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Sized

__all__ = [
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)

#: How many indices with replacement are drawn in one go.
_DRAWN_AT_ONCE = 1024


class Sampler(Generic[T_co]):
    """Indices, or lists of indices, one after another. Subclasses define ``__iter__``, and mostly ``__len__``.

    >>> class Even(tensor.utils.data.Sampler):
    ...     def __iter__(self):
    ...         return iter([0, 2, 4])
    >>> list(tensor.utils.data.DataLoader("abcde", sampler=Even()))
    [['a'], ['c'], ['e']]

    Iterating over one that does not define ``__iter__`` raises NotImplementedError.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}, a subclass of Sampler, should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """All indices of ``data_source`` in order: 0, 1, ..., ``len(data_source) - 1``.

    Parameters
    ----------
    data_source : Sized
        Anything with a length, which is asked for at the start of each iteration.
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices of a dataset in random order.

    >>> sampler = tensor.utils.data.RandomSampler(range(4))
    >>> sorted(sampler)
    [0, 1, 2, 3]

    Parameters
    ----------
    data_source : Sized
        The dataset, of which only the length is used.
    replacement : bool
        Whether an index may come again before all others came.
    num_samples : int, optional
        How many are drawn; as many as there are samples unless given. Without replacement, a permutation follows
        the other where there are more.
    generator : Generator, optional
        Unless given, one that is seeded from the default generator at each iteration.

    Raises
    ------
    TypeError
        If ``replacement`` is not a bool.
    ValueError
        If ``num_samples`` is not a positive integer, also because the dataset is empty.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices an iteration draws: what was passed, or the length of the dataset."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, expected = len(self.data_source), self.num_samples
        generator = self.generator or seeded()
        if self.replacement:
            for start in range(0, expected, _DRAWN_AT_ONCE):
                size = min(_DRAWN_AT_ONCE, expected - start)
                yield from randint(0, count, (size,), generator=generator).tolist()
            return
        for start in range(0, expected, count):
            yield from randperm(count, generator=generator).tolist()[: expected - start]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[Any]):
    """The given indices in random order.

    >>> sorted(tensor.utils.data.SubsetRandomSampler([10, 20, 30]))
    [10, 20, 30]

    Parameters
    ----------
    indices : sequence
        What is drawn, each once.
    generator : Generator, optional
        For the order; the default generator if not given.
    """

    def __init__(self, indices: Sequence[Any], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[Any]:
        for position in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[position]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to ``weights``, which need not sum to 1.

    >>> list(tensor.utils.data.WeightedRandomSampler([0.0, 1.0], num_samples=3))
    [1, 1, 1]

    Parameters
    ----------
    weights : sequence of float
        One for each index, not negative.
    num_samples : int
        How many indices an iteration draws.
    replacement : bool
        Whether an index may come again.
    generator : Generator, optional
        For the numbers; the default generator if not given.

    Raises
    ------
    ValueError
        If ``num_samples`` is not a positive integer, ``replacement`` not a bool, or ``weights`` not one-dimensional.
    RuntimeError
        On iterating, as :func:`tensor.multinomial`: if a weight is negative or not finite, or without replacement
        fewer than ``num_samples`` are positive.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices of another sampler; the last is shorter, or dropped.

    >>> list(tensor.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]

    Parameters
    ----------
    sampler : Sampler or iterable of int
        Where the indices come from.
    batch_size : int
        Length of the lists.
    drop_last : bool
        Whether a last list that is shorter is left out.

    Raises
    ------
    ValueError
        If ``batch_size`` is not a positive integer, or ``drop_last`` not a bool.
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(Sampler[int]):
    """The share of one of several processes: every ``num_replicas``-th index, from ``rank`` on.

    Each gets equally many: the order is repeated from its start until it divides, or with ``drop_last`` cut.

    >>> list(tensor.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]

    Parameters
    ----------
    dataset : Sized
        The dataset, of which only the length is used.
    num_replicas, rank : int
        How many processes there are, and which one this is. ``parallel.DistributedSampler`` takes them from the
        process group.
    shuffle : bool
        Whether the order is random, the same in all processes, and another one after :meth:`set_epoch`.
    seed : int
        Of the order; the same in all processes.
    drop_last : bool
        Whether to leave out the last indices that do not divide, instead of repeating the first ones.

    Raises
    ------
    RuntimeError
        If ``num_replicas`` or ``rank`` is missing.
    ValueError
        If ``rank`` is not in ``[0, num_replicas)``.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError(
                f"DistributedSampler needs num_replicas and rank, got num_replicas={num_replicas}, rank={rank}: give "
                "both, or use parallel.DistributedSampler, which takes them from the process group"
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        if len(order) < self.total_size and order:
            order *= math.ceil(self.total_size / len(order))
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose another random order, that of ``epoch``; to be called in all processes before each epoch.

        Without it every epoch has the same order. With ``shuffle=False`` it changes nothing.
        """
        self.epoch = epoch


def seeded() -> Generator:
    """A generator that starts from a number of the default generator."""
    return Generator().manual_seed(drawn_seed(None))


def drawn_seed(generator: Generator | None) -> int:
    """A number in ``[0, 2**62)`` of ``generator``, by default of the default generator."""
    return int(randint(0, 1 << 62, (), generator=generator).item())


def _check_positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
