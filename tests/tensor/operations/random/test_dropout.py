"""What is dropped, and that the gradient drops the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor.operations.random import dropout as dropouts

NAMES = ["dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"]


def _function(name: str) -> Any:
    return getattr(dropouts, name)


@pytest.mark.parametrize("shape", [(3, 5, 7), (4, 8), (1, 2, 1025)], ids=str)
def test_elements(shape: Any, checked_device: str) -> None:
    tensor.manual_seed(3)
    x = tensor.ones(shape, device=checked_device, requires_grad=True)
    result = dropouts.dropout(x, 0.25, True)
    array = result.detach().cpu().numpy()
    kept = array != 0
    np.testing.assert_allclose(array[kept], 1 / 0.75)
    assert abs(kept.mean() - 0.75) < 4 * (0.25 * 0.75 / kept.size) ** 0.5
    result.sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), array)
    other = dropouts.dropout(x, 0.25, True).detach().cpu().numpy()
    assert (other != array).any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_devices_drop_what_the_host_drops(name: str, kind: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("device")
    x = tensor.randn(2, 6, 5).to(getattr(tensor, kind))
    results = []
    for device in ("cpu", "cuda"):
        tensor.manual_seed(11)
        results.append(_function(name)(x.to(device), 0.4, True).cpu().double().numpy())
    np.testing.assert_allclose(*results, rtol=1e-2 if kind == "bfloat16" else 2e-3)
    np.testing.assert_array_equal(results[0] == 0, results[1] == 0)


def test_features_stand_or_fall_together(device_name: str) -> None:
    tensor.manual_seed(5)
    x = tensor.ones(6, 5, 3, 2, device=device_name)
    array = dropouts.feature_dropout(x, 0.5, True).cpu().numpy().reshape(30, 6)
    assert (array == array[:, :1]).all()
    assert 5 < (array[:, 0] != 0).sum() < 25


def test_alpha_dropout_keeps_mean_and_variance(device_name: str) -> None:
    tensor.manual_seed(1)
    x = tensor.randn(20000, device=device_name)
    array = dropouts.alpha_dropout(x, 0.3, True).cpu().double().numpy()
    assert abs(array.mean()) < 0.05
    assert abs(array.std() - 1) < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_in_place(name: str, device_name: str) -> None:
    leaf = tensor.randn(3, 4, 2, device=device_name, requires_grad=True)
    tensor.manual_seed(2)
    expected = _function(name)(leaf, 0.5, True)
    expected.sum().backward()
    gradient, leaf.grad = leaf.grad, None
    for transposed in (False, True):
        tensor.manual_seed(2)
        x = leaf * 1
        if transposed:
            # The same elements at other strides.
            x = x.transpose(0, 2).contiguous().transpose(0, 2)
        assert getattr(dropouts, f"{name}_")(x, 0.5, True) is x
        np.testing.assert_array_equal(x.detach().cpu().numpy(), expected.detach().cpu().numpy())
        x.sum().backward()
        np.testing.assert_array_equal(leaf.grad.cpu().numpy(), gradient.cpu().numpy())
        leaf.grad = None
    with pytest.raises(RuntimeError, match="leaf"):
        getattr(dropouts, f"{name}_")(leaf, 0.5, True)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name: str, device_name: str) -> None:
    x = tensor.randn(2, 3, 2, device=device_name, dtype=tensor.float64, requires_grad=True)

    def function(x: Any) -> Any:
        tensor.manual_seed(4)
        return _function(name)(x * x, 0.4, True)

    assert tensor.autograd.gradcheck(function, (x,), fast_mode=True)
    assert tensor.autograd.gradgradcheck(function, (x,), fast_mode=True)


def test_all_or_nothing(device_name: str) -> None:
    x = tensor.randn(3, 4, device=device_name, requires_grad=True)
    for name in NAMES:
        function = _function(name)
        assert function(x, 0.0, True) is x
        assert function(x, 0.7, False) is x
        gone = function(x, 1.0, True)
        np.testing.assert_array_equal(gone.detach().cpu().numpy(), np.zeros((3, 4)))
        gone.sum().backward()
        np.testing.assert_array_equal(x.grad.cpu().numpy(), np.zeros((3, 4)))
        x.grad = None
    assert dropouts.dropout(tensor.zeros(0, device=device_name), 0.5, True).shape == (0,)


def test_nothing_is_kept_for_the_gradient() -> None:
    x = tensor.zeros(4, 4, requires_grad=True)
    result = dropouts.dropout(x, 0.5, True)
    assert result.grad_fn.name() == "NativeDropoutBackward0"
    assert result.grad_fn.saved == ()


def test_wrong_arguments() -> None:
    for p in (-0.1, 1.5):
        with pytest.raises(ValueError, match="between 0 and 1"):
            dropouts.dropout(tensor.zeros(3), p, True)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        dropouts.feature_dropout(tensor.zeros(3), 0.5, True)
    with pytest.raises(RuntimeError, match="floating point"):
        dropouts.dropout(tensor.arange(3), 0.5, True)
