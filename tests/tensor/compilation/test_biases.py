"""Biases of linear maps are spread by one launch, and results are those of the maps one by one, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from nn import functional

from .test_fusion import _compiled, _randn

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16])
def test_linear_maps_of_several_widths(dtype: Any) -> None:
    def function(x: Any, *parameters: Any) -> Any:
        for first in range(0, 6, 2):
            x = functional.linear(x, *parameters[first : first + 2]).tanh()
        return functional.linear(x, parameters[0][:, :4])

    operands = [_randn(3, 5, 6, grad=True, dtype=dtype)]
    for width, out in ((6, 8), (8, 7), (7, 4)):
        operands += [_randn(out, width, grad=True, dtype=dtype), _randn(out, grad=True, dtype=dtype)]
    forward, _ = _compiled(function, *operands).split("backward: ")
    assert forward.startswith("forward: 7 operations in 8 calls"), forward
    assert forward.count("3 biases to rows") == 1, forward


def test_biases_that_are_computed_or_written_on_the_way() -> None:
    """They are spread once they are what they shall be, with those of later maps."""

    def function(x: Any, weight: Any, bias: Any, later: Any) -> Any:
        first = functional.linear(x, weight, bias)
        shift = first.sum(0)
        later.add_(1)
        second = functional.linear(first, weight, shift)
        third = functional.linear(second, weight, later)
        bias.mul_(2)
        return third, functional.linear(third, weight, bias), functional.linear(third, weight, later)

    text = _compiled(function, _randn(5, 4), _randn(4, 4), _randn(4), _randn(4))
    # The second with the third, and the two at the end; the first was alone.
    assert text.count("2 biases to rows") == 2, text


def test_biases_that_are_no_rows() -> None:
    """Strides, and large results: each is spread for itself."""
    x, weight, biases = _randn(5, 4), _randn(4, 4), _randn(4, 2)
    text = _compiled(
        lambda x, w, b: functional.linear(functional.linear(x, w, b[:, 0]), w, b[:, 1]), x, weight, biases
    )
    assert "biases to rows" not in text
    rows, wide = _randn(1, 2).expand(1 << 18, 2).contiguous(), _randn(5, 2)
    text = tensor.compile(
        lambda x, w, b: (functional.linear(x, w, b), functional.linear(x, w, b)), fullgraph=True
    ).explain(rows, wide, _randn(5))
    assert "biases to rows" not in text
