"""The order of free blocks, with few of them in a list and with many in chunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drv.allocators.caching import pool as pool_module
from drv.allocators.caching.blocks import CachedBlock
from drv.allocators.caching.pool import BlockPool, Clock
from tests.drv.allocators.fakes import BASE, MIB

SEGMENT = 2 * MIB


def small_pool(segments: int) -> BlockPool:
    pool = BlockPool(0, True, [], Clock())
    for index in range(segments):
        pool.insert(CachedBlock(BASE + index * 2 * SEGMENT, SEGMENT, pool))
    return pool


@pytest.mark.parametrize("chunk", [2, 5, 1024])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_best_fit_is_taken_whatever_the_length_of_chunks(chunk: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "CHUNK", chunk)
        pool = small_pool(6)
        live: list[CachedBlock] = []
        for _ in range(data.draw(st.integers(1, 120))):
            if live and data.draw(st.booleans()):
                block = live.pop(data.draw(st.integers(0, len(live) - 1)))
                block.live = False
                pool.give(block, block.size, block.requested)
            else:
                size = 512 * data.draw(st.one_of(st.integers(1, 8), st.integers(1, 2048)))
                free = sorted((b.size, not b.split, b.address) for b in pool if b.size >= size)
                taken = pool.take(size, size)
                if not free:
                    assert taken is None
                else:
                    assert taken is not None
                    assert (taken.address, taken.size) == (free[0][2], size)
                    live.append(taken)
            order = [(b.size, not b.split, b.address) for b in pool]
            assert order == sorted(order)
            assert sum(b.size for b in pool) + sum(b.size for b in live) == 6 * SEGMENT
            assert all(b.key and not b.live for b in pool)


def test_a_part_of_a_segment_is_preferred_to_a_whole_segment_of_the_same_size() -> None:
    pool = BlockPool(0, False, [], Clock())
    whole = CachedBlock(BASE, 20 * MIB, pool)
    pool.insert(whole)
    large = CachedBlock(BASE + 100 * MIB, 40 * MIB, pool)
    front = pool.carve(large, 20 * MIB, 20 * MIB)
    taken = pool.take(20 * MIB, 20 * MIB)
    assert taken is front.next
    assert taken is not whole


def test_many_free_blocks_are_kept_in_chunks_and_merge_back() -> None:
    pool = small_pool(2)
    blocks = [pool.take(512, 1) for _ in range(2 * SEGMENT // 512)]
    assert pool.take(512, 1) is None
    for block in blocks[::2]:
        assert block is not None
        pool.give(block, 512, 1)
    assert len(list(pool)) == len(blocks) // 2 > pool_module.CHUNK
    assert [b.address for b in pool] == [b.address for b in blocks[::2] if b is not None]
    for block in blocks[1::2]:
        assert block is not None
        pool.give(block, 512, 1)
    assert [(b.address, b.size) for b in pool] == [(BASE, SEGMENT), (BASE + 2 * SEGMENT, SEGMENT)]
