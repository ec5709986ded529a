"""Products that take gelu by tanh, or the derivative of it, along through cuBLASLt: values, launches, and what stays apart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drv
import nn
import tensor
from drv.errors import LibraryNotInstalledError
from nn import functional
from tensor.operations.products import epilogues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("schedule", "_single_precision")

TOLERANCES = {tensor.float32: 2e-5, tensor.float16: 4e-3, tensor.bfloat16: 3e-2}


@pytest.fixture
def _single_precision() -> Iterator[None]:
    before = tensor.backends.cuda.matmul.allow_tf32
    tensor.backends.cuda.matmul.allow_tf32 = False
    yield
    tensor.backends.cuda.matmul.allow_tf32 = before


def _gelu(x: Any) -> Any:
    return functional.gelu(x, approximate="tanh")


def _perceptron(x: Any, first: Any, bias: Any, second: Any, other: Any) -> Any:
    return functional.linear(_gelu(functional.linear(x, first, bias)), second, other)


def _operands(
    dtype: Any, rows: tuple[int, ...] = (2, 9), *, biased: bool = True, grad: bool = True
) -> list[Any]:
    """Of a perceptron that has 16 inputs, 24 hidden units and 8 outputs."""
    generator = np.random.default_rng(1)
    shapes = [(*rows, 16), (24, 16), (24,), (8, 24), (8,)]
    return [
        None
        if len(shape) == 1 and not biased
        else tensor.tensor(
            generator.standard_normal(shape) / 2, dtype=dtype, device="cuda", requires_grad=grad
        )
        for shape in shapes
    ]


def _trained(function: Callable[..., Any], operands: list[Any]) -> list[Any]:
    """Results and gradients."""
    results = function(*operands)
    results = list(results) if isinstance(results, tuple) else [results]
    tracked = [each for each in operands if each is not None and each.requires_grad]
    if tracked:
        seeds = [tensor.linspace(-1, 1, x.numel()).to(x).view(x.shape) for x in results]
        results += tensor.autograd.grad(results, tracked, seeds)
    return results


def _exact(operands: list[Any]) -> list[Any]:
    return [
        None if each is None else each.detach().cpu().double().requires_grad_(each.requires_grad)
        for each in operands
    ]


def _compare(function: Callable[..., Any], operands: list[Any], *, calls: int = 2) -> Any:
    """The compiled function, after its results were compared with the function's own and those in double precision."""
    compiled = tensor.compile(function, fullgraph=True)
    expected, exact = _trained(function, operands), _trained(function, _exact(operands))
    tolerance = TOLERANCES[operands[0].dtype]
    for _ in range(calls):
        for result, own, right in zip(_trained(compiled, operands), expected, exact, strict=True):
            assert (result.dtype, result.shape, result.stride()) == (own.dtype, own.shape, own.stride())
            size = max(float(right.abs().max()), 1.0)
            tensor.testing.assert_close(
                result.detach().cpu().double(), right.detach(), rtol=tolerance, atol=tolerance * size
            )
            tensor.testing.assert_close(result, own, rtol=tolerance, atol=tolerance * size)
    return compiled


def _launches(run: Callable[[], Any]) -> list[str]:
    with drv.simulator.timed() as timing:
        run()
        tensor.cuda.synchronize()
    return [each.name.split(" m=")[0] for each in timing.operations]


def _calls(compiled: Any, operands: list[Any]) -> tuple[list[str], list[str]]:
    """What a compiled function launches forward and backward."""
    results: list[Any] = []
    forward = _launches(lambda: results.append(compiled(*operands)))
    tracked = [each for each in operands if each is not None and each.requires_grad]
    seed = tensor.ones_like(results[0])
    backward = _launches(lambda: tensor.autograd.grad(results[0], tracked, seed)) if tracked else []
    return forward, backward


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("rows", [(2, 9), (7,)])
def test_a_perceptron_has_no_pass_of_its_own_for_gelu(
    dtype: Any, biased: bool, rows: tuple[int, ...]
) -> None:
    operands = _operands(dtype, rows, biased=biased)
    compiled = _compare(_perceptron, operands)
    forward, backward = _calls(compiled, operands)
    bias = " bias" if biased else ""
    assert forward == [
        f"cublasLtMatmul gelu aux{bias}",
        f"cublasLtMatmul{bias}" if biased else "cublasGemmEx",
    ]
    assert backward[0] == "cublasLtMatmul dgelu"
    # Gradients of weights, with those of biases, and of the input.
    assert len(backward) <= 4
    assert not any("gelu" in name for name in backward[1:])


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_without_gradients_the_input_of_gelu_is_not_written(dtype: Any) -> None:
    operands = _operands(dtype, grad=False)
    compiled = _compare(_perceptron, operands)
    assert _calls(compiled, operands)[0] == ["cublasLtMatmul gelu bias", "cublasLtMatmul bias"]
    text = compiled.explain(*operands)
    assert "linear.rows_times_matrix with gelu" in text
    assert text.startswith("forward: 3 operations in 2 calls")


def test_bytes() -> None:
    """Forward what the product has written is not read, backward it is not written either."""
    operands = _operands(tensor.float32)
    compiled = tensor.compile(_perceptron, fullgraph=True)
    compiled(*operands).sum().backward()
    hidden = 18 * 24 * 4
    numbers = re.findall(r"read and write ([\d,]+) bytes instead of ([\d,]+)", compiled.explain(*operands))
    saved = [int(alone.replace(",", "")) - int(moved.replace(",", "")) for moved, alone in numbers]
    assert saved == [hidden, 2 * hidden]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_what_else_reads_the_input_of_gelu(dtype: Any) -> None:
    def function(x: Any, weight: Any, bias: Any) -> Any:
        h = functional.linear(x, weight, bias)
        return _gelu(h), h

    for grad in (False, True):
        operands = _operands(dtype, grad=grad)[:3]
        compiled = _compare(function, operands)
        assert _launches(lambda c=compiled, o=operands: c(*o)) == ["cublasLtMatmul gelu aux bias"]  # type: ignore[misc]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_sums_for_a_bias(dtype: Any) -> None:
    """Sums of the gradient that would be a pass of their own, as the product for the weight's gradient does not give them."""

    def with_a_frozen_weight(x: Any, first: Any, bias: Any, second: Any) -> Any:
        return functional.linear(_gelu(functional.linear(x, first, bias)), second)

    x, first, bias, second, _ = _operands(dtype, (11,))
    frozen = [x, first.detach(), bias, second]
    for function, operands in ((_of_matrices, _matrices(dtype)), (with_a_frozen_weight, frozen)):
        compiled = _compare(function, operands)
        forward, backward = _calls(compiled, operands)
        assert forward[0] == "cublasLtMatmul gelu aux bias"
        assert backward.count("cublasLtMatmul dgelu bgrad") == 1
        assert not any("sum" in name or name.startswith("gelu") for name in backward)
        assert "with gelu_backward and sum" in compiled.explain(*operands)


def test_a_step_of_training_as_a_whole() -> None:
    def run(*, compiled: bool) -> tuple[list[Any], list[str]]:
        tensor.manual_seed(2)
        model = nn.Sequential(nn.Linear(16, 24), nn.GELU("tanh"), nn.Linear(24, 8)).cuda()
        optimizer = nn.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        call: Any = tensor.compile(step, fullgraph=True) if compiled else step
        x, y = tensor.randn(9, 16, device="cuda"), tensor.randn(9, 8, device="cuda")
        losses = [call(x, y) for _ in range(4)]
        return [*losses, *model.parameters()], _launches(lambda: call(x, y))

    (results, names), (expected, eager) = run(compiled=True), run(compiled=False)
    for one, other in zip(results, expected, strict=True):
        tensor.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert "cublasLtMatmul gelu aux bias" in names
    assert "cublasLtMatmul dgelu" in names
    assert not any(name.startswith(("gelu", "fused_gelu")) for name in names)
    assert sum(name.startswith("gelu") for name in eager) == 2


def test_autocast() -> None:
    model = nn.Sequential(nn.Linear(16, 24), nn.GELU("tanh"), nn.Linear(24, 8)).cuda()
    x = tensor.randn(9, 16, device="cuda")

    def function(x: Any) -> Any:
        with tensor.autocast("cuda", dtype=tensor.bfloat16):
            return model(x)

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        results = [_gradients(model, each(x)) for each in (compiled, function)]
        for one, other in zip(*results, strict=True):
            assert one.dtype is tensor.float32
            tensor.testing.assert_close(one, other, rtol=3e-2, atol=3e-2)
    assert "with gelu_backward" in compiled.explain(x)


def _gradients(model: Any, result: Any) -> list[Any]:
    model.zero_grad()
    result.float().square().sum().backward()
    return [each.grad for each in model.parameters()]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_replays(mode: str) -> None:
    operands = _operands(tensor.bfloat16)
    compiled = tensor.compile(_perceptron, mode=mode, fullgraph=True)
    expected = [each.clone() for each in _trained(_perceptron, operands)]
    for _ in range(4):
        for one, other in zip(_trained(compiled, operands), expected, strict=True):
            tensor.testing.assert_close(one, other, rtol=3e-2, atol=1e-1)


def test_what_stays_apart() -> None:
    def of(activation: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda x, weight, bias: activation(functional.linear(x, weight, bias))

    operands = _operands(tensor.float32, grad=False)[:3]
    for function in (
        of(functional.relu),
        of(functional.gelu),
        # Both read what the product has written anyway.
        of(lambda h: _gelu(h) * 2),
        of(lambda h: functional.dropout(_gelu(h), 0.5)),
        of(lambda h: _gelu(h.double())),
        of(lambda h: _gelu(h[:, 1:])),
        of(lambda h: _gelu(h.mul_(2))),
    ):
        compiled = tensor.compile(function, fullgraph=True)
        compiled(*operands)
        names = _launches(lambda c=compiled: c(*operands))  # type: ignore[misc]
        assert names[0] == "cublasLtMatmul bias"
        assert len(names) > 1


def test_relu_keeps_nan() -> None:
    """Nothing says what cuBLASLt's does."""
    x, weight, bias = _operands(tensor.float32)[:3]
    with tensor.no_grad():
        bias[3] = float("nan")
    compiled = tensor.compile(lambda *operands: functional.relu(functional.linear(*operands)), fullgraph=True)
    for _ in range(2):
        result = compiled(x, weight, bias)
        assert result[..., 3].isnan().all()
        assert not result[..., :3].isnan().any()


def test_nan_and_infinity() -> None:
    x, weight, bias = _operands(tensor.float32)[:3]
    with tensor.no_grad():
        for position, value in enumerate((float("nan"), float("inf"), float("-inf"), 1e4, -1e4)):
            bias[position] = value

    def function(*operands: Any) -> Any:
        return _gelu(functional.linear(*operands))

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        for one, other in zip(
            _trained(compiled, [x, weight, bias]), _trained(function, [x, weight, bias]), strict=True
        ):
            tensor.testing.assert_close(one, other, equal_nan=True, rtol=1e-4, atol=1e-4)


def test_columns_that_are_no_multiple_of_eight() -> None:
    """The input of gelu would have rows that cuBLASLt does not write."""
    generator = np.random.default_rng(3)
    values = [
        tensor.tensor(generator.standard_normal(s), dtype=tensor.float32, device="cuda")
        for s in ((5, 16), (20, 16), (20,))
    ]

    def function(x: Any, weight: Any, bias: Any) -> Any:
        return _gelu(functional.linear(x, weight, bias))

    compiled = _compare(function, values)
    assert _launches(lambda: compiled(*values)) == ["cublasLtMatmul gelu bias"]
    tracked = [each.requires_grad_() for each in values]
    compiled = _compare(function, tracked)
    assert _launches(lambda: compiled(*tracked))[0] == "cublasLtMatmul bias"


def _shifted(operands: list[Any], which: int) -> list[Any]:
    """``operands``, of which one begins where no 16 bytes begin."""
    x = operands[which]
    memory = tensor.zeros(x.numel() + 1, dtype=x.dtype, device="cuda")
    with tensor.no_grad():
        view = memory[1:].view(x.shape).copy_(x)
    view = view.requires_grad_(x.requires_grad)
    return [*operands[:which], view, *operands[which + 1 :]]


def _matrices(dtype: Any) -> list[Any]:
    """Operands of :func:`_of_matrices`."""
    x, first, bias, second, _ = _operands(dtype, (11,))
    return [
        x,
        first.detach().t().contiguous().requires_grad_(),
        bias,
        second.detach().t().contiguous().requires_grad_(),
    ]


def _of_matrices(x: Any, first: Any, bias: Any, second: Any) -> Any:
    return _gelu(tensor.addmm(bias, x, first)) @ second


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_operands_at_any_address(which: int) -> None:
    operands = _matrices(tensor.float32)
    compiled = _compare(_of_matrices, operands)
    shifted = _shifted(operands, which)
    for results in (_trained(compiled, shifted), _trained(compiled, operands)):
        for one, other in zip(results, _trained(_of_matrices, _exact(operands)), strict=True):
            tensor.testing.assert_close(one.detach().cpu().double(), other.detach(), rtol=1e-4, atol=1e-4)
    forward, backward = _calls(compiled, shifted)
    assert ("cublasLtMatmul gelu aux bias" not in forward) == (which < 3)
    assert ("cublasLtMatmul dgelu bgrad" not in backward) == (which == 3)


@pytest.mark.parametrize("refused", [False, True])
def test_operands_of_one_memory(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if refused:
        monkeypatch.setattr(epilogues.Described, "choose", lambda *_: None)
    memory = tensor.tensor(np.random.default_rng(4).standard_normal(16 * 48 + 16), device="cuda").float()

    def function(memory: Any) -> Any:
        x, weight, back, bias = memory.split((256, 256, 256, 16))
        x, weight, back = (each.view(16, 16) for each in (x, weight, back))
        hidden = _gelu(functional.linear(x, weight, bias))
        return _gelu(tensor.addmm(bias, x, x)), functional.linear(hidden, back)

    compiled = _compare(function, [memory.requires_grad_()])
    assert "addmm with gelu" in compiled.explain(memory)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_without_an_algorithm(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same is done by several launches, sums for a bias, too."""
    monkeypatch.setattr(epilogues.Described, "choose", lambda *_: None)
    for function, operands in (
        (_perceptron, _operands(dtype)),
        (_perceptron, _operands(dtype, biased=False)),
        (_perceptron, _operands(dtype, grad=False)),
        (_of_matrices, _matrices(dtype)),
    ):
        compiled = _compare(function, operands)
        assert "with gelu" in compiled.explain(*operands)
        forward, backward = _calls(compiled, operands)
        assert not any("Lt" in name for name in (*forward, *backward))
        assert sum("gelu" in name for name in forward) == 1
        assert sum("gelu" in name for name in backward) == bool(backward)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = drv.runtime()
    library = runtime.library

    def missing(name: str) -> Any:
        if name == "cublasLt":
            raise LibraryNotInstalledError("cublasLt")
        return library(name)

    monkeypatch.setattr(runtime, "library", missing)
    operands = _operands(tensor.float32)
    compiled = _compare(_perceptron, operands)
    assert "matrix with gelu" not in compiled.explain(*operands)
    assert not any("Lt" in name for name in _calls(compiled, operands)[0])


_any_sizes = given(
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 20)),
    biased=st.booleans(),
    grad=st.booleans(),
    returned=st.booleans(),
    dtype=st.sampled_from(list(TOLERANCES)),
)


def _assert_same_of_sizes(
    sizes: tuple[int, int, int], biased: bool, grad: bool, returned: bool, dtype: Any
) -> None:
    rows, outputs, inputs = sizes
    shapes = (rows, inputs), (outputs, inputs), (outputs,), (inputs, outputs)
    generator = np.random.default_rng(rows * 800 + outputs * 20 + inputs)
    x, weight, bias, back = (
        tensor.tensor(generator.standard_normal(shape) / 2, dtype=dtype, device="cuda", requires_grad=grad)
        for shape in shapes
    )

    def function(x: Any, weight: Any, bias: Any, back: Any) -> Any:
        h = functional.linear(x, weight, bias)
        result = functional.linear(_gelu(h), back)
        return (result, h) if returned else result

    _compare(function, [x, weight, bias if biased else None, back], calls=1)


@pytest.mark.sampled(12)
@settings(max_examples=25)
@_any_sizes
def test_any_sizes(sizes: tuple[int, int, int], biased: bool, grad: bool, returned: bool, dtype: Any) -> None:
    _assert_same_of_sizes(sizes, biased, grad, returned, dtype)


@pytest.mark.nightly
@_any_sizes
def test_many_sizes(
    sizes: tuple[int, int, int], biased: bool, grad: bool, returned: bool, dtype: Any
) -> None:
    _assert_same_of_sizes(sizes, biased, grad, returned, dtype)
