"""Samples of one batch, read and collated; the same in a loader's own process and in its workers."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class MapFetcher:
    """Batches of a dataset that has samples by key; one sample where batches are not made."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], batched: bool) -> None:
        self._dataset = dataset
        self._collate = collate_fn
        self._batched = batched

    def fetch(self, keys: Any) -> Any:
        """The batch of the samples at ``keys``."""
        dataset = self._dataset
        if not self._batched:
            return self._collate(dataset[keys])
        together = getattr(dataset, "__getitems__", None)
        return self._collate(together(keys) if together else [dataset[key] for key in keys])


class IterableFetcher:
    """Batches of a dataset that is iterated over; ``keys`` only tell how many samples make a batch."""

    def __init__(
        self, dataset: Any, collate_fn: Callable[[Any], Any], batched: bool, drop_last: bool
    ) -> None:
        self._samples = iter(dataset)
        self._collate = collate_fn
        self._batched = batched
        self._drop_last = drop_last
        self._ended = False

    def fetch(self, keys: Any) -> Any:
        """The next batch. Raises ``StopIteration`` after the last."""
        if self._ended:
            raise StopIteration
        if not self._batched:
            return self._collate(next(self._samples))
        samples = list(islice(self._samples, len(keys)))
        self._ended = len(samples) < len(keys)
        if not samples or (self._ended and self._drop_last):
            raise StopIteration
        return self._collate(samples)


def make_fetcher(
    dataset: Any, iterable: bool, collate_fn: Callable[[Any], Any], batched: bool, drop_last: bool
) -> MapFetcher | IterableFetcher:
    """What reads a dataset of either kind."""
    if iterable:
        return IterableFetcher(dataset, collate_fn, batched, drop_last)
    return MapFetcher(dataset, collate_fn, batched)
