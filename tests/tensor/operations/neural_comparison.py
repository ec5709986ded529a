"""A function of tensors and its gradients beside PyTorch's, from the same arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def on(place: str, array: Any, *, grad: bool = False) -> tensor.Tensor:
    """A tensor on a device with the elements of ``array``."""
    result = tensor.from_numpy(np.array(array)).to(place)
    return result.requires_grad_() if grad and result.is_floating_point() else result


def close(found: Any, expected: Any, tolerance: float = 2e-5) -> None:
    """Assert that two tensors of either library have nearly the same elements, and the same dtype and shape."""
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    assert tuple(found.shape) == tuple(expected.shape)
    left, right = (array_of(each) for each in (found, expected))
    if left.dtype.kind not in "biu":
        left, right = left.astype(np.float64), right.astype(np.float64)
    np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


def assert_like_torch(
    place: str,
    function: Callable[..., Any],
    reference: Callable[..., Any],
    arrays: Sequence[Any],
    *,
    tolerance: float = 2e-5,
    gradients: int = 9,
) -> Any:
    """Assert that results are PyTorch's, and gradients of the first so many floating point operands.

    ``arrays`` may have ``None`` and numbers among them, which are passed on.
    """
    torch = pytest.importorskip("torch")
    mine, theirs = [], []
    for number, each in enumerate(arrays):
        if isinstance(each, np.ndarray):
            needed = number < gradients and each.dtype.kind == "f"
            mine.append(on(place, each, grad=needed))
            theirs.append(torch.from_numpy(np.array(each)).requires_grad_(needed))
        else:
            mine.append(each)
            theirs.append(each)
    result, expected = function(*mine), reference(*theirs)
    close(result, expected, tolerance)
    if expected.requires_grad:
        assert result.requires_grad
        back = (
            np.random.default_rng(7).standard_normal(tuple(expected.shape)).astype(array_of(expected).dtype)
        )
        result.backward(on(place, back))
        expected.backward(torch.from_numpy(np.array(back)))
        for left, right in zip(mine, theirs, strict=True):
            if isinstance(left, tensor.Tensor) and right.requires_grad:
                assert (left.grad is None) == (right.grad is None)
                if left.grad is not None:
                    close(left.grad, right.grad, tolerance * 5)
    return result
