"""Kernels written with ``cooperative_groups``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.drv.simulator.kernels.conftest import Launch

# CUDA's headers come without libcu++: this keeps cooperative_groups.h from including it, and NVRTC knows by itself
# the macros of <nv/target>.
OPTIONS = ("-D_CG_LIMIT_INCLUDED_DEPENDENCIES",)
HEADERS = {"nv/target": ""}

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

template <int N> __device__ void tiles(const int* in, int* out) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<N>(block);
    int value = in[cg::this_grid().thread_rank()];
    int sum = value;
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) sum += tile.shfl_down(sum, offset);
    sum = tile.shfl(sum, 0);
    int* row = out + 6 * cg::this_grid().thread_rank();
    row[0] = sum;
    row[1] = tile.thread_rank();
    row[2] = tile.meta_group_rank();
    row[3] = tile.any(value > 90);
    row[4] = tile.all(value > 10);
    row[5] = tile.ballot(value % 2);
}
extern "C" __global__ void tiles_32(const int* in, int* out) { tiles<32>(in, out); }
extern "C" __global__ void tiles_16(const int* in, int* out) { tiles<16>(in, out); }
extern "C" __global__ void tiles_4(const int* in, int* out) { tiles<4>(in, out); }
extern "C" __global__ void tiles_1(const int* in, int* out) { tiles<1>(in, out); }

extern "C" __global__ void reductions(const int* in, int* out) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int value = in[block.thread_rank()];
    int* row = out + 4 * block.thread_rank();
    row[0] = cg::reduce(tile, value, cg::plus<int>());
    row[1] = cg::reduce(tile, value, cg::greater<int>());
    row[2] = cg::reduce(tile, value, cg::bit_xor<int>());
    row[3] = cg::inclusive_scan(tile, value, cg::plus<int>());
}

extern "C" __global__ void coalesced(const int* in, int* out, int* counter) {
    int value = in[threadIdx.x];
    if (value > 50) {
        auto active = cg::coalesced_threads();
        int base = 0;
        if (active.thread_rank() == 0) base = atomicAdd(counter, active.size());
        out[active.shfl(base, 0) + active.thread_rank()] = value;
    }
}

extern "C" __global__ void block_reduce(const double* in, double* out) {
    extern __shared__ double cells[];
    auto block = cg::this_thread_block();
    unsigned rank = block.thread_rank();
    cells[rank] = in[block.group_index().x * block.size() + rank];
    block.sync();
    for (int half = block.size() / 2; half; half /= 2) {
        if (rank < half) cells[rank] += cells[rank + half];
        cg::sync(block);
    }
    if (rank == 0) out[block.group_index().x] = cells[0];
}
"""


@pytest.mark.parametrize("size", [32, 16, 4, 1])
def test_tiles(launch: Launch, size: int) -> None:
    values = np.random.default_rng(size).integers(0, 100, 128).astype(np.int32)
    out = np.zeros((128, 6), np.int32)
    launch(SOURCE, 2, 64, values, out, name=f"tiles_{size}", options=OPTIONS, headers=HEADERS)
    groups = values.reshape(-1, size)
    lanes = np.arange(128)
    np.testing.assert_array_equal(out[:, 0], groups.sum(1).repeat(size))
    np.testing.assert_array_equal(out[:, 1], lanes % size)
    np.testing.assert_array_equal(out[:, 2], lanes % 64 // size)
    np.testing.assert_array_equal(out[:, 3] != 0, (groups > 90).any(1).repeat(size))
    np.testing.assert_array_equal(out[:, 4] != 0, (groups > 10).all(1).repeat(size))
    ballots = ((groups % 2).astype(np.int64) << np.arange(size)).sum(1)
    np.testing.assert_array_equal(out[:, 5].view(np.uint32), ballots.repeat(size))


def test_reductions_and_scans_of_tiles(launch: Launch) -> None:
    values = np.random.default_rng(1).integers(-99, 100, (12, 8)).astype(np.int32)
    out = np.zeros((12, 8, 4), np.int32)
    launch(SOURCE, 1, 96, values, out, name="reductions", options=OPTIONS, headers=HEADERS)
    np.testing.assert_array_equal(out[..., 0], np.repeat(values.sum(1)[:, None], 8, 1))
    np.testing.assert_array_equal(out[..., 1], np.repeat(values.max(1)[:, None], 8, 1))
    np.testing.assert_array_equal(out[..., 2], np.repeat(np.bitwise_xor.reduce(values, 1)[:, None], 8, 1))
    np.testing.assert_array_equal(out[..., 3], values.cumsum(1))


def test_coalesced_threads(launch: Launch) -> None:
    values = np.random.default_rng(2).integers(0, 100, 128).astype(np.int32)
    out, counter = np.zeros(128, np.int32), np.zeros(1, np.int32)
    launch(SOURCE, 1, 128, values, out, counter, name="coalesced", options=OPTIONS, headers=HEADERS)
    large = values[values > 50]
    assert counter[0] == len(large)
    np.testing.assert_array_equal(np.sort(out[: len(large)]), np.sort(large))


def test_block_groups(launch: Launch) -> None:
    values = np.random.default_rng(3).integers(-99, 99, (5, 128)).astype(np.float64)
    out = np.zeros(5)
    launch(SOURCE, 5, 128, values, out, name="block_reduce", shared=8 * 128, options=OPTIONS, headers=HEADERS)
    np.testing.assert_array_equal(out, values.sum(1))


WIDE_TILES = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void wide_sync(const int* in, int* out) {
    __shared__ cg::block_tile_memory<256> scratch;
    __shared__ int held[256];
    auto tile = cg::tiled_partition<64>(cg::this_thread_block(scratch));
    for (int round = 0; round < 2; round++) {
        held[threadIdx.x] = in[threadIdx.x] + round;
        tile.sync();
        out[round * 256 + threadIdx.x] = held[threadIdx.x ^ 63];
        tile.sync();
    }
}
extern "C" __global__ void wide_reduce(const int* in, int* out) {
    __shared__ cg::block_tile_memory<256> scratch;
    auto tile = cg::tiled_partition<64>(cg::this_thread_block(scratch));
    out[threadIdx.x] = cg::reduce(tile, in[threadIdx.x], cg::plus<int>());
    out[256 + threadIdx.x] = cg::reduce(tile, in[threadIdx.x], cg::greater<int>());
}
extern "C" __global__ void wide_votes(const int* in, int* out) {
    __shared__ cg::block_tile_memory<256> scratch;
    auto tile = cg::tiled_partition<128>(cg::this_thread_block(scratch));
    int value = in[threadIdx.x];
    out[threadIdx.x] = 2 * tile.any(value == 3) + tile.all(value < 200);
    out[256 + threadIdx.x] = tile.shfl(value, 70);
}
extern "C" __global__ void no_sync(const int* in, int* out) {
    __shared__ cg::block_tile_memory<256> scratch;
    __shared__ int held[256];
    auto tile = cg::tiled_partition<64>(cg::this_thread_block(scratch));
    held[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x >= 128) tile.sync();
    out[threadIdx.x] = held[threadIdx.x ^ 63];
}
"""


def wide_tiles(kernel: str, launch: Launch) -> np.ndarray:
    out = np.zeros((2, 256), np.int32)
    launch(
        WIDE_TILES, 1, 256, np.arange(256, dtype=np.int32), out, name=kernel, options=OPTIONS, headers=HEADERS
    )
    return out


def test_tiles_of_several_warps(launch: Launch) -> None:
    x = np.arange(256)
    assert (wide_tiles("wide_sync", launch) == [x ^ 63, (x ^ 63) + 1]).all()
    tiles = x.reshape(4, 64)
    expected = [np.repeat(tiles.sum(1), 64), np.repeat(tiles.max(1), 64)]
    assert (wide_tiles("wide_reduce", launch) == expected).all()
    assert (wide_tiles("wide_votes", launch) == [(x < 128) * 3, 70 + 128 * (x >= 128)]).all()


@pytest.mark.simulator_only
@pytest.mark.parametrize("capability", ["7.5", "8.0", "9.0"])
def test_checks_of_tiles_of_several_warps(launch: Launch, capability: str) -> None:
    """From 8.0 on the system keeps their barriers, ready for use, in shared memory that it reserves."""
    import drv

    drv.reset()
    with drv.simulator.installed(check="full", capability=capability):
        test_tiles_of_several_warps(launch)
        assert not list(drv.simulator.findings())
        with pytest.raises(drv.DataRaceError, match="two threads touch shared memory"):
            wide_tiles("no_sync", launch)
