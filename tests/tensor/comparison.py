"""The same tensor, and the same error, as PyTorch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from nvrtc_kernels import dtypes

if TYPE_CHECKING:
    from collections.abc import Callable

#: Types of integers as wide as the elements of others, to compare bits.
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def array_of(given: Any) -> Any:
    """Elements of a tensor of this library or of PyTorch as a NumPy array of their own type."""
    if isinstance(given, tensor.Tensor):
        return given.detach().cpu().contiguous().numpy()
    given = given.detach().resolve_conj().resolve_neg().contiguous()
    kind = dtypes.dtype_named(str(given.dtype).removeprefix("torch."))
    if kind is dtypes.bfloat16 or kind in dtypes.FLOAT8:
        import torch

        return given.view({1: torch.uint8, 2: torch.int16}[kind.itemsize]).numpy().view(kind.numpy)
    return given.numpy()


def torch_dtype(kind: dtypes.dtype) -> Any:
    """PyTorch's object for a dtype."""
    torch = pytest.importorskip("torch")
    return getattr(torch, kind.name)


def torch_of(given: tensor.Tensor) -> Any:
    """A PyTorch tensor over a copy of the whole storage, with the same shape, strides and offset."""
    torch = pytest.importorskip("torch")
    item = given.itemsize
    count = given.untyped_storage().nbytes() // item
    if not count:
        return torch.empty_strided(tuple(given.shape), given.stride(), dtype=torch_dtype(given.dtype))
    whole = given.detach().as_strided((count,), (1,), 0).cpu()
    flat = torch.from_numpy(array_of(whole).view(np.uint8).copy()).view(torch_dtype(given.dtype))
    return flat.as_strided(tuple(given.shape), given.stride(), given.storage_offset())


def assert_same_elements(found: Any, expected: Any) -> None:
    """Assert that two arrays have equal bits, where any NaN is as good as another."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind == "c":
        part = f"f{found.dtype.itemsize // 2}"
        found, expected = (np.ascontiguousarray(each).reshape(-1).view(part) for each in (found, expected))
    else:
        found, expected = found.reshape(-1), expected.reshape(-1)
    bits = _BITS[found.dtype.itemsize]
    equal = np.ascontiguousarray(found).view(bits) == np.ascontiguousarray(expected).view(bits)
    if found.dtype.kind in "fV":
        equal |= (found != found) & (expected != expected)
    assert equal.all(), f"{found[~equal][:8]} instead of {expected[~equal][:8]}"


def assert_same(found: Any, expected: Any, *, strides: bool = True) -> None:
    """Assert that a tensor is like PyTorch's: dtype, shape, strides and elements."""
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    assert tuple(found.shape) == tuple(expected.shape)
    if strides:
        assert found.stride() == expected.stride()
    assert found.requires_grad == expected.requires_grad
    assert_same_elements(array_of(found), array_of(expected))


def outcome(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a call returns, or the exception that it raises."""
    try:
        return function(*args, **options)
    except Exception as error:
        return error


#: PyTorch has errors of these classes where this library raises what Python itself would.
_SAME_CLASS = {NotImplementedError: RuntimeError}


def assert_same_outcome(found: Any, expected: Any, compare: Callable[[Any, Any], Any] = assert_same) -> bool:
    """Assert that both calls failed with the same class of error, or that both results are the same.

    Returns whether there are results.
    """
    if not isinstance(expected, Exception):
        if isinstance(found, Exception):
            raise AssertionError(f"{found!r} where PyTorch gives {expected}") from found
        compare(found, expected)
        return True
    assert isinstance(found, Exception), f"PyTorch raises {expected!r}, this is {found!r}"
    needed = _SAME_CLASS.get(type(expected), type(expected))
    assert isinstance(found, needed), f"{found!r} where PyTorch raises {expected!r}"
    return False
