"""With every check on, kernels whose threads are properly ordered give no finding."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import drv
from tests.drv.simulator.kernels.conftest import Launch

from . import (
    test_atomics,
    test_calls,
    test_cooperative_groups,
    test_coordination,
    test_grid_stride,
    test_hashes_and_random_numbers,
    test_memory_kinds,
    test_narrow_and_wide,
    test_numeric_algorithms,
    test_reductions,
    test_scans,
    test_sorting_and_graphs,
    test_tiles,
    test_warps,
)
from .test_compilations import TESTS, names

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator_only

ORDERED: list[Callable[[Launch], None]] = [
    *TESTS,
    # By barriers.
    test_grid_stride.test_many_small_blocks,
    test_tiles.test_register_blocked_matrix_product,
    partial(test_reductions.test_tree_in_shared_memory, threads=256, n=1000),
    partial(test_reductions.test_welford, n=4000),
    partial(test_scans.test_blelloch, n=1024),
    partial(test_scans.test_segmented_scan, n=512),
    partial(test_sorting_and_graphs.test_radix_sort, n=700),
    partial(test_sorting_and_graphs.test_bitonic_sort_in_shared_memory, n=1024, threads=256),
    test_sorting_and_graphs.test_knapsack,
    test_numeric_algorithms.test_causal_attention,
    partial(test_numeric_algorithms.test_fft, log_n=9),
    test_hashes_and_random_numbers.test_philox,
    test_memory_kinds.test_shared_structs,
    test_narrow_and_wide.test_asynchronous_copy_to_shared_memory,
    test_coordination.test_barrier_in_a_branch,
    test_coordination.test_arrival_without_waiting,
    test_coordination.test_barrier_after_some_threads_left,
    # By warps.
    test_warps.test_warp_reductions,
    partial(test_warps.test_histogram_by_match, n=1000),
    partial(test_cooperative_groups.test_tiles, size=16),
    test_cooperative_groups.test_coalesced_threads,
    test_calls.test_call_in_a_branch,
    # By atomics, fences and volatile flags.
    partial(test_reductions.test_last_block_adds_up, blocks=33),
    partial(test_scans.test_decoupled_look_back, n=4096, threads=64),
    partial(test_scans.test_blocks_that_wait_for_the_one_before, n=4096, threads=64),
    test_coordination.test_lock_in_a_straight_line,
    test_coordination.test_ticket_lock,
    partial(test_coordination.test_persistent_threads, blocks=2, threads=32),
    partial(test_coordination.test_barrier_of_the_grid, blocks=5),
    test_coordination.test_warps_that_feed_each_other,
    test_atomics.test_pairs_of_halves,
    test_atomics.test_builtin_functions,
]


@pytest.mark.parametrize("test", ORDERED, ids=names)
def test_no_findings(test: Callable[[Launch], None]) -> None:
    drv.reset()
    with drv.simulator.installed(check="full"):
        test(Launch(gpu=False))
        assert not list(drv.simulator.findings())
