"""Gradients where there is no derivative, or none of a formula, are those that PyTorch gives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tensor

pytestmark = pytest.mark.parity

INF, NAN = float("inf"), float("nan")
TIES = [[1.0, 2.0, 2.0, -1.0], [3.0, 3.0, 3.0, 3.0]]
ZEROS = [[0.0, 0.0, 0.0], [0.0, 2.0, -1.0]]
#: Function of the library and a tensor, and elements.
KINKS: dict[str, tuple[Any, Any]] = {
    "amax": (lambda _, x: x.amax(1), TIES),
    "amax all": (lambda _, x: x.amax(), TIES),
    "amin dims": (lambda _, x: x.amin((0, 1), True), TIES),
    "aminmax": (lambda _, x: sum(x.aminmax(dim=1)), TIES),
    "max": (lambda _, x: x.max(), TIES),
    "min": (lambda _, x: x.min(), TIES),
    "max dim": (lambda _, x: x.max(1).values, TIES),
    "min dim": (lambda _, x: x.min(0).values, TIES),
    "max nan": (lambda _, x: x.max(), [1.0, NAN, 3.0]),
    "amax nan": (lambda _, x: x.amax(0), [1.0, NAN, NAN]),
    "cummax": (lambda _, x: x.cummax(1).values, TIES),
    "cummin": (lambda _, x: x.cummin(1).values, TIES),
    "sort": (lambda _, x: x.sort(dim=1, stable=True).values[:, 1:3], TIES),
    "median": (lambda _, x: x.median(1).values, [[1.0, 3.0, 2.0, 5.0]]),
    "median all": (lambda _, x: x.median(), [[1.0, 3.0], [2.0, 5.0]]),
    "median nan": (lambda _, x: x.nanmedian(), [[1.0, NAN], [2.0, 5.0]]),
    "norm": (lambda _, x: x.norm(), [0.0, 0.0]),
    "norm dim": (lambda _, x: x.norm(2, 1), ZEROS),
    "norm 0": (lambda _, x: x.norm(0, 1), ZEROS),
    "norm 1": (lambda _, x: x.norm(1, 1), ZEROS),
    "norm 1.5": (lambda _, x: x.norm(1.5, 1), ZEROS),
    "norm 3": (lambda _, x: x.norm(3, 1), ZEROS),
    "norm inf": (lambda _, x: x.norm(INF, 1), ZEROS),
    "norm inf ties": (lambda _, x: x.norm(INF, 1), TIES),
    "norm -inf ties": (lambda _, x: x.norm(-INF, 1), TIES),
    "std of equal": (lambda _, x: x.std(1), TIES),
    "std of one": (lambda _, x: x.std(0), [[1.0, 2.0]]),
    "var of one": (lambda _, x: x.var(0), [[1.0, 2.0]]),
    "prod": (lambda _, x: x.prod(1), ZEROS),
    "prod all": (lambda _, x: x.prod(), [[2.0, 0.0], [3.0, 4.0]]),
    "cumprod": (lambda _, x: x.cumprod(1), [[2.0, 0.0, 3.0, 0.0, 4.0], [0.0, 1.0, 2.0, 3.0, 4.0]]),
    "logsumexp": (lambda _, x: x.logsumexp(1), [[-INF, 1.0, 2.0], [0.0, 0.0, 0.0]]),
    "nansum": (lambda _, x: x.nansum(1), [[NAN, 1.0], [NAN, NAN]]),
    "nanmean": (lambda _, x: x.nanmean(0), [[NAN, 1.0], [2.0, 3.0]]),
    "mean of nothing": (lambda _, x: x.mean(0), [[]]),
    "quantile": (lambda _, x: x.quantile(0.5, 1), TIES),
    "quantile nan": (lambda _, x: x.quantile(0.5, 1), [[1.0, NAN], [1.0, 4.0]]),
    "nanquantile": (lambda _, x: x.nanquantile(0.3, 1), [[1.0, NAN, 5.0], [1.0, 4.0, 2.0]]),
    "expand of one": (lambda _, x: x.expand(3, 2).sum(), [[1.0, 2.0]]),
    "as_strided of a stretched": (
        lambda _, x: x.expand(3, 2).as_strided((2, 2), (1, 0)).sum(1),
        [[1.0, 2.0]],
    ),
}


def gradients(library: Any, function: Any, elements: Any) -> list[Any]:
    """Result, first and second derivatives."""
    x = library.tensor(elements, dtype=library.float64, requires_grad=True)
    result = function(library, x)
    weights = library.arange(1, result.numel() + 1, dtype=library.float64).reshape(result.shape)
    (first,) = library.autograd.grad(result, x, weights, create_graph=True, allow_unused=True)
    results = [result, first]
    if first is not None and first.requires_grad:
        factors = library.arange(2, first.numel() + 2, dtype=library.float64).reshape(first.shape)
        (second,) = library.autograd.grad((first * factors).sum(), x, allow_unused=True)
        results.append(second)
    # The sum is dense where PyTorch has zeros without memory.
    return [None if x is None else np.asarray((x.detach() + x.new_zeros(x.shape)).tolist()) for x in results]


@pytest.mark.parametrize("name", KINKS)
def test_gradients_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    function, elements = KINKS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = gradients(torch, function, elements)
    result = gradients(tensor, function, elements)
    # Second derivatives for which PyTorch divides by zero are left out.
    names = ("value", "first", "second")[: 2 if name in ("norm", "norm dim") else 3]
    for what, ours, theirs in zip(names, result, expected, strict=False):
        if theirs is None or ours is None:
            # No gradient is one of zeros.
            assert not np.any(ours), what
            assert not np.any(theirs), what
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, err_msg=what)
