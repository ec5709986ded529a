"""What blocks touch that did not run."""

from __future__ import annotations

import numpy as np
import pytest

from drv.simulator.timing.figures import SECTOR
from drv.simulator.timing.metering.caches import _PAGE, Level2
from drv.simulator.timing.metering.footprint import Footprints
from drv.simulator.timing.metering.requests import KEY_SHIFT


@pytest.mark.parametrize("far", [True, False])
def test_what_is_touched_at_random(far: bool) -> None:
    """Of a range many times as large as the cache all is missing, and no page of it is taken memory for."""
    generator = np.random.default_rng(3)
    blocks, each, size = 64, 200, (1 << 30 if far else 1 << 12)
    sampled = np.arange(0, 10_000, 10_000 // blocks)
    keys = [(0 << KEY_SHIFT) | generator.integers(0, size, each) for _ in sampled]
    footprints = Footprints((10_000, 1, 1))
    for block, sectors in zip(sampled.tolist(), keys, strict=True):
        footprints.add(1, sectors, block, writes=False)
    level2 = Level2(8 * _PAGE * SECTOR)
    moved = footprints.moved(100, level2)
    if far:
        assert moved.read_misses == pytest.approx(10_000 * each, rel=0.02)
        assert len(level2._pages) == 0
    else:
        assert moved.read_misses == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize("base", [0, 1 << 20, (1 << 20) + 77_777, 3_000_000, 123_456_789])
def test_accesses_to_other_parts_of_a_range_add_up(base: int) -> None:
    """What accesses without an order touch is all of it counted, wherever the range lies."""
    generator = np.random.default_rng(5)
    total, accesses, each, size = 5_000, 4, 50, 1 << 22
    footprints = Footprints((total, 1, 1))
    for block in range(0, total, total // 50):
        # One after the other, as the unrolled turns of a loop.
        for site in range(accesses):
            quarters = generator.integers(0, size // accesses, each) * accesses + site
            footprints.add(site, (0 << KEY_SHIFT) | (base + quarters), block, writes=False)
    moved = footprints.moved(100, Level2(8 * _PAGE * SECTOR))
    assert moved.distinct_read == pytest.approx(total * accesses * each, rel=0.15)


def test_the_same_sectors_count_once_for_accesses_without_an_order() -> None:
    """Two accesses to what is chosen at random, one after the other, touch no more than one of them."""
    generator = np.random.default_rng(5)
    total, each, size = 5_000, 50, 1 << 22
    footprints = Footprints((total, 1, 1))
    for block in range(0, total, total // 50):
        sectors = generator.integers(0, size, each)
        for site in range(2):
            footprints.add(site, (0 << KEY_SHIFT) | sectors, block, writes=False)
    moved = footprints.moved(100, Level2(8 * _PAGE * SECTOR))
    assert moved.distinct_read == pytest.approx(total * each, rel=0.1)


def test_blocks_that_begin_at_a_row() -> None:
    """Blocks whose first row is where their first element is rounded down to touch all rows, and each of them hardly twice."""
    # Blocks of 256 elements, of rows of 56 that read 14 sectors; the planes below have as many rows, 49 blocks each.
    row, planes, blocks = 14, 64, 49
    footprints = Footprints((planes * blocks, 1, 1))
    for start in range(0, planes * blocks, 61):
        position = start % blocks * 256
        rows = np.arange(position // 56 // 2, (position + 255) // 56 // 2 + 1)
        sectors = (start // blocks * 112 + rows)[:, None] * row + np.arange(row)
        footprints.add(1, (0 << KEY_SHIFT) | sectors.ravel(), start, writes=False)
    moved = footprints.moved(512, Level2(64 * _PAGE * SECTOR))
    needed = planes * 112 * row
    assert moved.regular == 1
    assert moved.distinct_read == pytest.approx(needed, rel=0.05)
    assert moved.read_misses == pytest.approx(needed, rel=0.05)


def test_tiles_with_something_beside_them() -> None:
    """Blocks that follow each other in most accesses, and in one are wherever they like, touch what they touch there as well."""
    generator = np.random.default_rng(7)
    channels, images, plane, quarter, rest = 64, 64, 784, 164, 128
    total, order = channels * images // 4, generator.permutation(channels)
    footprints = Footprints((total, 1, 1))
    for batch in range(8):
        for block in range(batch * 128, batch * 128 + 16):
            # Four planes of a channel.
            planes = ((block % 16 * 4 + np.arange(4)) * channels + order[block // 16])[:, None] * plane
            for site in range(4):
                sectors = planes + site * quarter + np.arange(quarter)
                footprints.add(site, (0 << KEY_SHIFT) | sectors.ravel(), block, writes=False)
            sectors = planes[generator.integers(4)] + 4 * quarter + np.arange(rest)
            footprints.add(4, (0 << KEY_SHIFT) | sectors, block, writes=False)
    moved = footprints.moved(528, Level2(16 * _PAGE * SECTOR))
    assert moved.regular < 1
    assert moved.distinct_read == pytest.approx(total * (16 * quarter + rest), rel=0.02)


def test_blocks_over_two_dimensions_within_one_index() -> None:
    """Where an index is divided twice, blocks follow a line, and what they touch is known."""
    halves, columns, images, of_block = 2, 49, 32, 8
    image = halves * columns * of_block
    total = halves * columns * images
    footprints = Footprints((total, 1, 1))
    for batch in range(20):
        for block in range(batch * 157, batch * 157 + 16):
            half, column = block % halves, block // halves % columns
            start = block // (halves * columns) * image + half * columns * of_block + column * of_block
            footprints.add(1, (0 << KEY_SHIFT) | (start + np.arange(of_block)), block, writes=False)
    moved = footprints.moved(792, Level2(16 * _PAGE * SECTOR))
    assert moved.regular == 1
    assert moved.distinct_read == images * image


def test_tiles_that_the_sample_has_not_seen() -> None:
    """Blocks that follow each other as no line does go on over a range of which the sample has seen half."""
    generator = np.random.default_rng(7)
    total, rows = 400, 1000
    footprints = Footprints((total, 1, 1))
    for start in (0, 200):
        for block in range(start, start + 8):
            # One block in eight begins elsewhere.
            first = block * rows + int(generator.integers(300, 400)) * (block % 8 == 3)
            footprints.add(1, (0 << KEY_SHIFT) | (first + np.arange(rows)), block, writes=True)
    moved = footprints.moved(100, Level2(16 * _PAGE * SECTOR))
    assert moved.regular == 0
    assert moved.distinct_written == pytest.approx(total * rows, rel=0.02)
