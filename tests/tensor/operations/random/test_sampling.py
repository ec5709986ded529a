"""Random numbers whose parameters are tensors."""

from __future__ import annotations

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import dtypes

from .test_fills import COMPLEX, FLOATS, assert_same_bits


@pytest.mark.parametrize("kind", FLOATS + COMPLEX, ids=repr)
@pytest.mark.sampled(4)
def test_normal_is_the_same_everywhere(device: drv.Device, kind: dtypes.dtype) -> None:
    mean = tensor.linspace(-3, 5, 12, dtype=dtypes.float64).reshape(4, 3).to(kind)
    if kind.is_complex:
        mean.imag.copy_(tensor.linspace(1, 2, 12).reshape(4, 3))
    std = tensor.tensor([0.0, 0.5, 1.75], dtype=kind.to_real())
    forms = [
        (mean, std),
        (mean, std.to(dtypes.float64)),
        (mean, 0.75),
        (mean, tensor.tensor(2.0)),
        (mean.t().contiguous().t(), std),
        (mean[:, 1], tensor.ones(2, 1, dtype=kind.to_real())),
    ]
    if not kind.is_complex:
        forms += [(1.5, std), (0, std.expand(5, 3))]
    for first, second in forms:
        tensor.manual_seed(12)
        on_cpu = tensor.normal(first, second)
        argument = (each.to("cuda") if isinstance(each, tensor.Tensor) else each for each in (first, second))
        on_cuda = tensor.normal(*argument)
        assert on_cpu.dtype is kind
        assert on_cpu.is_contiguous()
        assert on_cuda.is_contiguous()
        assert_same_bits(on_cuda, on_cpu)


def test_normal_follows_its_parameters(device: drv.Device) -> None:
    for where in ("cpu", "cuda"):
        z = tensor.randn(1000, generator=tensor.Generator(where).manual_seed(3), device=where).cpu().numpy()
        mean, std = tensor.arange(1000.0, device=where), tensor.arange(1000.0, device=where)
        drawn = tensor.normal(mean, std, generator=tensor.Generator(where).manual_seed(3))
        steps = np.arange(1000, dtype=np.float32)
        np.testing.assert_array_equal(drawn.cpu().numpy(), z * steps + steps)
        out = tensor.empty(0, device=where)
        assert tensor.normal(mean, std, generator=tensor.Generator(where).manual_seed(3), out=out) is out
        assert_same_bits(out, drawn)


def test_normal_on_a_device_finds_negative_deviations(device: drv.Device) -> None:
    with pytest.raises(RuntimeError, match="cuda:0 and cpu"):
        tensor.normal(tensor.ones(2, device="cuda"), tensor.ones(2))
    for std in ([1.0, -1.0], [1.0, float("nan")]):
        with pytest.raises(RuntimeError, match="std >= 0"):
            tensor.normal(0.0, tensor.tensor(std, device="cuda"))
    # The context is not lost.
    device.synchronize()
    assert tensor.normal(0.0, tensor.zeros(2, device="cuda")).tolist() == [0, 0]


def test_bernoulli(device: drv.Device) -> None:
    p = tensor.tensor([[0.0, 0.5], [1.0, 0.25]]).expand(300, 2, 2)
    tensor.manual_seed(2)
    on_cpu, on_cuda = tensor.bernoulli(p), tensor.bernoulli(p.cuda())
    assert on_cpu.is_contiguous()
    assert on_cpu.dtype is dtypes.float32
    assert_same_bits(on_cuda, on_cpu)
    sums = on_cpu.numpy().sum(axis=0)
    assert sums[0, 0] == 0
    assert sums[1, 0] == 300
    assert 110 < sums[0, 1] < 190
    assert 40 < sums[1, 1] < 110
    assert p.bernoulli().shape == p.shape
    whole = tensor.zeros(100, dtype=dtypes.int64)
    drawn = tensor.bernoulli(whole, 0.5)
    assert drawn.dtype is dtypes.int64
    assert 20 < drawn.numpy().sum() < 80
    assert not any(whole.tolist())
    out = tensor.empty(0, dtype=dtypes.int32)
    tensor.manual_seed(2)
    assert tensor.bernoulli(p, out=out) is out
    assert out.tolist() == on_cpu.tolist()
    with pytest.raises(RuntimeError, match="cpu and cuda:0"):
        tensor.bernoulli(p, out=tensor.empty(0, device="cuda"))


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("kind", FLOATS, ids=repr)
def test_multinomial(device: drv.Device, kind: dtypes.dtype, replacement: bool) -> None:
    weights = tensor.tensor([[0.0, 1, 2, 0, 5, 1], [3.0, 1, 0, 1, 2, 1]], dtype=kind)
    tensor.manual_seed(5)
    on_cpu = tensor.multinomial(weights, 4, replacement)
    on_cuda = weights.cuda().multinomial(4, replacement)
    assert on_cpu.dtype is dtypes.int64
    assert on_cpu.shape == (2, 4)
    assert_same_bits(on_cuda, on_cpu)
    assert (np.take_along_axis(weights.numpy(), on_cpu.numpy(), 1) > 0).all()
    if not replacement:
        assert all(len(set(row)) == 4 for row in on_cpu.tolist())
    tensor.manual_seed(5)
    turned = weights.t().contiguous().t()
    assert_same_bits(tensor.multinomial(turned, 4, replacement), on_cpu)
    for where in ("cpu", "cuda"):
        out = tensor.empty(7, dtype=dtypes.int64, device=where)
        tensor.manual_seed(5)
        assert tensor.multinomial(weights.to(where), 4, replacement, out=out) is out
        assert_same_bits(out, on_cpu)


def test_shapes_of_multinomial() -> None:
    assert tensor.multinomial(tensor.ones(3), 2).shape == (2,)
    assert tensor.multinomial(tensor.ones(0, 3), 2).shape == (0, 2)
    assert tensor.multinomial(tensor.tensor([0.0, 7, 0]), 1).tolist() == [1]
    assert tensor.multinomial(tensor.tensor([0.0, 7, 0]), 3, replacement=True).tolist() == [1, 1, 1]
    assert sorted(tensor.multinomial(tensor.ones(5), 5).tolist()) == [0, 1, 2, 3, 4]


def test_multinomial_draws_no_weight_of_zero() -> None:
    with pytest.raises(RuntimeError, match="not enough non-negative category to sample"):
        tensor.multinomial(tensor.tensor([0.0, 1, 2]), 3)


@pytest.mark.simulator_only
def test_multinomial_waits_for_its_weights() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    weights = tensor.zeros(4, device="cuda")
    weights[2:3].fill_(1)
    assert weights.multinomial(1).tolist() == [2]
