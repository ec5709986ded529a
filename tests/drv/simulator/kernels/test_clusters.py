"""Clusters: their special registers, barriers, and shared memory of one block that others reach."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cuda

import drv
from tests.drv.simulator.compiled import KERNELS, ptx
from tests.drv.simulator.machine import Machine

pytestmark = pytest.mark.simulator_only

WHERE = r"""
#define READ(name, value) asm volatile("mov.u32 %0, " name ";" : "=r"(value))
extern "C" __global__ void where(unsigned* out) {
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned* row = out + 18 * block;
    READ("%clusterid.x", row[0]); READ("%clusterid.y", row[1]); READ("%clusterid.z", row[2]);
    READ("%nclusterid.x", row[3]); READ("%nclusterid.y", row[4]); READ("%nclusterid.z", row[5]);
    READ("%cluster_ctaid.x", row[6]); READ("%cluster_ctaid.y", row[7]); READ("%cluster_ctaid.z", row[8]);
    READ("%cluster_nctaid.x", row[9]); READ("%cluster_nctaid.y", row[10]); READ("%cluster_nctaid.z", row[11]);
    READ("%cluster_ctarank", row[12]); READ("%cluster_nctarank", row[13]);
    asm volatile("{ .reg .pred p; mov.pred p, %is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(row[14]));
    row[15] = blockIdx.x; row[16] = blockIdx.y; row[17] = blockIdx.z;
}
"""

EXCHANGE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void CLUSTER exchange(const float* in, float* out) {
    __shared__ float row[64];
    auto cluster = cg::this_cluster();
    unsigned rank = cluster.block_rank(), size = cluster.num_blocks();
    row[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    FIRST;
    float sum = 0;
    for (unsigned other = 0; other < size; ++other) {
        const float* theirs = cluster.map_shared_rank(row, (rank + other) % size);
        sum += theirs[63 - threadIdx.x] * (1 + other);
    }
    SECOND;
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""
SYNC = "cluster.sync()"


def exchange(size: int, first: str = SYNC, second: str = SYNC, **options: object) -> tuple:
    """The result, the expected one, and what the checkers find."""
    values = np.random.default_rng(size).integers(-99, 99, (4 * size, 64)).astype(np.float32)
    out = np.zeros_like(values)
    flags = (f"-DCLUSTER=__cluster_dims__({size})", f"-DFIRST={first}", f"-DSECOND={second}")
    findings = drv.simulator.run(
        EXCHANGE, "exchange", 4 * size, 64, [values, out], compile_options=flags, collect=True, **options
    )
    rows = values.reshape(4, size, 64)[:, :, ::-1]
    expected = np.zeros_like(rows)
    for other in range(size):
        expected += np.roll(rows, -other, axis=1) * np.float32(1 + other)
    return out, expected.reshape(out.shape), findings


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.sampled(4)
def test_blocks_of_a_cluster_read_each_other(size: int) -> None:
    out, expected, findings = exchange(size)
    assert findings == ()
    np.testing.assert_array_equal(out, expected)


def test_arriving_and_waiting_apart() -> None:
    first = "auto token=cluster.barrier_arrive();cluster.barrier_wait(static_cast<decltype(token)&&>(token))"
    out, expected, findings = exchange(2, first)
    assert findings == ()
    np.testing.assert_array_equal(out, expected)


def test_reading_before_the_cluster_has_met() -> None:
    *_, findings = exchange(2, "__syncthreads()")
    texts = [str(finding) for finding in findings]
    assert any("which is not known to have started" in text for text in texts)
    (race,) = [finding for finding in findings if finding.first is not None]
    assert {race.first.site.source[1], race.second.site.source[1]} == {8, 13}
    assert {race.first.action, race.second.action} == {"reads", "writes"}
    assert "let the cluster meet between the two" in str(race)


def test_ending_while_others_read() -> None:
    out, expected, findings = exchange(2, second="__syncthreads()")
    np.testing.assert_array_equal(out, expected)
    (finding,) = findings
    assert "which may have ended by then" in str(finding)
    assert finding.second.site.source[1] == 13


def test_a_relaxed_arrival_hands_nothing_on() -> None:
    first = 'asm volatile("barrier.cluster.arrive.relaxed;barrier.cluster.wait;" ::: "memory")'
    *_, findings = exchange(2, first)
    assert findings


def test_special_registers_in_clusters_of_three_dimensions() -> None:
    grid, cluster = (4, 6, 4), (2, 1, 4)
    out = np.zeros((96, 18), np.uint32)
    source = WHERE.replace("void where", "void __cluster_dims__(2, 1, 4) where")
    drv.simulator.run(source, "where", grid, 1, [out], check="full")
    for row in out.astype(int):
        block = row[15:18]
        inside = block % cluster
        assert (row[:3] == block // cluster).all()
        assert (row[3:6] == np.array(grid) // cluster).all()
        assert (row[6:9] == inside).all()
        assert (row[9:12] == cluster).all()
        assert row[12] == inside[0] + 2 * (inside[1] + inside[2])
        assert (row[13], row[14]) == (8, 1)


def test_special_registers_without_clusters() -> None:
    out = np.zeros((6, 18), np.uint32)
    drv.simulator.run(WHERE, "where", (3, 2, 1), 1, [out])
    for row in out:
        assert (row[:3] == row[15:18]).all()
        assert row[3:15].tolist() == [3, 2, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0]


ADDRESSES = r"""
extern "C" __global__ void __cluster_dims__(4) addresses(unsigned* out) {
    __shared__ int cell[4];
    unsigned rank, own = __cvta_generic_to_shared(cell + 1), mapped, back, type;
    asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
    cell[threadIdx.x] = rank;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(own), "r"(rank ^ 3));
    asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(back) : "r"(mapped));
    out[0 + 8 * rank] = back;
    asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(back) : "r"(own));
    out[1 + 8 * rank] = back;
    asm("{ .reg .pred a, b; .reg .u64 x; cvta.shared::cluster.u64 x, %1; isspacep.shared::cta a, x;"
        "isspacep.shared::cluster b, x; selp.u32 %0, 10, 0, a; @b add.u32 %0, %0, 1; }"
        : "=r"(type) : "l"((unsigned long long)mapped));
    out[2 + 8 * rank] = type;
    asm("{ .reg .pred a, b; .reg .u64 x; cvta.shared::cluster.u64 x, %1; isspacep.shared::cta a, x;"
        "isspacep.shared::cluster b, x; selp.u32 %0, 10, 0, a; @b add.u32 %0, %0, 1; }"
        : "=r"(type) : "l"((unsigned long long)own));
    out[3 + 8 * rank] = type;
    unsigned value;
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], 5;" : "=r"(value) : "r"(mapped) : "memory");
    out[4 + 8 * rank] = value;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    out[5 + 8 * rank] = cell[1];
    asm volatile("st.shared::cluster.u32 [%0+4], %1;" :: "r"(mapped), "r"(rank + 70) : "memory");
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    out[6 + 8 * rank] = cell[2];
}
"""


def test_addresses_in_the_window_of_the_cluster() -> None:
    out = np.zeros((4, 8), np.uint32)
    drv.simulator.run(
        ADDRESSES.replace("cell[threadIdx.x] = rank", "cell[1] = rank"), "addresses", 4, 1, [out]
    )
    for rank, row in enumerate(out.tolist()):
        assert row == [rank ^ 3, rank, 1, 11, rank ^ 3, rank + 5, (rank ^ 3) + 70, 0]


def test_leaving_the_shared_memory_of_another_block() -> None:
    source = ADDRESSES.replace("[%1], 5", "[%1+1000], 5")
    with pytest.raises(
        drv.IllegalAddressError, match="4 bytes outside the shared memory of a block of the cluster"
    ):
        drv.simulator.run(source, "addresses", 4, 1, [np.zeros(32, np.uint32)])


def test_threads_that_end_need_not_arrive() -> None:
    source = r"""
extern "C" __global__ void __cluster_dims__(2) ends(int* out) {
    if (threadIdx.x >= 40) return;
    if (threadIdx.x % 2) out[blockIdx.x * 40 + threadIdx.x] = 1;
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    out[blockIdx.x * 40 + threadIdx.x] += 7;
}"""
    out = np.zeros((2, 40), np.int32)
    drv.simulator.run(source, "ends", 2, 64, [out], check="full")
    assert (out == 7 + np.arange(40) % 2).all()


def test_a_cluster_that_waits_forever() -> None:
    source = r"""
extern "C" __global__ void __cluster_dims__(2) waits(int* out) {
    if (blockIdx.x) asm volatile("bar.sync 1, 64;");
    else asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}"""
    with pytest.raises(drv.DeviceFaultError) as raised:
        drv.simulator.run(source, "waits", 2, 32, [np.zeros(1, np.int32)])
    assert "wait at a barrier of their cluster" in str(raised.value)
    assert "wait at a barrier of their block" in str(raised.value)


# Launches


def config(grid: tuple, block: int, cluster: tuple | None, shared: int = 0) -> cuda.CUlaunchConfig:
    result = cuda.CUlaunchConfig()
    result.gridDimX, result.gridDimY, result.gridDimZ = grid
    result.blockDimX, result.blockDimY, result.blockDimZ = block, 1, 1
    result.sharedMemBytes = shared
    if cluster is not None:
        attribute = cuda.CUlaunchAttribute()
        attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dimensions = attribute.value.clusterDim
        dimensions.x, dimensions.y, dimensions.z = cluster
        value = attribute.value
        value.clusterDim = dimensions
        attribute.value = value
        result.attrs = [attribute]
        result.numAttrs = 1
    return result


DECLARED = r"""
extern "C" __global__ void __cluster_dims__(2) declared() {}
extern "C" __global__ void __cluster_dims__() undetermined() {}
"""
SET = cuda.CUfunction_attribute


def test_clusters_of_a_launch() -> None:
    machine = Machine()
    module = machine.cuModuleLoadData(ptx(WHERE, architecture="compute_90"))
    where = machine.cuModuleGetFunction(module, b"where")
    out = machine.device_memory(12 * 18 * 4)
    kernel_parameters = ((out,), (ctypes.c_void_p,))
    machine.cuLaunchKernelEx(config((12, 1, 1), 1, (3, 1, 1)), where, kernel_parameters, 0)
    machine.cuCtxSynchronize()
    rows = machine.peek(out, 12 * 18 * 4).view(np.uint32).reshape(12, 18)
    assert (rows[:, 0] == np.arange(12) // 3).all()
    assert (rows[:, 12] == np.arange(12) % 3).all()
    for cluster, answer in (
        ((5, 1, 1), "INVALID_VALUE"),
        ((12, 1, 1), "INVALID_CLUSTER_SIZE"),
        ((0, 1, 1), "INVALID_VALUE"),
    ):
        assert (
            machine.status("cuLaunchKernelEx", config((12, 1, 1), 1, cluster), where, kernel_parameters, 0)
            == answer
        )
    machine.cuFuncSetAttribute(where, SET.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
    machine.cuLaunchKernelEx(config((12, 1, 1), 1, (12, 1, 1)), where, kernel_parameters, 0)


def test_clusters_that_kernels_declare() -> None:
    machine = Machine()
    module = machine.cuModuleLoadData(ptx(DECLARED, architecture="compute_90"))
    declared, undetermined = (
        machine.cuModuleGetFunction(module, name) for name in (b"declared", b"undetermined")
    )
    launch = (32, 1, 1, 0, 0, 0, 0)
    assert machine.status("cuLaunchKernel", declared, 4, 1, 1, *launch) == "SUCCESS"
    assert machine.status("cuLaunchKernel", declared, 3, 1, 1, *launch) == "INVALID_VALUE"
    assert machine.status("cuLaunchKernel", undetermined, 4, 1, 1, *launch) == "INVALID_CLUSTER_SIZE"
    for cluster, answer in (((2, 1, 1), "SUCCESS"), ((4, 1, 1), "INVALID_CLUSTER_SIZE")):
        assert machine.status("cuLaunchKernelEx", config((4, 1, 1), 32, cluster), declared, 0, 0) == answer
    assert machine.cuFuncGetAttribute(SET.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, declared) == 2
    assert machine.cuFuncGetAttribute(SET.CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, undetermined) == 1


def test_devices_without_clusters() -> None:
    machine = Machine(capability=(8, 0))
    nothing = machine.cuModuleGetFunction(machine.cuModuleLoadData(ptx(KERNELS)), b"nothing")
    for cluster, answer in (((2, 1, 1), "NOT_SUPPORTED"), ((1, 1, 1), "SUCCESS")):
        assert machine.status("cuLaunchKernelEx", config((2, 1, 1), 1, cluster), nothing, 0, 0) == answer
    attribute = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH
    assert machine.cuDeviceGetAttribute(attribute, 0) == 0
    assert Machine().cuDeviceGetAttribute(attribute, 0) == 1


def test_occupancy_of_clusters() -> None:
    machine = Machine(model="h100")
    module = machine.cuModuleLoadData(ptx(WHERE + DECLARED, architecture="compute_90"))
    where, declared = (machine.cuModuleGetFunction(module, name) for name in (b"where", b"declared"))
    machine.cuFuncSetAttribute(where, SET.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 << 10)
    full = 200 << 10
    for size, at_once in ((1, 132), (2, 66), (4, 32), (8, 16)):
        answer = machine.cuOccupancyMaxActiveClusters(where, config((16, 1, 1), 128, (size, 1, 1), full))
        assert answer == at_once
    assert machine.cuOccupancyMaxPotentialClusterSize(where, config((16, 1, 1), 128, None)) == 8
    machine.cuFuncSetAttribute(where, SET.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
    assert machine.cuOccupancyMaxPotentialClusterSize(where, config((16, 1, 1), 128, None)) == 16
    assert machine.cuOccupancyMaxPotentialClusterSize(declared, config((16, 1, 1), 128, None)) == 2
    assert machine.cuOccupancyMaxActiveClusters(declared, config((16, 1, 1), 1024, None)) == 132
    answer = machine.status("cuOccupancyMaxActiveClusters", where, config((16, 1, 1), 128, None))
    assert answer == "INVALID_CLUSTER_SIZE"
