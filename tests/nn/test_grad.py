"""Gradients of convolutions as functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from nn import grad
from tests.tensor.operations.neural_comparison import assert_like_torch

from .test_signatures import assert_same_parameters

_RNG = np.random.default_rng(0)
#: Number of dimensions, shapes of input and weight, options.
CASES: dict[str, tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "signals": (1, (2, 3, 9), (4, 3, 3), {"padding": 1}),
    "images": (2, (2, 4, 7, 6), (6, 2, 3, 2), {"stride": 2, "groups": 2, "padding": (1, 0)}),
    "dilated": (2, (1, 2, 7, 6), (3, 2, 2, 2), {"dilation": 2}),
    "volumes": (3, (1, 2, 4, 3, 5), (2, 2, 2, 2, 2), {}),
}


@pytest.mark.parity
@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("name", CASES)
def test_against_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    rank, size, weight_size, options = CASES[name]
    x, weight = _RNG.standard_normal(size), _RNG.standard_normal(weight_size)
    convolve = getattr(torch.nn.functional, f"conv{rank}d")
    result = convolve(torch.from_numpy(x), torch.from_numpy(weight), **options)
    back = _RNG.standard_normal(tuple(result.shape))
    mine, theirs = (
        (getattr(library, f"conv{rank}d_input"), getattr(library, f"conv{rank}d_weight"))
        for library in (grad, torch.nn.grad)
    )
    # The results have gradients themselves.
    for left, right, known, expected in (
        (mine[0], theirs[0], weight, size),
        (mine[1], theirs[1], x, weight_size),
    ):
        first = known is weight

        def call(function: Any, a: Any, b: Any, first: bool = first, wanted: Any = expected) -> Any:
            return function(wanted, a, b, **options) if first else function(a, wanted, b, **options)

        assert_like_torch(
            device_name,
            lambda a, b, left=left: call(left, a, b),
            lambda a, b, right=right: call(right, a, b),
            [known, back],
            tolerance=1e-11,
        )


def test_wrong_shapes() -> None:
    with pytest.raises(RuntimeError, match=r"expected grad_output of shape \[1, 2, 3\]"):
        grad.conv1d_input((1, 2, 5), tensor.ones(2, 2, 3), tensor.ones(1, 2, 4))


@pytest.mark.parity
@pytest.mark.parametrize("name", grad.__all__)
def test_arguments_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    assert_same_parameters(getattr(grad, name), getattr(torch.nn.grad, name))
