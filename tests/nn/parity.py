"""The same small program on this library and on PyTorch."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nn
import tensor
from tests.tensor.comparison import array_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def plain(value: Any) -> Any:
    """``value`` with tensors as lists, other objects as they are, and PyTorch's names as this library's."""
    if isinstance(value, str):
        text = re.sub(r"\btorch\.nn\.modules\.\w+\.|\btorch\.nn\.parameter\.", "nn.", value)
        return re.sub(r"\btorch\b", "tensor", text)
    if hasattr(value, "detach"):
        return array_of(value).tolist()
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value if isinstance(value, (int, float, bool, type(None))) else plain(str(value))


def result(program: Callable[[Any, Any], Any], library: Any, layers: Any) -> Any:
    """What ``program(library, layers)`` returns, or the class of its error, with what was warned of."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = plain(program(library, layers))
        except Exception as error:
            result = f"raised {type(error).__name__}"
    return result, sorted({each.category.__name__ for each in warned})


def assert_like_pytorch(program: Callable[[Any, Any], Any]) -> Any:
    """Assert that both libraries give the same result or class of error, and the same kinds of warnings."""
    torch = pytest.importorskip("torch")
    actual, expected = result(program, tensor, nn), result(program, torch, torch.nn)
    assert actual == expected, f"{actual}\nwhere PyTorch gives\n{expected}"
    return actual


def assert_refused_like_pytorch(program: Callable[[Any, Any], Any], message: str) -> None:
    """Assert that this library refuses with an error that matches ``message``, and PyTorch with one of its class."""
    with pytest.raises((RuntimeError, ValueError, TypeError), match=message) as result:
        program(nn, tensor)
    torch = pytest.importorskip("torch")
    with pytest.raises(result.type):
        program(torch.nn, torch)


def copy_weights(module: Any, reference: Any) -> None:
    """Give ``module`` the state of PyTorch's ``reference``, whose keys must be the same."""
    state = {
        name: tensor.from_numpy(np.array(array_of(value))) for name, value in reference.state_dict().items()
    }
    assert list(module.state_dict()) == list(state)
    module.load_state_dict(state)


def assert_layer_like_pytorch(
    name: str, arguments: Sequence[Any], options: Mapping[str, Any], shape: tuple[int, ...], place: str
) -> None:
    """Assert that a layer with PyTorch's weights shows itself as there, and gives the same results and gradients."""
    torch = pytest.importorskip("torch")
    mine = getattr(nn, name)(*arguments, **options).double()
    theirs = getattr(torch.nn, name)(*arguments, **options).double()
    assert repr(mine) == repr(theirs)
    copy_weights(mine, theirs)
    mine.to(place)
    array = np.random.default_rng(0).standard_normal(shape)
    x = tensor.from_numpy(array.copy()).to(place).requires_grad_()
    y = torch.from_numpy(array.copy()).requires_grad_()
    result, expected = mine(x), theirs(y)
    np.testing.assert_allclose(array_of(result), array_of(expected), atol=1e-12)
    (result**2).sum().backward()
    (expected**2).sum().backward()
    np.testing.assert_allclose(array_of(x.grad), array_of(y.grad), atol=1e-11)
    for one, two in zip(mine.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(array_of(one.grad), array_of(two.grad), atol=1e-10)
