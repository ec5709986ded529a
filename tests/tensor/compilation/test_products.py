"""Small products in half precision take pointwise operations behind them along, which read what the product would have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nn
import tensor
from nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.usefixtures("schedule")


def _randn(*shape: int, dtype: Any = tensor.bfloat16, grad: bool = False) -> Any:
    return (tensor.randn(*shape, device="cuda") / 2).to(dtype).requires_grad_(grad)


def _assert_close(one: Any, other: Any) -> None:
    assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
    tensor.testing.assert_close(one, other, rtol=2e-2, atol=2e-2 * max(float(other.abs().max()), 1.0))


def _results(function: Callable[..., Any], operands: Any) -> list[Any]:
    tensor.manual_seed(4)
    arguments = [x.detach().clone().requires_grad_(x.requires_grad) for x in operands]
    outputs = function(*arguments)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    sources = [x for x in arguments if x.requires_grad]
    if sources:
        targets = [x for x in outputs if x.requires_grad]
        outputs += tensor.autograd.grad(targets, sources, [tensor.ones_like(x) for x in targets])
    return outputs


def _compare(function: Callable[..., Any], *operands: Any) -> tuple[str, list[Any]]:
    """What the compiled function explains and gives, after its results were compared with the function's own."""
    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        results, expected = (_results(each, operands) for each in (compiled, function))
        for one, other in zip(results, expected, strict=True):
            _assert_close(one, other)
    return compiled.explain(*operands), results


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((7, 24, 16), tensor.bfloat16), ((70, 136, 72), tensor.float16), ((3, 5, 40, 64), tensor.bfloat16)],
)
def test_an_activation_goes_on_with_what_the_product_rounds(shape: tuple[int, ...], dtype: Any) -> None:
    *rows, outputs, inputs = shape
    operands = (
        _randn(*rows, inputs, dtype=dtype),
        _randn(outputs, inputs, dtype=dtype),
        _randn(outputs, dtype=dtype),
    )

    def function(x: Any, weight: Any, bias: Any) -> Any:
        h = functional.linear(x, weight, bias)
        return h, functional.gelu(h)

    text, (h, result) = _compare(function, *operands)
    assert text.startswith("forward: 2 operations in 1 calls"), text
    tensor.testing.assert_close(result, functional.gelu(h), rtol=0, atol=0)


def test_gradients_of_a_perceptron() -> None:
    """The derivative of gelu is at the end of the product that gives its operand."""

    def function(x: Any, first: Any, bias: Any, second: Any) -> Any:
        return functional.linear(functional.gelu(functional.linear(x, first, bias)), second)

    operands = [_randn(*shape, grad=True) for shape in ((20, 16), (32, 16), (32,), (16, 32))]
    text, _ = _compare(function, *operands)
    forward, backward = text.split("backward: ")
    assert "linear_rows_times_matrix_gelu" in forward, text
    assert "linear_rows_times_matrix_gelu_backward" in backward, text


def test_dropout_and_a_residual_connection() -> None:
    """Dropout draws what it draws by itself."""

    def function(x: Any, weight: Any, residual: Any) -> Any:
        return residual + functional.dropout(functional.linear(x, weight), 0.4)

    text, (result,) = _compare(
        function, _randn(9, 40), _randn(24, 40), tensor.zeros(9, 24, device="cuda", dtype=tensor.bfloat16)
    )
    assert text.startswith("forward: 3 operations in 1 calls"), text
    assert 0.2 < float((result == 0).float().mean()) < 0.6


def test_rows_have_the_first_choice() -> None:
    """A residual connection in front of a layer norm stays the norm's."""
    norm = nn.LayerNorm(16).to("cuda", tensor.bfloat16)

    def function(x: Any, weight: Any, residual: Any) -> Any:
        return norm(residual + functional.linear(x, weight))

    text, _ = _compare(function, _randn(9, 24), _randn(16, 24), _randn(9, 16))
    assert "in 2 calls" in text and "add_row_normalization" in text, text


def test_what_stays_apart() -> None:
    def function(x: Any, weight: Any, bias: Any) -> Any:
        return functional.linear(x, weight, bias).relu()

    for operands in (
        [_randn(*shape, dtype=tensor.float32) for shape in ((8, 16), (24, 16), (24,))],
        # Rows that are no whole packs, and a weight that lies the other way round.
        [_randn(*shape) for shape in ((8, 16), (23, 16), (23,))],
        [_randn(8, 16), _randn(16, 24).t(), _randn(24)],
        # What reads single precision.
    ):
        text, _ = _compare(function, *operands)
        assert text.startswith("forward: 2 operations in 2 calls"), text
    text, _ = _compare(
        lambda x, y, _: functional.linear(x, y).float().exp(),
        *[_randn(*s) for s in ((8, 16), (24, 16), (24,))],
    )
    assert text.startswith("forward: 3 operations in 2 calls"), text


def test_operands_at_any_address() -> None:
    memory = [_randn(2000) for _ in range(3)]

    def function(x: Any, weight: Any, other: Any) -> Any:
        return functional.linear(x, weight) * other

    compiled = tensor.compile(function, fullgraph=True)
    for offsets in ((0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 1), (3, 5, 7)):
        operands = [
            x[offset : offset + rows * width].view(rows, width)
            for x, offset, (rows, width) in zip(memory, offsets, ((12, 16), (24, 16), (12, 24)), strict=True)
        ]
        _assert_close(compiled(*operands), function(*operands))
    assert "in 1 calls" in compiled.explain(*operands)


_any_sizes = given(
    st.integers(1, 70), st.integers(1, 10), st.integers(1, 20), st.booleans(),
    st.sampled_from(["relu", "tanh", "silu", "gelu"]), st.sampled_from([tensor.float16, tensor.bfloat16]),
)  # fmt: skip


def _assert_same_of_sizes(
    rows: int, outputs: int, inputs: int, biased: bool, activation: str, dtype: Any
) -> None:
    x, weight, scale = (
        _randn(rows, 8 * inputs, dtype=dtype),
        _randn(8 * outputs, 8 * inputs, dtype=dtype),
        _randn(8 * outputs, dtype=dtype),
    )

    def function(x: Any, weight: Any, scale: Any) -> Any:
        return (
            getattr(functional, activation)(functional.linear(x, weight, scale if biased else None)) * scale
        )

    _assert_close(tensor.compile(function, fullgraph=True)(x, weight, scale), function(x, weight, scale))


@pytest.mark.sampled(12)
@settings(max_examples=25)
@_any_sizes
def test_any_sizes(rows: int, outputs: int, inputs: int, biased: bool, activation: str, dtype: Any) -> None:
    _assert_same_of_sizes(rows, outputs, inputs, biased, activation, dtype)


@pytest.mark.nightly
@_any_sizes
def test_many_sizes(rows: int, outputs: int, inputs: int, biased: bool, activation: str, dtype: Any) -> None:
    _assert_same_of_sizes(rows, outputs, inputs, biased, activation, dtype)
