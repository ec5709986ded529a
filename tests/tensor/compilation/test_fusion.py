"""What becomes one kernel, and that its results are those of the operations one by one, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("device")


def _compiled(function: Callable[..., Any], *operands: Any, exact: bool = True) -> str:
    """What the compiled function explains, after its results were compared with the function's own, twice.

    They have the same bits, or, if not ``exact``, are those of sums in another order.
    """
    bounds = {"rtol": 0, "atol": 0} if exact else {}
    compiled = tensor.compile(function, fullgraph=True)
    for seed in (1, 2):
        results = []
        for each in (compiled, function):
            tensor.manual_seed(seed)
            arguments = [x.detach().clone().requires_grad_(x.requires_grad) for x in operands]
            outputs = each(*arguments)
            outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
            sources = [x for x in arguments if x.requires_grad]
            targets = [x for x in outputs if x.requires_grad]
            if sources:
                ones = [tensor.ones_like(x) for x in targets]
                outputs += tensor.autograd.grad(targets, sources, ones)
            results.append([*outputs, *arguments])
        for one, other in zip(*results, strict=True):
            assert (one.dtype, one.stride()) == (other.dtype, other.stride())
            tensor.testing.assert_close(one, other, **bounds)
    return compiled.explain(*(x.detach().clone().requires_grad_(x.requires_grad) for x in operands))


def _randn(*shape: int, grad: bool = False, dtype: Any = tensor.float32) -> Any:
    return tensor.randn(*shape, device="cuda", dtype=dtype, requires_grad=grad)


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float64])
def test_products_and_sums_of_two_operations_are_rounded_twice(dtype: Any) -> None:
    x, y = _randn(40, 25, dtype=dtype), _randn(40, 25, dtype=dtype)
    assert "in 1 calls" in _compiled(lambda x, y: x * y + x * 3 - y, x, y)


def test_dropout_is_part_of_a_chain() -> None:
    def function(x: Any, bias: Any, residual: Any) -> Any:
        return residual + functional.dropout(functional.gelu(x + bias), 0.3)

    operands = _randn(6, 32, grad=True), _randn(32), _randn(6, 32)
    forward, backward = _compiled(function, *operands).split("backward: ")
    assert forward.startswith("forward: 4 operations in 1 calls"), forward
    assert backward.startswith("3 operations in 1 calls"), backward


def test_dropout_of_features_and_of_large_tensors() -> None:
    """Packs of several elements draw the words that elements one by one draw, where operands are stretched too."""
    assert "in 1 calls" in _compiled(lambda x: functional.dropout1d(x * 2, 0.5) + 1, _randn(3, 4, 5))
    assert "in 1 calls" in _compiled(
        lambda x, bias: (functional.dropout(x + bias, 0.5) * 2).half(), _randn(130, 256), _randn(256)
    )
    assert "in 1 calls" in _compiled(lambda x: functional.dropout(x + 1, 0.5) * 2, _randn(33, 1024))


def test_what_is_read_elsewhere_is_written_by_the_same_kernel() -> None:
    def function(x: Any, y: Any) -> Any:
        product = x * y
        shifted = product + 1
        return shifted, (product * x - shifted).half(), product.cumsum(-1)

    text = _compiled(function, _randn(4, 9), _randn(9))
    assert text.startswith("forward: 6 operations in 2 calls"), text


def test_a_value_that_is_needed_in_between_is_not_fused() -> None:
    def function(x: Any) -> Any:
        positive = x.relu()
        return positive * positive.cumsum(-1)

    text = _compiled(function, _randn(4, 9))
    assert "forward: 3 operations in 3 calls" in text
    assert "not with relu (test_fusion.py:" in text
    assert "its result is needed in between" in text


def test_writes_in_place_are_part_of_chains() -> None:
    def function(x: Any, y: Any) -> Any:
        hidden = x * y
        hidden += x
        functional.dropout(hidden.relu_(), 0.5, inplace=True)
        y.mul_(2).add_(hidden)
        return hidden.neg_()

    text = _compiled(function, _randn(5, 8), _randn(5, 8))
    assert "forward: 7 operations in" in text
    assert int(text.split(" in ")[1].split()[0]) <= 4, text


def test_a_part_that_is_written_is_read_after_that() -> None:
    def function(x: Any) -> Any:
        result = x * 2
        result[1:] += x[1:] * 3
        before = result + 1
        result[0] = 7
        return before, result * 2, x.t().contiguous().mul_(2).t() + before

    _compiled(function, _randn(5, 5))


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16])
def test_reductions_compute_what_they_read(dtype: Any) -> None:
    def function(x: Any, target: Any, scale: Any) -> Any:
        error = (x - target).square() * 0.5
        return error.mean(), (x * scale).float().amax(1), ((x + target) > scale).any(0)

    text = _compiled(
        function, _randn(6, 20, dtype=dtype), _randn(6, 20, dtype=dtype), _randn(20, dtype=dtype)
    )
    assert " in 3 calls" in text, text


def test_reductions_that_are_not_alone_say_so() -> None:
    def function(x: Any) -> Any:
        exponentials = x.exp()
        return exponentials / exponentials.sum(-1, keepdim=True)

    assert "not with exp" in _compiled(function, _randn(4, 7))


def test_normalizations_cast_themselves() -> None:
    norm, linear = nn.LayerNorm(16, device="cuda"), nn.Linear(16, 4, device="cuda")

    def function(x: Any) -> Any:
        with tensor.autocast("cuda", tensor.bfloat16):
            return linear(norm(x))

    # Weight and bias are cast in one launch.
    text = _compiled(function, _randn(10, 16, grad=True))
    assert "copies.copied" not in text, text


def test_gradients_of_attention_are_written_where_they_belong() -> None:
    def function(joint: Any) -> Any:
        query, key, value = joint.view(1, 16, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
        return functional.scaled_dot_product_attention(query, key, value, dropout_p=0.4)

    text = _compiled(function, _randn(1, 16, 96, grad=True, dtype=tensor.bfloat16))
    assert "attention.gradients_into" in text
    assert "copies.copy" not in text


def test_what_follows_from_one_tensor_twice_is_no_input() -> None:
    """Of three inputs in two buffers, the third buffer is computed: its cast is not made with those of inputs."""

    def function(x: Any, same: Any, y: Any) -> Any:
        return y.half(), (x + same).cumsum(-1).half(), x.half()

    x = _randn(4, 5)
    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        for one, other in zip(compiled(x, x, x[0]), function(x, x, x[0]), strict=True):
            tensor.testing.assert_close(one, other, rtol=0, atol=0)


def test_sources_tell_where_each_part_comes_from() -> None:
    def function(x: Any) -> Any:
        first = x * 2
        return first, functional.dropout(first, 0.5) + 1

    compiled = tensor.compile(function, fullgraph=True)
    x = _randn(4, 4)
    compiled(x)
    source = compiled.sources(x)
    lines = [line for line in source.splitlines() if line.startswith("// ") and "test_fusion.py:" in line]
    assert [line.split(",")[0] for line in lines] == ["// mul", "// dropout.operation", "// add"]
    assert "random_word(seed, call, number)" in source
