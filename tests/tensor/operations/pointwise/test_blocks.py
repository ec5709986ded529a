"""NumPy forms with several steps are computed block by block for large tensors; the blocks must not show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import nn
import tensor
from nvrtc_kernels import host_loops
from tensor.core.devices.state import cpu
from tensor.operations import pointwise_operation as pointwise

SIZE = 2 * pointwise._BLOCK + 1001


@pytest.fixture(autouse=True)
def numpy_alone() -> Iterator[None]:
    """Native loops have no blocks."""
    former = host_loops.mode()
    cpu.plans.clear()
    host_loops.set_mode("off")
    yield
    cpu.plans.clear()
    host_loops.set_mode(former)


def _into_second(function, first, second, third):
    """The result, written to the second operand."""
    return function(first, second, third, out=second)


def _gradient(x, grad):
    """Sum of the gradients of activations whose backward forms write to an output."""
    total = 0
    for function in ("relu", "relu6", "sigmoid", "silu", "gelu", "leaky_relu", "hardswish", "softplus"):
        leaf = x.clone().requires_grad_()
        getattr(nn.functional, function)(leaf).backward(grad)
        total = total + leaf.grad
    return total


#: Functions of ``(x, y, mask)``.
CALLS = {
    "gelu": lambda x, y, mask: nn.functional.gelu(x),
    "erf": lambda x, y, mask: x.erf(),
    "add": lambda x, y, mask: x + y,
    "exp out of another type": lambda x, y, mask: tensor.exp(x, out=tensor.empty(0, dtype=tensor.bfloat16)),
    "addcmul": lambda x, y, mask: tensor.addcmul(x, x, y, value=2),
    "lerp": lambda x, y, mask: tensor.lerp(x, y, 0.25),
    "xlogy": lambda x, y, mask: tensor.xlogy(x, y.abs()),
    "where": lambda x, y, mask: tensor.where(mask, x, y),
    "lerp_": lambda x, y, mask: x.clone().lerp_(y, 0.5),
    "out of another type": lambda x, y, mask: tensor.xlogy(
        x, y.abs(), out=tensor.empty(0, dtype=tensor.float64)
    ),
    "two types": lambda x, y, mask: tensor.xlogy(x, y.double().abs()),
    "erf_": lambda x, y, mask: x.clone().erf_(),
    "silu in place": lambda x, y, mask: nn.functional.silu(x.clone(), inplace=True),
    "sigmoid_": lambda x, y, mask: x.clone().sigmoid_(),
    "relu_": lambda x, y, mask: x.clone().relu_(),
    "clamp_": lambda x, y, mask: x.clone().clamp_(-0.5, 0.5),
    "clamp by itself": lambda x, y, mask: _into_second(tensor.clamp, y, x.clone(), y + 1),
    "gelu out of another type": lambda x, y, mask: tensor.erf(x, out=tensor.empty(0, dtype=tensor.float64)),
    "gradients": lambda x, y, mask: _gradient(x, y),
    "number": lambda x, y, mask: tensor.xlogy(2, y.abs()),
    "sign": lambda x, y, mask: x.masked_fill(mask, 0.0).sign(),
    "round": lambda x, y, mask: (4 * x).round(),
    "cube": lambda x, y, mask: x**3,
    "addcdiv": lambda x, y, mask: tensor.addcdiv(x, x, y, value=2),
    "one limit": lambda x, y, mask: x.clamp(min=-0.5) + y.clamp(max=0.5),
    "nan_to_num": lambda x, y, mask: tensor.nan_to_num(x / y.masked_fill(mask, 0.0), 2.0, 3.0, 4.0),
    "prelu": lambda x, y, mask: nn.functional.prelu(x, tensor.tensor([0.25], dtype=x.dtype)),
    "prelu of a large slope": lambda x, y, mask: nn.functional.prelu(x, tensor.tensor([2.5], dtype=x.dtype)),
    "threshold": lambda x, y, mask: nn.functional.threshold(x, 0.25, 2.0),
    "huber": lambda x, y, mask: nn.functional.huber_loss(x, y, "none", 0.7),
    "smooth_l1": lambda x, y, mask: nn.functional.smooth_l1_loss(x, y, reduction="none", beta=0.7),
}


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float64, tensor.float16], ids=str)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.sampled(4)
def test_large_tensors_are_computed_as_small_ones(name, dtype):
    tensor.manual_seed(1)
    x, y = tensor.randn(SIZE, dtype=dtype), tensor.randn(SIZE, dtype=dtype)
    mask = tensor.rand(SIZE) < 0.5
    whole = CALLS[name](x, y, mask)
    pieces = [
        CALLS[name](*parts) for parts in zip(x.split(1000), y.split(1000), mask.split(1000), strict=True)
    ]
    assert whole.dtype is pieces[0].dtype
    assert tensor.equal(whole, tensor.cat(pieces))


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_target_that_overlaps_the_operand_partly_is_refused(shift):
    memory = tensor.randn(SIZE + 1)
    first, second = memory[:-1], memory[1:]
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        tensor.erf(*((first, second)[::shift][:1]), out=(first, second)[::shift][1])


def test_special_values_of_large_tensors():
    x = tensor.randn(SIZE)
    x[:6] = tensor.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), -40.0])
    gelu = nn.functional.gelu(x)
    assert gelu[:3].tolist() == [0.0, 0.0, float("inf")]
    assert tensor.signbit(gelu[:6]).tolist()[1::4] == [True, True]
    assert gelu[3:5].isnan().all() and gelu[5] == 0
    assert tensor.erf(x)[1:4].tolist() == [0.0, 1.0, -1.0] and tensor.signbit(tensor.erf(x)[1])
    assert tensor.erf(x)[4].isnan() and nn.functional.relu(x)[4].isnan()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.sampled(4)
def test_stretched_operands_and_gaps_are_computed_as_contiguous_ones(name):
    """By rows, unless the result lies where an operand does."""
    tensor.manual_seed(1)
    wide, mask = tensor.randn(700, 200), tensor.rand(700, 100) < 0.5
    column, expanded = tensor.randn(700, 1), tensor.randn(1, 100).expand(700, 100)
    for x, y in (
        (wide[:, 30:130], column.expand(700, 100)),
        (expanded, wide[:, ::2]),
        (wide[:, 100:], wide[:, :100]),
    ):
        result = CALLS[name](x, y, mask)
        assert tensor.equal(result, CALLS[name](x.contiguous(), y.contiguous(), mask))
    square, other = tensor.randn(2, 300, 300)
    expected = tensor.lerp(square, other.t().contiguous(), 0.25)
    assert tensor.equal(square.lerp_(other.t(), 0.25), expected)


def test_other_orders_of_elements_are_computed_too():
    x = tensor.randn(SIZE // 100, 100)
    assert tensor.equal(nn.functional.gelu(x.t()), nn.functional.gelu(x).t())
    assert tensor.equal(tensor.lerp(x, x[0], 0.5), tensor.stack([tensor.lerp(row, x[0], 0.5) for row in x]))


@pytest.mark.parametrize(
    "function",
    [
        tensor.logit, tensor.erfinv, tensor.erfc, tensor.special.ndtri, tensor.special.ndtr, nn.functional.softplus,
        nn.functional.logsigmoid, nn.functional.mish, nn.functional.hardswish, nn.functional.softshrink,
        lambda x: nn.functional.softplus(x, 2.0, 1e30), lambda x: tensor.logaddexp(x, x), lambda x: tensor.logaddexp(x, -x),
        lambda x: tensor.logaddexp2(x, x), lambda x: tensor.logaddexp2(x, -x),
        lambda x: nn.functional.huber_loss(x, -x, "none", 0.7), lambda x: nn.functional.smooth_l1_loss(x, -x, reduction="none"),
        lambda x: tensor.lerp(x, -x, x), tensor.frac, tensor.sigmoid, nn.functional.silu, tensor.special.log_ndtr,
        tensor.special.i0, tensor.special.i0e, tensor.special.i1, tensor.special.i1e, nn.functional.hardshrink,
        lambda x: nn.functional.threshold(x, 0.1, 20.0), nn.functional.hardsigmoid, tensor.sign, tensor.relu,
    ],
)  # fmt: skip
def test_special_values_are_those_of_few_elements(function):
    inf, nan = float("inf"), float("nan")
    x = tensor.tensor(
        [0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 0.5, -0.5, 100.0, -100.0, 3e38, -3e38, 1e-45, -1e-45, 0.25]
    )
    few, many = function(x), function(x.repeat(SIZE // 16))
    for row in many.view(-1, 16)[:: SIZE // 200]:
        tensor.testing.assert_close(row, few, rtol=1e-6, atol=0, equal_nan=True)
        zeros = few == 0
        assert tensor.equal(tensor.signbit(row[zeros]), tensor.signbit(few[zeros]))
