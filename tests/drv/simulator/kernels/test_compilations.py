"""The same kernels compiled otherwise: for other devices, without optimisation, with other options."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

import drv
from tests.drv.simulator.kernels.conftest import Launch
from tests.thinning import thinned

from . import (
    test_calls,
    test_coordination,
    test_divergence,
    test_float_functions,
    test_halves,
    test_hashes_and_random_numbers,
    test_inline_ptx,
    test_memory_kinds,
    test_narrow_and_wide,
    test_numeric_algorithms,
    test_reductions,
    test_sorting_and_graphs,
    test_warps,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TESTS: list[Callable[[Launch], None]] = [
    test_calls.test_recursion,
    test_calls.test_table_of_functions,
    test_calls.test_virtual_functions,
    test_calls.test_structs_by_value,
    test_calls.test_barrier_in_a_function,
    test_coordination.test_lock_of_threads,
    test_coordination.test_named_barriers,
    partial(test_coordination.test_lock_of_blocks, blocks=8),
    test_coordination.test_warps_that_feed_each_other,
    test_divergence.test_nested_loops,
    test_divergence.test_big_switch,
    test_divergence.test_stack_machine,
    test_divergence.test_loop_with_two_entries,
    partial(test_float_functions.test_special_values, type_="float", dtype=np.float32),
    test_hashes_and_random_numbers.test_sha256_at_the_edges_of_blocks,
    test_hashes_and_random_numbers.test_xoshiro,
    test_inline_ptx.test_256_bit_addition,
    test_memory_kinds.test_local_matrix,
    test_memory_kinds.test_constants,
    test_memory_kinds.test_struct_parameter,
    test_memory_kinds.test_large_parameters,
    test_memory_kinds.test_generic_pointers,
    test_memory_kinds.test_generic_stores,
    test_narrow_and_wide.test_packed_records,
    test_narrow_and_wide.test_bit_fields,
    test_numeric_algorithms.test_cholesky,
    test_numeric_algorithms.test_black_scholes,
    test_reductions.test_argmax_takes_the_first_of_equals,
    test_reductions.test_butterfly_of_64_bit_values,
    test_sorting_and_graphs.test_eight_queens,
    test_warps.test_sort_within_a_warp,
]


def names(test: Callable[[Launch], None]) -> str:
    function = test.func if isinstance(test, partial) else test
    return function.__name__.removeprefix("test_")


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    "capability", thinned(("7.5", "8.0", "8.6", "10.0", "12.0"), lambda each: each in ("7.5", "12.0"))
)
def test_other_devices(capability: str) -> None:
    drv.reset()
    with drv.simulator.installed(capability=capability):
        for test in TESTS[::2]:
            test(Launch(gpu=False))
        if capability != "7.5":
            test_halves.test_scalars(Launch(gpu=False), test_halves.BRAIN)


@pytest.mark.parametrize("test", TESTS, ids=names)
@pytest.mark.sampled(4)
def test_without_optimisation(launch: Launch, test: Callable[[Launch], None]) -> None:
    test(Launch(gpu=launch.gpu, options=("--device-debug",)))


@pytest.mark.parametrize(
    "option",
    thinned(
        (
            "--maxrregcount=32",
            "--use_fast_math",
            "--std=c++20",
            "--relocatable-device-code=true",
            "--extra-device-vectorization",
            "-Xptxas=-O1",
        ),
        lambda option: not option.startswith(("--extra", "-Xptxas", "--maxrreg")),
    ),
)
def test_other_options(launch: Launch, option: str) -> None:
    # Those with parameters ask for exact values, which -use_fast_math does not give.
    for test in [test for test in TESTS if not isinstance(test, partial)][::3]:
        test(Launch(gpu=launch.gpu, options=(option,)))
