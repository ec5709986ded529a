"""The same expression, written once, on this library and on PyTorch."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor

from .comparison import assert_same, assert_same_outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.dtypes import dtype


def value(text: str, module: Any, device: str = "cpu", **names: Any) -> Any:
    """What an expression gives.

    In it, ``m`` is the library, ``d`` a device, and ``on`` the keywords that put a new tensor there.
    """
    known = {"m": module, "d": device, "on": {"device": device}, "np": np, "copy": copy}
    return eval(text, {**known, "inf": math.inf, "nan": math.nan, **names})


def assert_expression(
    text: str,
    device_name: str = "cpu",
    compare: Callable[[Any, Any], Any] | None = None,
    **names: Any,
) -> tuple[Any, Any]:
    """Assert that an expression gives what PyTorch's gives, or an error of the same class; returns both."""
    torch = pytest.importorskip("torch")
    result = outcome(value, text, tensor, device_name, **names)
    expected = outcome(value, text, torch, **names)
    assert_same_outcome(result, expected, compare or assert_alike)
    return result, expected


def assert_alike(found: Any, expected: Any) -> None:
    """Assert that two results are the same: tensors, dtypes, shapes, numbers, and sequences of them."""
    import torch

    if isinstance(expected, torch.Tensor):
        assert isinstance(found, tensor.Tensor), f"{found!r} instead of {expected!r}"
        assert_same(found, expected)
    elif isinstance(expected, torch.dtype):
        assert name_of(found) == name_of(expected)
    elif isinstance(expected, torch.Size):
        assert type(found) is tensor.Size
        assert tuple(found) == tuple(expected)
    elif isinstance(expected, (tuple, list)):
        assert type(found) is type(expected), f"{found!r} instead of {expected!r}"
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    elif isinstance(expected, np.ndarray):
        assert type(found) is np.ndarray
        assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides)
        np.testing.assert_array_equal(found, expected)
    else:
        assert type(found) is type(expected), f"{found!r} instead of {expected!r}"
        assert found == expected or repr(found) == repr(expected)


def name_of(kind: dtype) -> str:
    """``"float32"``, for either library's dtype."""
    return str(kind).split(".")[1]
