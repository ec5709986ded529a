"""``DistributedSampler``: this rank's share of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parallel.groups.process_groups import get_rank, get_world_size
from tensor.utils.data import sampler

if TYPE_CHECKING:
    from collections.abc import Sized

__all__ = ["DistributedSampler"]


class DistributedSampler(sampler.DistributedSampler):
    """The indices of one rank's share of a dataset: every ``num_replicas``-th index, from ``rank`` on.

    All ranks get equally many: the order is repeated from its start until it divides, or with ``drop_last`` cut.

    >>> sampler = parallel.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
    >>> list(sampler)  # rank 0 has 0, 2, 4
    [1, 3, 0]

    With a process group, and an order of its own for every epoch:

    >>> sampler = parallel.DistributedSampler(dataset)  # doctest: +SKIP
    >>> loader = DataLoader(dataset, batch_size=32, sampler=sampler)  # doctest: +SKIP
    >>> for epoch in range(10):  # doctest: +SKIP
    ...     sampler.set_epoch(epoch)

    Parameters
    ----------
    dataset : Sized
        The dataset, of which only the length is used.
    num_replicas, rank : int, optional
        How many ranks there are, and which one this is; those of the default process group by default.
    shuffle : bool
        Whether the order is random: the same on all ranks, and another one after each :meth:`set_epoch`.
    seed : int
        Seed of the order; the same on all ranks.
    drop_last : bool
        Whether to leave out the last indices that do not divide, instead of repeating the first ones.

    Raises
    ------
    ValueError
        If ``rank`` is not in ``[0, num_replicas)``, or a number is missing and there is no process group.
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
        if num_replicas is None:
            num_replicas = get_world_size()
        if rank is None:
            rank = get_rank()
        super().__init__(dataset, num_replicas, rank, shuffle, seed, drop_last)
