"""A sample of every operation through ``compile``: what it gives is what the operation gives by itself.

Samples are PyTorch's; what is compared is this library's. Operands are the results of other operations, and results are read
by some, so that chains, prologues and writes in place meet every operation. Some operations are tested by default, and all
of them with ``--nightly``.
"""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor
from tensor.compilation import replayed_parts
from tensor.compilation.tape import map_tensors
from tensor.core.base import TensorBase
from tests.pytorch import torch

from .conversion import converted, operation
from .test_operation_samples import _operations

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.parity

#: Of so many operations one is tested by default, in each of as many tests of several.
_EVERY, _AT_ONCE = 40, 8
#: Modes, and how often a sample is called: the third call is captured, and the backward pass of the fourth.
_CALLS = {"default": 3, "reduce-overhead": 5}
#: Of memory that nothing has written, or of what is worked out on the host by an order of its own.
_UNDETERMINED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_run = metafunc.config.getoption("--parity")
    infos = [each for each in _operations() if operation(each) is not None] if is_run else []
    infos = [each for each in infos if each.name not in _UNDETERMINED]
    if not metafunc.config.getoption("--nightly"):
        infos = infos[::_EVERY]
    groups = [infos[start : start + _AT_ONCE] for start in range(0, len(infos), _AT_ONCE)]
    metafunc.parametrize("infos", groups, ids=lambda group: f"{group[0].full_name} and following")


def _function(function: Callable[..., Any], others: tuple[Any, ...], options: Any) -> Callable[..., Any]:
    """The operation of a first operand that is computed, and what another one makes of its results."""

    def call(first: Any) -> Any:
        scaled = map_tensors(lambda x: x * 1 if x.dtype.is_floating_point else x.clone(), first, TensorBase)
        result = function(scaled, *others, **options)
        return map_tensors(lambda x: (x, x * 2 + 1) if x.dtype.is_floating_point else x, result, TensorBase)

    return call


def _outcome(call: Callable[..., Any], first: Any) -> list[Any]:
    """Results, then gradients of what the operation is differentiated by."""
    tensor.manual_seed(5)
    sources: list[Any] = []

    def fresh(x: Any) -> Any:
        sources.append(x.detach().requires_grad_(x.requires_grad))
        return sources[-1]

    results: list[Any] = []
    map_tensors(results.append, call(map_tensors(fresh, first, TensorBase)), TensorBase)
    asked = [x for x in sources if x.requires_grad]
    targets = [x for x in results if x.requires_grad]
    if asked and targets:
        results += tensor.autograd.grad(
            targets, asked, [tensor.ones_like(x) for x in targets], allow_unused=True
        )
    return results


def _difference(info: Any, mode: str) -> str | None:
    """In what a compiled sample differs from the sample."""
    # A function that seeds generators is not compiled, and draws are the same after the seed of each call below.
    function = operation(info, seeds=False)
    assert function is not None
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    differentiable = info.supports_autograd and torch.float32 in info.supported_backward_dtypes("cpu")
    sample = next(
        iter(info.sample_inputs("cpu", torch.float32, requires_grad=differentiable))
        if torch.float32 in info.supported_dtypes("cpu")
        else iter(()),
        None,
    )
    if sample is None:
        return None
    first, others, options = converted((sample.input, sample.args, sample.kwargs), "cuda")
    others, options = map_tensors(lambda x: x.detach(), (others, options), TensorBase)
    call = _function(function, others, options)
    try:
        expected = _outcome(call, first)
    except Exception:
        # What the operation by itself does not take is tested elsewhere.
        return None
    compiled = tensor.compile(call, mode=mode)
    for number in range(_CALLS[mode]):
        results = _outcome(compiled, first)
        for one, other in zip(results, expected, strict=True):
            if (one is None) != (other is None):
                return f"{info.full_name}, call {number}: a gradient is there only {'un' * (one is None)}compiled"
            if one is None:
                continue
            try:
                tensor.testing.assert_close(one, other, equal_nan=True)
            except AssertionError as error:
                return f"{info.full_name}, call {number}: {error}"
    return None


@pytest.mark.parametrize("mode", _CALLS)
def test_compiled_samples(infos: list[Any], mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drv.simulator.install(check="race")
    # Also what is too little to be a graph becomes one.
    monkeypatch.setattr(replayed_parts, "_FEWEST", 1)
    with warnings.catch_warnings():
        # Operations that ask for values are not compiled, and say so.
        warnings.simplefilter("ignore")
        problems = [text for info in infos if (text := _difference(info, mode)) is not None]
    assert not problems, "\n\n".join(problems)
