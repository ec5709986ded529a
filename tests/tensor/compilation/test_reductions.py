"""Like reductions are one launch, whose results are those that they have alone, bit for bit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import tensor
from nn import functional

from .test_fusion import _compiled, _randn

pytestmark = pytest.mark.usefixtures("device")


def test_gradients_of_biases_and_of_norms() -> None:
    def function(x: Any, *parameters: Any) -> Any:
        for first in range(0, 12, 4):
            weight, bias, scale, shift = parameters[first : first + 4]
            x = functional.layer_norm(functional.linear(x, weight, bias).relu(), bias.shape, scale, shift)
        return x

    widths = 16, 128, 160, 136
    operands = [_randn(30, 16, grad=True)]
    for width, out in pairwise(widths):
        operands += [_randn(*shape, grad=True) for shape in ((out, width), (out,), (out,), (out,))]
    _, backward = _compiled(function, *operands).split("backward: ")
    # Products sum up the gradients of biases by themselves.
    assert backward.count("linear.outer_sum_and_sum ") == 3, backward
    assert "3 of row_normalization.weight_gradients " in backward, backward


def test_gradients_of_added_vectors() -> None:
    def function(x: Any, *vectors: Any) -> Any:
        for vector in vectors:
            x = (x + vector).relu()
        return x

    _, backward = _compiled(
        function, *(_randn(*shape, grad=True) for shape in ((30, 16), *[(16,)] * 3))
    ).split("backward: ")
    assert "3 of sum " in backward, backward


def test_reductions_of_a_function() -> None:
    """What is read in between, and what is written, keeps a reduction where it is."""

    def function(x: Any, y: Any, z: Any) -> Any:
        first = x.sum(0)
        y.add_(first)
        second, third = y.sum(0), z.sum(0)
        z.mul_(2)
        fourth = z.sum(0)
        return first, second, third, fourth, z.amax(0), x.amax(0), y.amax(1)

    text = _compiled(function, *(_randn(20, 8) for _ in range(3)))
    # The second and the third, for the fourth follows a write to what the third reads.
    assert text.count("2 of sum ") == 1, text
    assert "2 of amax " in text, text
    assert "not with sum before it: its result is needed in between" in text, text
    assert "not with sum before it: what it reads is written in between" in text, text


def test_large_reductions_stay_alone() -> None:
    x = tensor.empty(1 << 20, 2, device="cuda")
    compiled = tensor.compile(lambda x: (x.sum(0), x.amax(0), (x[:4]).sum(0), x[4:8].sum(0)))
    text = compiled.explain(x)
    assert "2 of sum " in text
    assert text.startswith("forward: 4 operations in 3 calls"), text


def test_many_are_several_launches() -> None:
    """A table has as many as the arguments of a launch take."""
    compiled = tensor.compile(lambda *operands: [x.sum(0) for x in operands])
    operands = [_randn(3, 4) for _ in range(100)]
    text = compiled.explain(*operands)
    assert "one launch would have too many" in text
    for one, other in zip(compiled(*operands), operands, strict=True):
        tensor.testing.assert_close(one, other.sum(0), rtol=0, atol=0)
