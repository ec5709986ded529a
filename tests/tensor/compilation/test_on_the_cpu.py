"""Compiled functions of tensors on the CPU: chains are native loops, and all else is what it is uncompiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from drv.host import machine_code
from nn import functional
from nvrtc_kernels import host_loops

pytestmark = [
    pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed"),
    pytest.mark.usefixtures("native_loops"),
]


def _chain(x: Any, bias: Any) -> tuple[Any, Any]:
    hidden = functional.gelu(x * bias + 1.5)
    return hidden * x.sigmoid(), hidden.to(tensor.bfloat16)


def test_a_chain_is_one_loop() -> None:
    x, bias = tensor.randn(40, 30), tensor.randn(30)
    compiled = tensor.compile(_chain, fullgraph=True)
    expected = _chain(x, bias)
    for _ in range(2):
        for one, other in zip(compiled(x, bias), expected, strict=True):
            assert one.dtype is other.dtype
            np.testing.assert_array_equal(one.float().numpy(), other.float().numpy())
    assert compiled.programs == 1
    assert "6 operations in 1 calls" in compiled.explain(x, bias)
    assert "gelu" in compiled.sources(x, bias)


@pytest.mark.parametrize("threads", [1, 3])
def test_large_tensors_are_shared_by_threads(threads: int) -> None:
    x, bias = tensor.randn(1000, 700), tensor.randn(700)
    former = tensor.get_num_threads()
    try:
        tensor.set_num_threads(threads)
        compiled = tensor.compile(_chain, fullgraph=True)
        for _ in range(2):
            result = compiled(x, bias)[0]
    finally:
        tensor.set_num_threads(former)
    np.testing.assert_array_equal(result.numpy(), _chain(x, bias)[0].numpy())


def test_results_of_several_types() -> None:
    def function(x: Any) -> Any:
        y = x * 2 + 1
        return y > 0, y.double(), y.half(), y

    x = tensor.randn(1000)
    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        for one, other in zip(compiled(x), function(x), strict=True):
            assert one.dtype is other.dtype
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert "in 1 calls" in compiled.explain(x)


def test_few_elements_and_functions_without_loops_stay_apart() -> None:
    host_loops.set_mode("auto")
    x = tensor.randn(100)
    compiled = tensor.compile(lambda x: x.relu() * 2 + 1, fullgraph=True)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x).numpy(), (x.relu() * 2 + 1).numpy())
    assert "3 operations in 3 calls" in compiled.explain(x)
    host_loops.set_mode("on")
    compiled = tensor.compile(lambda x: x.sin() * 2 + 1, fullgraph=True)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x).numpy(), (x.sin() * 2 + 1).numpy(), rtol=1e-5, atol=1e-6)
    assert "no native loop" in compiled.explain(x)


def test_gradients_and_writes_in_place() -> None:
    def function(x: Any, buffer: Any) -> Any:
        buffer.mul_(0.5).add_(x.detach().relu())
        return (functional.silu(x * 3) * buffer).sum()

    compiled = tensor.compile(function, fullgraph=True)
    outcomes = []
    for each in (function, compiled):
        tensor.manual_seed(0)
        x, buffer = tensor.randn(50, 40).requires_grad_(), tensor.randn(50, 40)
        for _ in range(3):
            x.grad = None
            version = buffer._version
            each(x, buffer).backward()
            assert buffer._version > version
        outcomes.append((x.grad, buffer))
    for one, other in zip(*outcomes, strict=True):
        tensor.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert compiled.programs == 1


def _model() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(256, 32),
        nn.GELU(),
        nn.Dropout(0.3),
        nn.LayerNorm(32),
        nn.Linear(32, 5),
    )


@pytest.mark.parametrize("autocast", [False, True])
def test_steps_of_training(autocast: bool) -> None:
    losses: list[Any] = []
    for compiled in (False, True):
        tensor.manual_seed(1)
        model = _model()
        optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2)

        def step(x: Any, target: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            with tensor.autocast("cpu", dtype=tensor.bfloat16, enabled=autocast):
                loss = functional.cross_entropy(model(x), target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        run = tensor.compile(step, fullgraph=True) if compiled else step
        losses.append([run(tensor.randn(6, 3, 8, 8), tensor.randint(0, 5, (6,))).item() for _ in range(5)])
        losses[-1] += [x.sum().item() for x in model.state_dict().values()]
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-2 if autocast else 1e-4, atol=1e-3)


def test_random_numbers_go_on() -> None:
    def function(x: Any) -> Any:
        return functional.dropout(x + tensor.rand(300), 0.25) * 2

    compiled, results = tensor.compile(function, fullgraph=True), []
    for each in (function, compiled):
        tensor.manual_seed(2)
        results.append([each(tensor.ones(300)).numpy() for _ in range(3)] + [tensor.rand(2).numpy()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert compiled.programs == 1


def _dropped(x: Any, bias: Any, residual: Any) -> Any:
    return residual + functional.dropout(x + bias, 0.3) * 2


def _alpha_dropped(x: Any, bias: Any, residual: Any) -> Any:
    return functional.alpha_dropout(x + bias, 0.3) * residual


@pytest.mark.parametrize("function", [_dropped, _alpha_dropped])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((3, 1501), tensor.float32), ((7, 5, 30), tensor.bfloat16), ((400, 700), tensor.float64)],
)
def test_dropout_is_part_of_chains(function: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """With the numbers of dropout alone, whatever words a row or a thread begins with, and so has its gradient."""
    operands = [tensor.randn(*each, dtype=dtype) for each in (shape, shape[-1:], shape)]
    compiled, results = tensor.compile(function, fullgraph=True), []
    for each in (function, compiled):
        tensor.manual_seed(3)
        for _ in range(2):
            leaves = [x.clone().requires_grad_() for x in operands]
            each(*leaves).backward(operands[2])
        results.append([each(*operands), tensor.rand(2), *(x.grad for x in leaves)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one.float().numpy(), other.float().numpy())
    assert "in 1 calls" in compiled.explain(*operands).splitlines()[0]


def test_dropout_of_features_stays_apart() -> None:
    x = tensor.randn(4, 5, 6, 7)
    compiled, results = tensor.compile(lambda x: functional.dropout2d(x + 1, 0.5) * 2, fullgraph=True), []
    for each in (lambda x: functional.dropout2d(x + 1, 0.5) * 2, compiled):
        tensor.manual_seed(4)
        results.append([each(x).numpy() for _ in range(2)])
    np.testing.assert_array_equal(*results)
    assert "in 3 calls" in compiled.explain(x)


def _residual_norm(x: Any, y: Any, weight: Any, bias: Any, mask: Any) -> Any:
    residual = x + functional.dropout(y, 0.1)
    return residual, functional.layer_norm(residual, x.shape[-1:], weight, bias)


#: Functions of rows with chains before and after them, and the calls of their forward and backward passes.
_ROWS: dict[str, tuple[Any, int, int]] = {
    "a residual": (_residual_norm, 1, 1),
    "dropout": (
        lambda x, y, weight, bias, mask: functional.layer_norm(
            x + functional.dropout(y, 0.1), x.shape[-1:], weight, bias
        ),
        1,
        1,
    ),
    "an activation": (
        lambda x, y, weight, bias, mask: functional.gelu(
            functional.layer_norm(x, x.shape[-1:], weight, bias) * y
        ),
        1,
        2,
    ),
    "rms": (
        lambda x, y, weight, bias, mask: functional.rms_norm(x * weight, x.shape[-1:], bias) + y,
        1,
        3,
    ),
    "a mask": (
        lambda x, y, weight, bias, mask: functional.dropout(functional.softmax(x * 0.125 + mask, -1), 0.1),
        1,
        2,
    ),
    "a logarithm": (
        lambda x, y, weight, bias, mask: functional.log_softmax(x / 2 + bias, -1) * y,
        1,
        3,
    ),
}


@pytest.mark.parametrize("shape", [(2, 3, 19), (4, 60, 700)], ids=str)
@pytest.mark.parametrize("name", _ROWS)
def test_rows_with_chains_are_one_call(name: str, shape: tuple[int, ...]) -> None:
    """With the bits and random numbers of the operations one by one, and so have their gradients."""
    function, forward, backward = _ROWS[name]
    sizes = (shape, shape, shape[-1:], shape[-1:], shape[1:])
    operands, grad = [tensor.randn(*each) for each in sizes], tensor.randn(*shape)
    compiled, outcomes = tensor.compile(function, fullgraph=True), []
    for each in (function, compiled):
        tensor.manual_seed(5)
        for _ in range(2):
            leaves = [x.clone().requires_grad_() for x in operands]
            results = each(*leaves)
            results = results if isinstance(results, tuple) else (results,)
            tensor.autograd.backward(results, [grad] * len(results))
        outcomes.append([*(x.detach() for x in results), *(x.grad for x in leaves), tensor.rand(2)])
    for one, other in zip(*outcomes, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    lines = [line for line in compiled.explain(*leaves).splitlines() if "operations in" in line]
    assert [f"in {calls} calls" in line for line, calls in zip(lines, (forward, backward), strict=True)] == [
        True,
        True,
    ], lines


def test_rows_of_other_types_and_what_repeats_within_a_row_or_stands_for_one() -> None:
    def function(x: Any, part: Any) -> Any:
        return functional.layer_norm(x + part, x.shape[-2:]) * 2

    for dtype, shape, calls in (
        (tensor.float64, (6, 7), 1),
        (tensor.float32, (1,), 1),
        (tensor.float32, (40, 1, 1), 1),
        (tensor.float32, (7,), 3),
        (tensor.float32, (6, 1), 3),
        (tensor.bfloat16, (6, 7), 3),
    ):
        x, part = tensor.randn(40, 6, 7).to(dtype), tensor.randn(*shape).to(dtype)
        compiled = tensor.compile(function, fullgraph=True)
        for _ in range(2):
            np.testing.assert_array_equal(
                compiled(x, part).float().numpy(), function(x, part).float().numpy()
            )
        assert f"3 operations in {calls} calls" in compiled.explain(x, part), (dtype, shape)


#: Sums with what they are of, and the calls that these are.
_SUMS: dict[str, tuple[Any, int]] = {
    "all": (lambda x, y, bias: ((x - y) * bias).square().sum(), 1),
    "a mean": (lambda x, y, bias: (x * y + 1).mean(), 1),
    "rows": (lambda x, y, bias: (x * y + bias).sum(-1), 1),
    "means of planes": (lambda x, y, bias: (x * 2 + y).mean((1, 2)), 1),
    "kept dimensions": (lambda x, y, bias: (x * y).sum(-1, keepdim=True), 1),
    "dropout": (lambda x, y, bias: functional.dropout(x + y, 0.2).sum(-1), 1),
    "columns": (lambda x, y, bias: (x * y).sum(0), 2),
    "other types": (lambda x, y, bias: (x * y).double().sum(-1), 2),
}


@pytest.mark.parametrize("shape", [(2, 3, 19), (5, 70, 500)], ids=str)
@pytest.mark.parametrize("name", _SUMS)
def test_sums_compute_what_they_are_of(name: str, shape: tuple[int, ...]) -> None:
    function, calls = _SUMS[name]
    operands = [tensor.rand(*each) for each in (shape, shape, shape[-1:])]
    compiled, outcomes = tensor.compile(function, fullgraph=True), []
    for each in (function, compiled):
        tensor.manual_seed(6)
        outcomes.append([each(*operands) for _ in range(2)])
    for one, other in zip(*outcomes, strict=True):
        assert one.shape == other.shape
        assert one.dtype is other.dtype
        # Sums of all are added up in double precision in another order.
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-7)
    assert f"in {calls} calls" in compiled.explain(*operands)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(3, 5, 4, 7), (2, 6, 21)], ids=str)
def test_batch_normalizations_are_part_of_chains(shape: tuple[int, ...], training: bool) -> None:
    """With a residual connection and an activation behind them: as they are one by one, bit for bit."""
    x, residual, grad = (tensor.randn(*shape) for _ in range(3))
    outcomes = []
    for compiles in (False, True):
        norm = nn.BatchNorm2d(shape[1]) if len(shape) == 4 else nn.BatchNorm1d(shape[1])
        norm.train(training)
        with tensor.no_grad():
            norm.weight.copy_(tensor.linspace(0.5, 2, shape[1]))
            norm.bias.copy_(tensor.linspace(-1, 1, shape[1]))

        def function(x: Any, residual: Any, norm: Any = norm) -> Any:
            return functional.relu(norm(x) + residual)

        run = tensor.compile(function, fullgraph=True) if compiles else function
        for _ in range(2):
            leaves = [each.clone().requires_grad_() for each in (x, residual)]
            norm.zero_grad()
            result = run(*leaves)
            result.backward(grad)
        outcomes.append([result.detach(), *(each.grad for each in leaves), *norm.state_dict().values()])
        outcomes[-1] += [each.grad for each in norm.parameters()]
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert "fused" in run.explain(*leaves)


_outside = tensor.zeros(3)
#: Functions that ask for values, of arguments or of what they have computed.
_ASKING: dict[str, Any] = {
    "item": lambda x: x * (x + 1).sum().item(),
    "a branch": lambda x: x * 2 if (x * 2).sum() > 0 else x * 3,
    "numpy": lambda x: x * float((x * 2).numpy()[0]),
    "tolist": lambda x: x * (x * 2).tolist()[0],
    "a mask": lambda x: x * x[x > 0].numel(),
    "nonzero": lambda x: x * (x > 0).nonzero().shape[0],
    "unique": lambda x: x * x.unique().numel(),
    "an index": lambda x: x * [1.0, 2.0][(x[0] > 0).int()],
    "text": lambda x: x * len(f"{x * 1000}"),
    "an array": lambda x: x * float(np.asarray(x * 2).sum()),
    "equal": lambda x: x * (2 if tensor.equal(x * 2, x) else 3),
    "a closure": lambda x: x * _outside.sum().item(),
    "new data": lambda x: x * tensor.tensor(np.array([float(x.sum())])),
}


@pytest.mark.parametrize("name", _ASKING)
def test_values_are_asked_for(name: str) -> None:
    function = _ASKING[name]
    compiled = tensor.compile(function)
    for number in range(3):
        _outside.fill_(number)
        x = tensor.tensor([number - 1.0, 2.0 * number, -1.0])
        if number:
            result = compiled(x)
        else:
            with pytest.warns(UserWarning, match=r"cannot be compiled: .*; it runs as it is"):
                result = compiled(x)
        np.testing.assert_array_equal(result.numpy(), function(x).numpy())
    assert compiled.programs == 0
    # What was watched is as it was.
    assert x._storage.plain and type(x._storage) is type(tensor.ones(1)._storage)


def test_without_native_loops_functions_run_as_they_are() -> None:
    host_loops.set_mode("off")
    calls = []

    def function(x: Any) -> Any:
        calls.append(1)
        return x + 1

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(3):
        assert compiled(tensor.ones(2)).tolist() == [2.0, 2.0]
    assert len(calls) == 3
    assert "runs as it is: nothing is on a CUDA device" in compiled.explain(tensor.ones(2))
