"""Occupancy against rows of NVIDIA's calculator."""

from __future__ import annotations

import pytest

from drv.simulator.device_properties import architecture
from drv.simulator.timing.occupancy import occupancy


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "blocks", "limit"),
    [
        ((9, 0), 256, 32, 0, 8, "warps"),
        ((9, 0), 256, 64, 0, 4, "registers"),
        ((9, 0), 1024, 64, 0, 1, "registers"),
        ((9, 0), 32, 16, 0, 32, "blocks"),
        ((9, 0), 128, 32, 100 * 1024, 2, "shared memory"),
        ((9, 0), 128, 32, 227 * 1024, 1, "shared memory"),
        ((9, 0), 128, 32, 228 * 1024, 0, "shared memory"),
        ((8, 0), 256, 37, 0, 6, "registers"),
        ((8, 9), 256, 32, 0, 6, "warps"),
        ((8, 9), 64, 255, 0, 4, "registers"),
        ((7, 5), 1024, 32, 0, 1, "warps"),
        ((7, 5), 256, 32, 32 * 1024, 2, "shared memory"),
    ],
)
def test_blocks_and_what_limits_them(
    capability: tuple[int, int], threads: int, registers: int, shared: int, blocks: int, limit: str
) -> None:
    result = occupancy(architecture(capability), threads, registers, shared)
    assert (result.blocks, result.limit) == (blocks, limit)


def test_share_of_warps() -> None:
    assert occupancy(architecture((9, 0)), 256, 64, 0).share == 0.5
    assert occupancy(architecture((8, 9)), 1024, 32, 0).share == pytest.approx(2 / 3)
