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
