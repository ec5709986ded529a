"""Tensor maps that kernels change, and the fences that hand the changes to copies."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import MBARRIERS, Device, counted, line_of, raced_lines

pytestmark = pytest.mark.simulator_only

SOURCE = (
    MBARRIERS
    + r"""
#define REPLACE(field, type, letter, value) asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type " [%0], %1;" \
    :: "r"(shared(&own)), letter(value) : "memory")
#define REPLACE_AT(field, at, type, letter, value) asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type " [%0], " at ", %1;" \
    :: "r"(shared(&own)), letter(value) : "memory")
extern "C" __global__ void changes(const TensorMap* pattern, TensorMap* map, const float* base, float* out) {
    __shared__ alignas(128) TensorMap own;
    __shared__ alignas(1024) float cells[64];
    __shared__ u64 full;
    if (threadIdx.x == 0) { own = *pattern; init(&full, 1); fence_async(); }
    __syncwarp();
    if (threadIdx.x == 0) {
        REPLACE("global_address", "b64", "l", base);
        REPLACE("rank", "b32", "r", 1);
        REPLACE_AT("box_dim", "0", "b32", "r", 16); REPLACE_AT("box_dim", "1", "b32", "r", 4);
        REPLACE_AT("global_dim", "0", "b32", "r", 40); REPLACE_AT("global_dim", "1", "b32", "r", 7);
        REPLACE_AT("global_stride", "0", "b64", "l", 160ull);
        REPLACE_AT("element_stride", "0", "b32", "r", 1); REPLACE_AT("element_stride", "1", "b32", "r", 2);
        asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 7;" :: "r"(shared(&own)) : "memory");
        asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" :: "r"(shared(&own)) : "memory");
        asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 2;" :: "r"(shared(&own)) : "memory");
        asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 1;" :: "r"(shared(&own)) : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
        :: "l"(map), "r"(shared(&own)) : "memory");
    if (threadIdx.x == 0) {
        FENCE;
        expect(&full, 128);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
            :: "r"(shared(cells)), "l"(map), "r"(28), "r"(3), "r"(shared(&full)) : "memory");
    }
    __syncwarp();
    wait(&full, 0);
    out[threadIdx.x] = cells[threadIdx.x];
}
"""
)
FENCE = 'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory")'


def launch(device: Device, fence: str, source: str = SOURCE) -> tuple:
    array = counted((7, 40))
    pattern = device.memory(
        np.frombuffer(device.tensor_map(device.memory(np.zeros(64, np.uint16)), (64,), (8,), "u16"), np.uint8)
    )
    out = device.memory(np.zeros(32, np.float32))
    findings = device.launch(
        source.replace("FENCE;", fence),
        "changes",
        1,
        32,
        np.uint64(pattern),
        np.uint64(device.memory(np.zeros(128, np.uint8))),
        np.uint64(device.memory(array)),
        np.uint64(out),
    )
    expected = np.full((2, 16), np.nan, np.float32)
    expected[:, :12] = array[3:6:2, 28:]
    return findings, device.read(out, np.zeros((2, 16), np.float32)), expected


def test_a_map_may_be_made_of_nothing_but_zeros() -> None:
    made_of_zeros = SOURCE.replace("own = *pattern;", "own = TensorMap{};")
    assert made_of_zeros != SOURCE
    findings, got, expected = launch(Device(), FENCE + ";", made_of_zeros)
    assert findings == ()
    np.testing.assert_array_equal(got, expected)


def test_every_field_of_a_map() -> None:
    findings, got, expected = launch(Device(), FENCE + ";")
    assert findings == ()
    # The first line of 128 bytes is as it is under every swizzle.
    np.testing.assert_array_equal(got, expected)


def test_a_change_that_no_fence_hands_over() -> None:
    findings, *_ = launch(Device(), "")
    lines = line_of(SOURCE, "tensormap.cp_fenceproxy"), line_of(SOURCE, "cp.async.bulk.tensor.2d")
    assert raced_lines(findings) == {lines}
    assert "fence.proxy.tensormap::generic.acquire" in str(findings[0])


def test_a_value_that_a_field_cannot_have() -> None:
    device = Device()
    source = SOURCE.replace('REPLACE("rank", "b32", "r", 1)', 'REPLACE("rank", "b32", "r", 5)').replace(
        "FENCE;", ""
    )
    pattern = device.memory(
        np.frombuffer(device.tensor_map(device.memory(np.zeros(64, np.uint16)), (64,), (8,), "u16"), np.uint8)
    )
    memory = [np.uint64(device.memory(np.zeros(1024, np.uint8))) for _ in range(3)]
    with pytest.raises(AssertionError, match="ILLEGAL_INSTRUCTION"):
        device.launch(source, "changes", 1, 32, np.uint64(pattern), *memory)
    assert "gives the field rank of a tensor map the value 5" in device.machine.driver.fault_report()
