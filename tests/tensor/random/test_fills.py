"""Tensors filled with random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import dtypes

FLOATS = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
COMPLEX = [dtypes.complex64, dtypes.complex128]
INTEGERS = [dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64]
BOOL = [dtypes.bool_]

#: Method, arguments, dtypes.
FILLS = [
    ("uniform_", (), FLOATS + COMPLEX),
    ("uniform_", (-2.5, 3.0), FLOATS + COMPLEX),
    ("normal_", (), FLOATS + COMPLEX),
    ("normal_", (1.5, 0.5), FLOATS + COMPLEX),
    ("log_normal_", (0.5, 0.75), FLOATS),
    ("exponential_", (1.5,), FLOATS),
    ("cauchy_", (0.5, 2.0), FLOATS),
    ("geometric_", (0.25,), FLOATS + INTEGERS),
    ("random_", (), FLOATS + INTEGERS + BOOL),
    ("random_", (100,), FLOATS + INTEGERS),
    ("random_", (3, 17), FLOATS + INTEGERS),
    ("bernoulli_", (), FLOATS + INTEGERS + BOOL),
    ("bernoulli_", (0.3,), FLOATS + INTEGERS + BOOL),
]
CASES = [(name, arguments, kind) for name, arguments, kinds in FILLS for kind in kinds]


def assert_same_bits(found: tensor.Tensor, expected: tensor.Tensor) -> None:
    assert found.dtype is expected.dtype
    assert found.shape == expected.shape
    one, other = (np.ascontiguousarray(each.cpu().numpy()).view(np.uint8) for each in (found, expected))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "arguments", "kind"), CASES, ids=lambda value: getattr(value, "name", str(value))
)
def test_the_same_bits_everywhere(
    device: drv.Device, name: str, arguments: tuple, kind: dtypes.dtype
) -> None:
    targets = [
        tensor.empty(7, 9, dtype=kind),
        tensor.empty(7, 9, dtype=kind, pin_memory=True),
        tensor.empty(9, 7, dtype=kind).t(),
        tensor.empty(7, 9, dtype=kind, device="cuda"),
        tensor.empty(9, 7, dtype=kind, device="cuda").t(),
        tensor.zeros(7, 30, dtype=kind, device="cuda")[:, 2:20:2],
    ]
    for target in targets:
        tensor.manual_seed(11)
        before = target._version
        assert getattr(target, name)(*arguments) is target
        assert target._version == before + 1
    for target in targets[1:]:
        assert_same_bits(target, targets[0])
    # Two calls differ; so after one that drew the same, another does not.
    getattr(targets[0], name)(*arguments)
    assert_same_bits(targets[0], targets[1])
    getattr(targets[0], name)(*arguments)
    assert (targets[0].numpy() != targets[1].numpy()).any()
