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
@pytest.mark.sampled(4)
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


def test_bernoulli_with_a_probability_for_each(device: drv.Device) -> None:
    p = tensor.tensor([0.0, 0.25, 0.5, 1.0])
    expected = tensor.empty(500, 4, dtype=dtypes.uint8)
    tensor.manual_seed(4)
    expected.bernoulli_(p)
    for where in ("cpu", "cuda"):
        for kind in FLOATS:
            target = tensor.empty(4, 500, dtype=dtypes.uint8, device=where).t()
            tensor.manual_seed(4)
            before = target._version
            assert target.bernoulli_(p.to(where, kind)) is target
            assert target._version == before + 1
            assert_same_bits(target, expected)
    sums = expected.numpy().sum(axis=0, dtype=int)
    assert sums[0] == 0
    assert sums[3] == 500
    assert 90 < sums[1] < 160
    assert 210 < sums[2] < 290


def test_one_probability_on_the_cpu_serves_every_device(device: drv.Device) -> None:
    for p in (tensor.tensor(1.0), tensor.tensor(1.0, dtype=dtypes.float64)):
        assert tensor.zeros(3, device="cuda").bernoulli_(p).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="cuda:0 and cpu"):
        tensor.zeros(3, device="cuda").bernoulli_(tensor.ones(3))
    with pytest.raises(RuntimeError, match="cpu and cuda:0"):
        tensor.zeros(3).bernoulli_(tensor.ones((), device="cuda"))


def test_a_probability_of_a_device_outside_its_range(device: drv.Device) -> None:
    if not device.runtime.simulated:
        pytest.skip("a failed assertion ends a GPU's context")
    with pytest.raises(drv.DeviceAssertError):
        tensor.zeros(2, device="cuda").bernoulli_(tensor.tensor([0.5, 1.5], device="cuda"))
        device.synchronize()


def test_a_part_of_a_call_is_that_of_a_larger_one(device: drv.Device) -> None:
    generator = tensor.Generator().manual_seed(2)
    long = tensor.empty(1000).normal_(generator=generator)
    generator.manual_seed(2)
    short = tensor.empty(10).normal_(generator=generator)
    assert short.tolist() == long.tolist()[:10]


def test_generators(device: drv.Device) -> None:
    on_cpu, on_cuda = tensor.Generator().manual_seed(6), tensor.Generator("cuda").manual_seed(6)
    default = tensor.get_rng_state().tolist()
    one = tensor.empty(9).uniform_(generator=on_cpu)
    other = tensor.empty(9, device="cuda").uniform_(generator=on_cuda)
    assert_same_bits(one, other)
    assert tensor.get_rng_state().tolist() == default
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        one.uniform_(generator=on_cuda)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        other.normal_(generator=on_cpu)
    with pytest.raises(TypeError, match="must be tensor.Generator, not int"):
        one.random_(generator=7)
    assert one._version == 1


def test_each_device_has_its_own_default(two_devices: tuple[drv.Device, drv.Device]) -> None:
    tensor.manual_seed(1)
    zero, one = tensor.empty(5, device="cuda:0"), tensor.empty(5, device="cuda:1")
    zero.normal_()
    one.normal_()
    assert zero.tolist() == one.tolist()
    zero.normal_()
    assert zero.tolist() != one.tolist()


def test_names_of_arguments() -> None:
    x = tensor.empty(4)
    assert set(x.uniform_(**{"from": 2, "to": 2}).tolist()) == {2}
    assert set(x.random_(**{"from": 3, "to": 4}).tolist()) == {3}
    assert set(x.random_(3, to=4).tolist()) == {3}
    assert set(x.random_(to=1).tolist()) == {0}
    assert set(x.normal_(mean=5, std=0).tolist()) == {5}
    assert set(x.exponential_(lambd=float("inf")).tolist()) == {0}
    for arguments, named in (
        ((1, 2, 3), {}),
        ((), {"from": 1}),
        ((1,), {"from": 1}),
        ((None,), {}),
        ((), {"low": 1}),
    ):
        with pytest.raises(TypeError):
            x.random_(*arguments, **named)
    with pytest.raises(TypeError):
        x.uniform_(low=1)


@pytest.mark.parametrize(
    ("kind", "greatest"),
    [
        (dtypes.bool_, 1), (dtypes.uint8, 255), (dtypes.int8, 127), (dtypes.int16, 2**15 - 1),
        (dtypes.int32, 2**31 - 1), (dtypes.int64, 2**63 - 1), (dtypes.float16, 2**11),
        (dtypes.bfloat16, 2**8), (dtypes.float32, 2**24), (dtypes.float64, 2**53),
    ],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_the_range_of_random(kind: dtypes.dtype, greatest: int) -> None:
    tensor.manual_seed(5)
    drawn = tensor.empty(20_000, dtype=kind).random_().numpy().astype(np.float64)
    assert 0 <= drawn.min() <= greatest / 100
    assert greatest * 0.99 <= drawn.max() <= greatest
    assert abs(drawn.mean() - greatest / 2) < greatest / 50


def test_random_of_all_64_bits(device: drv.Device) -> None:
    for where in ("cpu", "cuda"):
        tensor.manual_seed(5)
        x = tensor.empty(1000, dtype=dtypes.int64, device=where).random_(-(2**63), None).cpu().numpy()
        assert x.min() < -(2**62)
        assert x.max() > 2**62


@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.name)
def test_rounding_leads_to_no_number_outside(device: drv.Device, kind: dtypes.dtype) -> None:
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[kind.name]
    low, high = (1 << digits) + 1, (1 << digits) + 7
    for where in ("cpu", "cuda"):
        x = tensor.empty(200, dtype=kind, device=where)
        with pytest.warns(UserWarning, match="out of bounds"):
            x.random_(low, high)
        assert set(x.tolist()) == {float(low + step) for step in (1, 3, 5)}
        with pytest.warns(UserWarning, match="out of bounds"):
            x.random_(-high, -low)
        assert set(x.tolist()) == {-float(low + step) for step in (1, 3, 5)}
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="holds no number"):
        x.random_(low, low + 1)


def test_empty_tensors(device: drv.Device) -> None:
    for where in ("cpu", "cuda"):
        x = tensor.empty(3, 0, device=where)
        assert x.normal_() is x
        assert x.bernoulli_(tensor.ones((), device=where)) is x
        with pytest.raises(RuntimeError, match="std >= 0"):
            x.normal_(0, -1)


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_elements_that_share_memory(device: drv.Device, where: str) -> None:
    x = tensor.zeros(1, device=where)
    for fill in ("normal_", "bernoulli_", "random_"):
        with pytest.raises(RuntimeError, match="more than one element"):
            getattr(x.expand(3), fill)()
    with pytest.raises(RuntimeError, match="more than one element"):
        x.expand(3).bernoulli_(tensor.ones(3, device=where))
    assert x.tolist() == [0]
    assert x._version == 0
