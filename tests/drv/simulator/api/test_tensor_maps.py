"""What ``cuTensorMap*`` accept."""

from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

FLOAT32 = cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32
RIGHT: dict[str, Any] = {
    "data_type": FLOAT32, "rank": 3, "address": 0, "sizes": [32, 8, 4], "strides": [128, 1024], "box": [16, 4, 2],
    "steps": [1, 1, 1], "interleave": 0, "swizzle": 0, "promotion": 0, "fill": 0,
}  # fmt: skip


def status(machine: Machine, **changes: Any) -> str:
    values = RIGHT | {"address": machine.device_memory(1 << 16)} | changes
    for name, kind in (
        ("sizes", cuda.cuuint64_t),
        ("strides", cuda.cuuint64_t),
        ("box", cuda.cuuint32_t),
        ("steps", cuda.cuuint32_t),
    ):
        values[name] = [kind(each) for each in values[name]]
    for name in ("interleave", "swizzle", "promotion", "fill"):
        enum = {
            "interleave": "CUtensorMapInterleave",
            "swizzle": "CUtensorMapSwizzle",
            "promotion": "CUtensorMapL2promotion",
            "fill": "CUtensorMapFloatOOBfill",
        }
        values[name] = getattr(cuda, enum[name])(values[name])
    return machine.status("cuTensorMapEncodeTiled", *values.values())


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, "SUCCESS"),
        ({"rank": 0}, "INVALID_VALUE"),
        ({"rank": 6}, "INVALID_VALUE"),
        ({"address": 8}, "INVALID_VALUE"),
        ({"address": 0}, "INVALID_VALUE"),
        ({"sizes": [32, 0, 4]}, "INVALID_VALUE"),
        ({"sizes": [1 << 32, 8, 4]}, "SUCCESS"),
        ({"sizes": [(1 << 32) + 1, 8, 4]}, "INVALID_VALUE"),
        ({"strides": [100, 1024]}, "INVALID_VALUE"),
        ({"strides": [128, 1 << 40]}, "INVALID_VALUE"),
        ({"box": [257, 4, 2]}, "INVALID_VALUE"),
        ({"box": [6, 4, 2]}, "INVALID_VALUE"),
        ({"box": [16, 0, 2]}, "INVALID_VALUE"),
        ({"steps": [1, 9, 1]}, "INVALID_VALUE"),
        ({"steps": [1, 0, 1]}, "INVALID_VALUE"),
        ({"swizzle": 2}, "SUCCESS"),
        ({"swizzle": 1}, "INVALID_VALUE"),
        ({"swizzle": 3, "box": [32, 4, 2]}, "SUCCESS"),
        ({"interleave": 1}, "SUCCESS"),
        ({"interleave": 1, "rank": 2}, "INVALID_VALUE"),
        ({"interleave": 2}, "INVALID_VALUE"),
        ({"interleave": 2, "swizzle": 1}, "SUCCESS"),
        ({"fill": 1}, "SUCCESS"),
        ({"fill": 1, "data_type": cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_INT32}, "INVALID_VALUE"),
        ({"data_type": cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B}, "INVALID_VALUE"),
    ],
)
def test_tiled_maps(machine: Machine, changes: dict[str, Any], answer: str) -> None:
    assert status(machine, **changes) == answer


def test_devices_without_tensor_maps() -> None:
    machine = Machine(capability=(8, 9))
    assert status(machine) == "NOT_SUPPORTED"
    attribute = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED
    assert machine.cuDeviceGetAttribute(attribute, 0) == 0


def test_corners_of_im2col_maps(machine: Machine) -> None:
    def answer(lower: list[int], upper: list[int], channels: int = 8, pixels: int = 64, rank: int = 4) -> str:
        return machine.status(
            "cuTensorMapEncodeIm2col",
            FLOAT32,
            rank,
            machine.device_memory(1 << 16),
            [cuda.cuuint64_t(each) for each in (16, 8, 8, 2, 2)],
            [cuda.cuuint64_t(each) for each in (64, 512, 4096, 8192)],
            lower,
            upper,
            channels,
            pixels,
            [cuda.cuuint32_t(1)] * 5,
            cuda.CUtensorMapInterleave(0),
            cuda.CUtensorMapSwizzle(0),
            cuda.CUtensorMapL2promotion(0),
            cuda.CUtensorMapFloatOOBfill(0),
        )

    assert answer([-1, -1], [-1, -1]) == "SUCCESS"
    assert answer([-129, -1], [-1, -1]) == "INVALID_VALUE"
    assert answer([-1], [-1, -1]) == "INVALID_VALUE"
    assert answer([4, 0], [-4, 0]) == "INVALID_VALUE"
    assert answer([-1, -1], [-1, -1], channels=257) == "INVALID_VALUE"
    assert answer([-1, -1], [-1, -1], pixels=1025) == "INVALID_VALUE"
    assert answer([-1, -1], [-1, -1], rank=2) == "INVALID_VALUE"
    assert answer([-16, -1, 0], [-1, -1, 0], rank=5) == "SUCCESS"


def test_another_address(machine: Machine) -> None:
    memory = machine.device_memory(1 << 16)
    tensor_map = machine.cuTensorMapEncodeTiled(
        FLOAT32,
        1,
        memory,
        [cuda.cuuint64_t(64)],
        [],
        [cuda.cuuint32_t(16)],
        [cuda.cuuint32_t(1)],
        cuda.CUtensorMapInterleave(0),
        cuda.CUtensorMapSwizzle(0),
        cuda.CUtensorMapL2promotion(0),
        cuda.CUtensorMapFloatOOBfill(0),
    )
    before = [int(each) for each in tensor_map.opaque]
    machine.cuTensorMapReplaceAddress(tensor_map, memory + 256)
    assert [int(each) for each in tensor_map.opaque] != before
    machine.cuTensorMapReplaceAddress(tensor_map, memory)
    assert [int(each) for each in tensor_map.opaque] == before
    assert machine.status("cuTensorMapReplaceAddress", tensor_map, memory + 8) == "INVALID_VALUE"
    assert machine.status("cuTensorMapReplaceAddress", cuda.CUtensorMap(), memory) == "INVALID_VALUE"
