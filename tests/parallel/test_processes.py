"""What other tests rely on: ranks that fail or die make their test fail."""

from __future__ import annotations

import os

import pytest

from .processes import RankError, run


def _squares(rank: int, world_size: int, offset: int) -> int:
    return rank * rank + offset + world_size


def _second_fails(rank: int, world_size: int) -> None:
    if rank == 1:
        raise ValueError("the reason")


def _first_dies(rank: int, world_size: int) -> None:
    if rank == 0:
        os._exit(7)


def test_results_come_by_rank() -> None:
    assert run(_squares, 3, 10) == [13, 14, 17]


def test_an_exception_of_a_rank_is_an_error() -> None:
    with pytest.raises(RankError, match="rank 1: .*[\\s\\S]*the reason"):
        run(_second_fails, 2)


def test_a_rank_that_dies_is_an_error() -> None:
    with pytest.raises(RankError, match="rank 0: died with exit code 7"):
        run(_first_dies, 2)
