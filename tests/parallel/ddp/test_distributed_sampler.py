"""Shares of a dataset, one for each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tensor
from parallel import DistributedSampler
from tensor.utils.data import DataLoader, TensorDataset
from tests.parallel.jobs import joined
from tests.parallel.processes import run

if TYPE_CHECKING:
    from pathlib import Path


def _share(rank: int, size: int, store: str) -> Any:
    with joined(rank, size, store):
        sampler = DistributedSampler(range(10))
        epochs = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            epochs.append(list(sampler))
        dataset = TensorDataset(tensor.arange(7))
        loader = DataLoader(dataset, 2, sampler=DistributedSampler(dataset, shuffle=False, drop_last=True))
        batches = [x.tolist() for (x,) in loader]
        # Numbers that are given count.
        own = list(DistributedSampler(range(10), num_replicas=5, rank=3, shuffle=False))
    return epochs, batches, own


def test_ranks_share_a_dataset(tmp_path: Path) -> None:
    results = run(_share, 3, str(tmp_path / "store"))
    for epoch in range(2):
        shares = [result[0][epoch] for result in results]
        assert [len(share) for share in shares] == [4, 4, 4]
        assert set().union(*shares) == set(range(10))
    assert results[0][0][0] != results[0][0][1]
    assert [result[1] for result in results] == [[[0, 3]], [[1, 4]], [[2, 5]]]
    assert [result[2] for result in results] == [[3, 8]] * 3


def test_without_a_process_group() -> None:
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedSampler(range(10))
    assert list(DistributedSampler(range(4), 2, 1, shuffle=False)) == [1, 3]
    with pytest.raises(ValueError, match="Invalid rank 2"):
        DistributedSampler(range(4), 2, 2)
