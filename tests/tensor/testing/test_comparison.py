"""``tensor.testing.assert_close``: what is close, and what the errors say, which is what PyTorch's say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tests.pytorch import torch

#: Calls that fail or pass, as expressions of ``m``, the library, and ``t``, which makes tensors.
CASES = [
    "t([1., 2., 3.]), t([1., 2.5, 3.])",
    "t(1.), t(2.)",
    "t([1., m.nan]), t([1., m.nan]), {'equal_nan': True}",
    "t([1., m.nan]), t([1., m.nan])",
    "t([m.inf, -m.inf]), t([m.inf, -m.inf])",
    "t([m.inf, 1.]), t([-m.inf, 1.])",
    "t([1.]), t([1.], dtype=m.float64)",
    "t([1.]), t([1.], dtype=m.float64), {'check_dtype': False}",
    "t([1.]), t([1., 2.])",
    "{'a': t([1.])}, {'a': t([2.])}",
    "{'a': [t([1.]), t([2.])]}, {'a': [t([1.]), t([3.])]}",
    "{'a': t([1.])}, {'b': t([2.])}",
    "[t([1.]), t([1.])], [t([1.])]",
    "1, 2",
    "1.0, 1.0 + 1e-9",
    "1.0, 1.1",
    "1, 1.0",
    "1, 1.0, {'check_dtype': False}",
    "True, False",
    "True, True",
    *[
        f"t([[0., 2.], [3., 0.]]).{form}(), t({other}).{form}()"
        for form in ("to_sparse", "to_sparse_csr", "to_sparse_csc")
        for other in (
            "[[0., 2.], [3., 0.]]",
            "[[0., 2.], [4., 0.]]",
            "[[0., 2.], [3., 1.]]",
            "[[2., 0.], [3., 0.]]",
        )
    ],
    "t([[0., 2.]]).to_sparse(), t([[0., 2.]])",
    "t([[0., 2.]]).to_sparse(), t([[0., 2.]]), {'check_layout': False}",
    "t([[0., 2.]]).to_sparse_csr(), t([[0., 1.]]).to_sparse(), {'check_layout': False}",
    "m.sparse_coo_tensor([[1, 1]], [1., 2.], (2,)), t([0., 3.]).to_sparse()",
    "None, None",
    "None, 1",
    "[1], (1,)",
    "t([1]), t([2])",
    "t([1, 2, 3]), t([1, 2, 3])",
    "t([1., 2.]), t([1., 3.]), {'msg': 'hey'}",
    "t([1., 2.]), t([1., 3.]), {'msg': lambda text: 'X ' + text}",
    "t([[1., 2.]]), t([[1., 3.]]), {'rtol': 0, 'atol': 0}",
    "t([1., 2.]), t([1., 2.2]), {'rtol': 0.2, 'atol': 0.0}",
    "t([True]), t([False])",
    "t([1. + 1j]), t([1. + 2j])",
    "1 + 1j, 1 + 2j",
    "m.ones(2, 2).t(), m.ones(2, 2), {'check_stride': True}",
    "m.ones(2, 2).t(), m.ones(2, 2)",
    "t([1.], dtype=m.float16), t([1.001], dtype=m.float16)",
    "t([1.], dtype=m.bfloat16), t([2.], dtype=m.bfloat16)",
    "m.empty(0), m.empty(0)",
    "t([1.]), t([1.]), {'rtol': 1e-3}",
    "t([1.]), [1.]",
    "t([1.]), 1.0",
    "'a', 'a'",
]


def _outcome(library: Any, case: str) -> str:
    arguments = eval(case, {"m": library, "t": library.tensor})
    options = arguments[2] if len(arguments) == 3 else {}
    try:
        library.testing.assert_close(*arguments[:2], **options)
    except (AssertionError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}".replace("torch", "tensor")
    return "close"


@pytest.mark.parity
@pytest.mark.parametrize("case", CASES)
def test_outcomes_are_pytorchs(case: str) -> None:
    ours, theirs = _outcome(tensor, case), _outcome(torch, case)
    # The class's own name is another one.
    assert ours.replace("tensor.methods.tensor.Tensor", "tensor.Tensor") == theirs


def test_errors_say_where_and_by_how_much() -> None:
    assert _outcome(tensor, CASES[0]).splitlines() == [
        "AssertionError: Tensor-likes are not close!",
        "",
        "Mismatched elements: 1 / 3 (33.3%)",
        "Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)",
        "Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)",
    ]
    assert _outcome(tensor, CASES[9]).endswith("\n\nThe failure occurred for item ['a']")


def test_devices(device: object) -> None:
    x = tensor.arange(3.0)
    tensor.testing.assert_close(x.cuda(), x.cuda())
    tensor.testing.assert_close(x.cuda(), x, check_device=False)
    with pytest.raises(AssertionError, match=r"attribute 'device' do not match: cuda:0 != cpu"):
        tensor.testing.assert_close(x.cuda(), x)
    with pytest.raises(AssertionError, match=r"Mismatched elements: 3 / 3"):
        tensor.testing.assert_close(x.cuda() + 1, x.cuda())


def test_arrays_and_gradients() -> None:
    x = tensor.ones(2, requires_grad=True)
    tensor.testing.assert_close(x * 1, x)
    tensor.testing.assert_close(np.ones(2), np.ones(2))
    with pytest.raises(AssertionError, match="not close"):
        tensor.testing.assert_close(np.ones(2), np.zeros(2))


def test_subclasses() -> None:
    class Own(tensor.Tensor):
        pass

    x = tensor.ones(2)
    own = x.as_subclass(Own)
    tensor.testing.assert_close(own, x)
    with pytest.raises(TypeError, match="No comparison pair"):
        tensor.testing.assert_close(own, x, allow_subclasses=False)
