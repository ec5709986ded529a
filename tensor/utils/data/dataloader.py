"""``DataLoader``: batches of a dataset, one after another."""

from __future__ import annotations

import multiprocessing
import warnings
from collections import deque
from itertools import repeat
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .fetching import make_fetcher
from .pinning import Pinner, pinning_device
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, drawn_seed
from .worker_batches import WorkerBatches
from .worker_pool import WorkerPool
from .workers import WorkerSetup, get_worker_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tensor.operations.random.generator import Generator

    from .dataset import Dataset

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)

_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))
_PREFETCHED = 2


class DataLoader(Generic[T_co]):
    """Batches of a dataset.

    Parameters
    ----------
    dataset : Dataset
        Samples by key, or an :class:`IterableDataset`.
    batch_size : int, optional
        Samples in a batch; with ``None`` samples come one by one, unbatched.
    shuffle : bool
        Whether the order is random, another one at each iteration.
    sampler, batch_sampler : iterable, optional
        Keys of the samples, or lists of keys of the batches.
    num_workers : int
        Processes that read the batches ahead; with 0 this process reads each when it is asked for.
    collate_fn : callable, optional
        Makes a batch of a list of samples: :func:`default_collate`; unbatched, :func:`default_convert`.
    pin_memory : bool
        Whether tensors of the batches lie in pinned memory. A thread pins a batch while the one before is used.
    drop_last : bool
        Whether a last batch that is not full is left out.
    timeout : float
        Seconds to wait for a batch of the workers; 0 waits for as long as they live.
    worker_init_fn : callable, optional
        Called in each worker with its number before it reads.
    multiprocessing_context : str or context, optional
        How workers start: ``"spawn"``, where CUDA was used before, ``"forkserver"`` or ``"fork"``.
    generator : Generator, optional
        For the random order, and for the seeds of the workers.
    prefetch_factor : int, optional
        Batches read ahead by each worker, 2 unless given.
    persistent_workers : bool
        Whether the workers live on between iterations.
    pin_memory_device : str
        Device to pin for; the current one unless given.
    in_order : bool
        Whether batches of several workers come in the sampler's order, and not as they are ready.

    Raises
    ------
    ValueError, TypeError
        For arguments that are wrong, or exclude each other.
    """

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_exclusions(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor or (_PREFETCHED if num_workers else None)
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self._pool: WorkerPool | None = None
        self._length_told: int | None = None
        self._initialized = True

    def _default_sampler(self, shuffle: bool) -> Any:
        if self._iterable:
            return _Endless()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]
        return SequentialSampler(self.dataset)  # type: ignore[arg-type]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_initialized"):
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized: make another loader"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """How workers start: a context of ``multiprocessing``, or ``None`` for the default.

        Raises
        ------
        ValueError
            On assigning, if there are no workers, or for the name of an unknown start method.
        TypeError
            On assigning what is neither a name nor a context.
        """
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, argument: Any) -> None:
        if argument is not None:
            if not self.num_workers:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                    f"num_workers={self.num_workers}"
                )
            argument = _context_of(argument)
        self._context: BaseContext | None = argument

    def __len__(self) -> int:
        """Number of batches. Of an iterable dataset, what its own length makes likely."""
        if not self._iterable:
            return len(self._keys)  # type: ignore[arg-type]
        length: int = len(self.dataset)  # type: ignore[arg-type]
        self._length_told = length
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    @property
    def _keys(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        device = pinning_device(self.pin_memory, self.pin_memory_device)
        pinner = None if device is None else Pinner(device)
        # Drawn without workers too, so that their number does not change the order that follows.
        seed = drawn_seed(self.generator)
        if not self.num_workers:
            return self._counted(_Single(self, pinner))
        pool = self._pool
        if pool is None or not pool.alive:
            pool = self._start(seed)
            self._pool = pool if self.persistent_workers else None
        batches = WorkerBatches(
            pool,
            iter(self._keys),
            pinner=pinner,
            timeout=self.timeout,
            in_order=self.in_order,
            closing=not self.persistent_workers,
        )
        return self._counted(batches)

    def _start(self, seed: int) -> WorkerPool:
        setup = WorkerSetup(
            self.dataset,
            self._iterable,
            self.collate_fn,
            self.batch_sampler is not None,
            self.drop_last,
            self.worker_init_fn,
            self.num_workers,
            seed,
        )
        return WorkerPool(setup, self._context or multiprocessing.get_context(), self.prefetch_factor or 1)

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        """``batches``, with a warning where there are more than an iterable dataset's length tells."""
        return _Counted(self, batches) if self._iterable else batches


class _Endless(Sampler[None]):
    """Keys for a dataset that needs none."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class _Single:
    """Batches that this process reads. With a pinner one is read ahead, for the pinner to work on meanwhile."""

    def __init__(self, loader: DataLoader[Any], pinner: Pinner | None) -> None:
        self._keys = iter(loader._keys)
        self._fetcher = make_fetcher(
            loader.dataset,
            loader._iterable,
            loader.collate_fn,
            loader.batch_sampler is not None,
            loader.drop_last,
        )
        self._pinner = pinner
        self._ahead: deque[Callable[[], Any]] = deque()

    def __iter__(self) -> _Single:
        return self

    def __next__(self) -> Any:
        if self._pinner is None:
            return self._fetcher.fetch(next(self._keys))
        while len(self._ahead) < 2:
            self._ahead.append(self._pinned(self._pinner))
        try:
            return self._ahead.popleft()()
        except StopIteration:
            # Now, and not when somebody lets go of the iterator; what was read ahead is the end once more.
            self._ahead.clear()
            self._close()
            raise

    def _pinned(self, pinner: Pinner) -> Callable[[], Any]:
        """What gives the next batch, or raises what reading it raised, when its turn comes."""
        try:
            batch = self._fetcher.fetch(next(self._keys))
        except Exception as error:
            return _Raising(error)
        return pinner.submit(lambda: batch).result

    def _close(self) -> None:
        pinner, self._pinner = self._pinner, None
        if pinner is not None:
            pinner.close()

    def __del__(self) -> None:
        if hasattr(self, "_pinner"):
            self._close()


class _Raising:
    """Raises an error when called."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self) -> Any:
        try:
            raise self._error
        finally:
            # The error knows this frame, which is not to know the error.
            del self


class _Counted:
    """Batches of an iterable dataset, counted."""

    def __init__(self, loader: DataLoader[Any], batches: Iterator[Any]) -> None:
        self._loader = loader
        self._batches = batches
        self._yielded = 0
        self._warned = False

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Any:
        batch = next(self._batches)
        self._yielded += 1
        told = self._loader._length_told
        if told is not None and not self._warned and self._yielded > len(self._loader):
            self._warned = True
            hint = (
                " With several workers each one reads the whole dataset unless it takes a part by get_worker_info()."
                if self._loader.num_workers
                else ""
            )
            warnings.warn(
                f"Length of IterableDataset {self._loader.dataset} was reported to be {told} (when accessing "
                f"len(dataloader)), but {self._yielded} batches have been fetched.{hint}",
                stacklevel=2,
            )
        return batch


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing, got "
            f"{num_workers}"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, got {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing: let num_workers > 0, or leave "
            f"prefetch_factor out, got {prefetch_factor}"
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"prefetch_factor option should be at least 1, got {prefetch_factor}")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    argument = {"sampler": sampler, "batch_sampler": batch_sampler}
    if shuffle not in (False, None):
        argument = {"shuffle": shuffle}
    for name, value in argument.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_exclusions(
    batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


def _context_of(argument: Any) -> BaseContext:
    if isinstance(argument, str):
        methods = multiprocessing.get_all_start_methods()
        if argument not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={argument!r}"
            )
        return multiprocessing.get_context(argument)
    if not isinstance(argument, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={argument}"
        )
    return argument
