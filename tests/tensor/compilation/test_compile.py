"""Compiled functions give what they give uncompiled: values, gradients, random numbers, writes; and in fewer launches."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import drv
import nn
import tensor
from nn import functional
from tensor.func import functional_call, grad, jvp, vmap

if TYPE_CHECKING:
    from collections.abc import Callable


_functional_call: Any = functional_call


def _chain(x: Any, y: Any) -> Any:
    return (x * y + 1.5).relu() * x.sigmoid()


class _Net(nn.Module):
    """Layers of several families, with a buffer that each call in training writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        hidden = functional.gelu(self.norm(self.first(x)))
        return functional.log_softmax(self.second(self.drop(hidden)) * 0.5, -1)


@pytest.fixture
def gpu(device: drv.Device) -> str:
    """What ``device=`` gets."""
    return "cuda"


def _twice(function: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """What the first call gives, which records, and the second."""
    return function(*args), function(*args)


def test_values_and_launches(gpu: str) -> None:
    x, y = tensor.randn(5, 7, device=gpu), tensor.randn(7, device=gpu)
    compiled = tensor.compile(_chain, fullgraph=True)
    for result in _twice(compiled, x, y):
        tensor.testing.assert_close(result, _chain(x, y))
    text = compiled.explain(x, y)
    # An operand of 140 bytes and one of 28, and a result; of five operations, all of their operands and results.
    assert text.startswith(
        "forward: 5 operations in 1 calls, which read and write 308 bytes instead of 1,568\n  fused_mul_add_relu_sigmoid"
    ), text
    source = compiled.sources(x, y)
    assert "// sigmoid, test_compile.py:" in source
    assert "1 / (1 + exp(-a))" in source


def test_another_value_of_the_same_layout(gpu: str) -> None:
    compiled = tensor.compile(_chain)
    y = tensor.randn(7, device=gpu)
    for seed in range(3):
        x = tensor.full((2, 7), float(seed), device=gpu)
        tensor.testing.assert_close(compiled(x, y), _chain(x, y))
    assert compiled.programs == 1


@pytest.mark.parametrize("dtype", [tensor.float16, tensor.bfloat16, tensor.float64, tensor.int32])
@pytest.mark.sampled(4)
def test_values_between_are_rounded_to_their_dtypes(gpu: str, dtype: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        return ((x * y - x) * 3 + y).clamp(max=50), (x > y).to(x.dtype) * x

    x, y = (tensor.randint(-9, 9, (4, 33), device=gpu).to(dtype) for _ in range(2))
    compiled = tensor.compile(function, fullgraph=True)
    for result in _twice(compiled, x, y):
        for one, other in zip(result, function(x, y), strict=True):
            assert one.dtype is other.dtype
            tensor.testing.assert_close(one, other)


def test_gradients(gpu: str) -> None:
    def function(x: Any, w: Any, y: Any) -> Any:
        hidden = (x @ w).tanh()
        return (hidden * hidden + y).softmax(-1), hidden.sum(0)

    operands = [tensor.randn(*shape, device=gpu, requires_grad=True) for shape in ((4, 6), (6, 5), (5,))]
    seeds = [tensor.randn(4, 5, device=gpu), tensor.randn(5, device=gpu)]
    compiled = tensor.compile(function, fullgraph=True)
    expected = tensor.autograd.grad(function(*operands), operands, seeds)
    for _ in range(3):
        for one, other in zip(
            tensor.autograd.grad(compiled(*operands), operands, seeds), expected, strict=True
        ):
            tensor.testing.assert_close(one, other)
    # One of the results is not used; gradients come in another layout.
    expected = tensor.autograd.grad(function(*operands)[1], operands, seeds[1], allow_unused=True)
    given = tensor.autograd.grad(
        compiled(*operands)[1], operands, tensor.stack([seeds[1]] * 2, 1)[:, 0], allow_unused=True
    )
    for one, other in zip(given, expected, strict=True):
        assert one is not None
        tensor.testing.assert_close(one, one * 0 if other is None else other)


def test_what_backward_needs_is_computed_again(gpu: str) -> None:
    """The chain's inner values are not kept from the forward pass: it gives one tensor, as if nothing were recorded."""
    x, y = (tensor.randn(4, 5, device=gpu, requires_grad=True) for _ in range(2))
    compiled = tensor.compile(_chain, fullgraph=True)
    compiled(x, y)
    forward, backward = compiled.explain(x, y).split("backward: ")
    assert forward.startswith("forward: 5 operations in 1 calls")
    assert "fused" in backward
    before = tensor.cuda.memory_allocated()
    result = compiled(x, y)
    assert tensor.cuda.memory_allocated() - before == 512, "more than the result is kept"
    del result


def test_second_derivatives(gpu: str) -> None:
    x, y = (tensor.randn(2, device=gpu, dtype=tensor.float64, requires_grad=True) for _ in range(2))
    compiled = tensor.compile(lambda x, y: (x * y).tanh() * x, fullgraph=True)
    compiled(x, y)
    assert tensor.autograd.gradcheck(compiled, (x, y))
    assert tensor.autograd.gradgradcheck(compiled, (x, y))


@pytest.mark.parametrize("training", [True, False])
def test_a_module_trains_as_uncompiled(gpu: str, training: bool) -> None:
    tensor.manual_seed(1)
    model = _Net().to(gpu).train(training)
    twin = copy.deepcopy(model)
    compiled = tensor.compile(copy.deepcopy(model), fullgraph=True)
    assert list(compiled.state_dict()) == list(model.state_dict())
    x, target = tensor.randn(10, 6, device=gpu), tensor.randint(0, 3, (10,), device=gpu)
    losses: list[list[float]] = []
    for each in (twin, compiled):
        tensor.manual_seed(5)
        optimizer = nn.optim.SGD(each.parameters(), lr=0.1, momentum=0.9)
        losses.append([])
        for _ in range(5):
            loss = functional.nll_loss(each(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, value in twin.state_dict().items():
        tensor.testing.assert_close(compiled.state_dict()[name], value)
    assert vars(compiled)["forward"].programs == 1


def test_random_numbers_are_those_of_the_uncompiled_function(gpu: str) -> None:
    def function(x: Any) -> Any:
        return functional.dropout(x, 0.5) + tensor.rand(4, 8, device=x.device) + tensor.randn_like(x)

    x = tensor.ones(4, 8, device=gpu)
    compiled = tensor.compile(function, fullgraph=True)
    tensor.manual_seed(3)
    expected = [function(x) for _ in range(3)]
    tensor.manual_seed(3)
    for each in expected:
        tensor.testing.assert_close(compiled(x), each)
    assert compiled.programs == 1


def test_dropout_of_backward_is_that_of_forward(gpu: str) -> None:
    x = tensor.ones(64, device=gpu, requires_grad=True)
    compiled = tensor.compile(lambda x: functional.dropout(x * 2, 0.5), fullgraph=True)
    for _ in range(3):
        result = compiled(x)
        (grad,) = tensor.autograd.grad(result, x, tensor.ones_like(result))
        assert grad is not None
        assert ((result > 0) == (grad > 0)).all()


def test_a_tensor_from_outside_is_written(gpu: str) -> None:
    total, x = tensor.zeros(3, device=gpu), tensor.ones(3, device=gpu)

    def function(x: Any) -> Any:
        total.add_(x * 2)
        x.mul_(3)
        return total.sum() + x

    compiled = tensor.compile(function, fullgraph=True)
    for count in (1, 2, 3):
        version = total._version, x._version
        compiled(x)
        assert (total._version, x._version) == (version[0] + 1, version[1] + 1)
        assert x.tolist() == [3.0**count] * 3
    assert total.tolist() == [2.0 * (1 + 3 + 9)] * 3
    assert compiled.programs == 1


def test_views_and_memory_of_its_own_that_it_writes_to(gpu: str) -> None:
    def function(x: Any) -> Any:
        result = tensor.zeros(4, 6, device=x.device)
        result[1:3] = x
        result[:, ::2] += 1
        return result.t()[1:].relu_(), x[0] * 2

    x = tensor.randn(2, 6, device=gpu)
    compiled = tensor.compile(function, fullgraph=True)
    for result in _twice(compiled, x):
        for one, other in zip(result, function(x), strict=True):
            assert one.stride() == other.stride()
            tensor.testing.assert_close(one, other)


class _Pair(NamedTuple):
    total: Any
    rest: Any


def test_structures_of_arguments_and_results(gpu: str) -> None:
    def function(parts: Any, *, scale: Any = 1.0) -> Any:
        total = parts["a"] + parts["b"][0]
        return {
            "total": total * scale,
            "same": parts["a"],
            "none": None,
            "pair": _Pair(total, (3, [total - 1])),
        }

    parts = {"a": tensor.ones(2, device=gpu), "b": [tensor.ones(2, device=gpu), "text"]}
    compiled = tensor.compile(function, fullgraph=True)
    for result in _twice(lambda: compiled(parts, scale=2.0)):
        assert result["total"].tolist() == [4.0, 4.0]
        assert result["same"] is parts["a"]
        assert result["none"] is None
        assert type(result["pair"]) is _Pair
        assert result["pair"].rest[0] == 3
        assert result["pair"].rest[1][0].tolist() == [1.0, 1.0]
    assert compiled.programs == 1


def test_one_tensor_twice(gpu: str) -> None:
    compiled = tensor.compile(lambda x, y: x * y + x, fullgraph=True)
    x, y = (tensor.full((3,), value, device=gpu, requires_grad=True) for value in (2.0, 5.0))
    for _ in range(2):
        grads = (
            *tensor.autograd.grad(compiled(x, x).sum(), x),
            *tensor.autograd.grad(compiled(x, y).sum(), (x, y)),
        )
        assert [each is not None and each.tolist() for each in grads] == [[5.0] * 3, [6.0] * 3, [2.0] * 3]


def test_shared_weights_have_one_gradient(gpu: str) -> None:
    first, second = nn.Linear(4, 4, bias=False, device=gpu), nn.Linear(4, 4, bias=False, device=gpu)
    second.weight = first.weight
    model = nn.Sequential(first, nn.Tanh(), second)
    x = tensor.randn(2, 4, device=gpu)
    (expected,) = tensor.autograd.grad(model(x).sum(), first.weight)
    tensor.compile(model, fullgraph=True)
    for _ in range(2):
        (grad,) = tensor.autograd.grad(model(x).sum(), first.weight)
        tensor.testing.assert_close(grad, expected)


@pytest.mark.parametrize("dtype", [tensor.float16, tensor.bfloat16])
def test_autocast(gpu: str, dtype: Any) -> None:
    tensor.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8)).to(gpu)
    x = tensor.randn(4, 8, device=gpu)

    def gradients() -> list[Any]:
        with tensor.autocast(gpu, dtype):
            result = model(x)
        return [result, *tensor.autograd.grad(result.float().square().sum(), list(model.parameters()))]

    expected = gradients()
    tensor.compile(model, fullgraph=True)
    for _ in range(3):
        for one, other in zip(gradients(), expected, strict=True):
            assert one.dtype is other.dtype
            tensor.testing.assert_close(one, other)
    with tensor.autocast(gpu, dtype):
        assert "5 casts to" in vars(model)["forward"].explain(x)


def test_copies_and_pickles(gpu: str) -> None:
    model = tensor.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()).to(gpu))
    x = tensor.randn(3, 2, device=gpu)
    model(x)
    twin = copy.deepcopy(model)
    with tensor.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert twin(x).abs().sum() == 0
    assert model(x).abs().sum() == model(x).abs().sum()
    assert pickle.loads(pickle.dumps(twin))(x).abs().sum() == 0


def test_in_a_cuda_graph(gpu: str) -> None:
    compiled = tensor.compile(lambda x: functional.dropout((x * 2).tanh() + 1, 0.5), fullgraph=True)
    x = tensor.randn(64, device=gpu)
    tensor.manual_seed(2)
    expected = [compiled(x) for _ in range(3)]
    graph = tensor.cuda.CUDAGraph()
    with tensor.cuda.graph(graph):
        result = compiled(x)
    tensor.manual_seed(2)
    for each in expected:
        graph.replay()
        tensor.testing.assert_close(result, each)
    assert compiled.programs == 1
    fresh = tensor.compile(lambda x: x * 3 + 1, fullgraph=True)
    with tensor.cuda.graph(tensor.cuda.CUDAGraph()):
        fresh(x)
    assert fresh.programs == 0
    fresh(x)
    assert fresh.programs == 1


def test_module_compile(gpu: str) -> None:
    model = nn.Linear(2, 2, device=gpu)
    model.compile(fullgraph=True)
    x = tensor.randn(3, 2, device=gpu)
    tensor.testing.assert_close(model(x), functional.linear(x, model.weight, model.bias))
    assert vars(model)["forward"].programs == 1


def test_transforms_and_functional_calls(gpu: str) -> None:
    model = nn.Linear(3, 3, device=gpu)
    tensor.compile(model)
    compiled = tensor.compile(lambda x, y: (x * y).sin().sum(-1))
    x, y = tensor.randn(4, 3, device=gpu), tensor.randn(4, 3, device=gpu)
    plain = compiled.__wrapped__
    for _ in range(2):
        tensor.testing.assert_close(compiled(x, y), plain(x, y))
        tensor.testing.assert_close(vmap(compiled)(x, y), plain(x, y))
        tensor.testing.assert_close(
            grad(lambda x: compiled(x, y).sum())(x),
            grad(lambda x: plain(x, y).sum())(x),
        )
        one, other = (jvp(lambda x, f=f: f(x, y), (x,), (y,)) for f in (compiled, plain))
        tensor.testing.assert_close(one, other)
        for scale in (1.0, 2.0):
            parameters = {name: value.detach() * scale for name, value in model.named_parameters()}
            tensor.testing.assert_close(
                _functional_call(model, parameters, (x,)),
                functional.linear(x, parameters["weight"], parameters["bias"]),
            )
    stacked = {
        name: tensor.stack([value.detach(), value.detach() * 2]) for name, value in model.named_parameters()
    }
    both = vmap(lambda parameters: _functional_call(model, parameters, (x,)))(stacked)
    tensor.testing.assert_close(both[1], functional.linear(x, stacked["weight"][1], stacked["bias"][1]))


class _Counted(tensor.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _Counted.calls += 1
        return super().__torch_function__(function, types, args, kwargs or {})


def test_a_subclass_has_its_say(gpu: str) -> None:
    compiled = tensor.compile(lambda x: x * 2 + 1)
    x = tensor.ones(3, device=gpu).as_subclass(_Counted)
    for _ in range(2):
        before = _Counted.calls
        assert type(compiled(x)) is _Counted
        assert _Counted.calls > before
    assert compiled.programs == 0


def test_checkpoints_draw_the_same_numbers_twice(gpu: str) -> None:
    from tensor.utils.checkpoint import checkpoint

    def function(x: Any) -> Any:
        return checkpoint(lambda x: functional.dropout(x * 2, 0.5), x, use_reentrant=False)

    x = tensor.ones(64, device=gpu, requires_grad=True)
    compiled = tensor.compile(function)
    for _ in range(3):
        result = compiled(x)
        (grad,) = tensor.autograd.grad(result, x, tensor.ones_like(result))
        assert grad is not None
        assert ((result > 0) == (grad > 0)).all()


@dataclass
class _Losses:
    total: Any
    parts: dict[str, Any]
    name: str = "losses"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Nested:
    inner: _Losses
    count: int


@dataclass
class _Computed:
    value: Any

    def __post_init__(self) -> None:
        self.double = self.value * 2


@dataclass
class _Constructed:
    value: Any

    def __init__(self, value: Any) -> None:
        self.value = value + 1


def test_dataclasses_as_results(device: drv.Device) -> None:
    def function(x: Any) -> _Nested:
        squares = x.square()
        return _Nested(inner=_Losses(squares.sum(), {"mean": squares.mean(), "none": None}), count=len(x))

    compiled = tensor.compile(function, fullgraph=True)
    before = None
    for number in (1.0, 2.0, 3.0):
        x = tensor.full((4,), number, device="cuda", requires_grad=True)
        result = compiled(x)
        assert type(result) is _Nested and type(result.inner) is _Losses
        assert result.count == 4 and result.inner.name == "losses" and result.inner.parts["none"] is None
        assert result.inner.total.item() == 4 * number**2 and result.inner.parts["mean"].item() == number**2
        (result.inner.total + result.inner.parts["mean"]).backward()
        assert x.grad.tolist() == [2.5 * number] * 4
        # Each call makes its own.
        assert result is not before and (before is None or result.inner.parts is not before.inner.parts)
        before = result
    assert compiled.programs == 1


@pytest.mark.parametrize("make", [_Computed, _Constructed])
def test_dataclasses_that_are_more_than_their_fields(device: drv.Device, make: Any) -> None:
    compiled = tensor.compile(lambda x: make(x * 2))
    x = tensor.ones(2, device="cuda")
    with pytest.warns(UserWarning, match=f"its result is a {make.__name__}"):
        compiled(x)
    assert compiled(x).value.tolist() == make(x * 2).value.tolist()
