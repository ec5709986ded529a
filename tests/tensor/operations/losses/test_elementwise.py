"""Losses of elements and of pairs against PyTorch's, with their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from tensor.operations.losses import elementwise, margins, similarity
from tests.tensor.operations.neural_comparison import assert_like_torch, close, on

_RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


def _signs(*shape: int) -> Any:
    return np.where(_RNG.random(shape) < 0.5, -1, 1).astype(np.float32)


def _chances(*shape: int) -> Any:
    return (_RNG.random(shape) * 0.9 + 0.05).astype(np.float32)


_X, _Y = _normal(4, 5) * 2, _normal(4, 5) * 2
#: Name, operands, options.
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("mse_loss", (_X, _Y), {}),
    ("l1_loss", (_X, _Y), {}),
    ("smooth_l1_loss", (_X, _Y), {"beta": 0.7}),
    ("smooth_l1_loss", (_X, _Y), {"beta": 0.0}),
    ("huber_loss", (_X, _Y), {"delta": 1.3}),
    ("binary_cross_entropy", (_chances(4, 5), _chances(4, 5)), {}),
    ("binary_cross_entropy", (_chances(4, 5), _chances(4, 5), _chances(5)), {}),
    ("binary_cross_entropy_with_logits", (_X, _chances(4, 5)), {}),
    ("binary_cross_entropy_with_logits", (_X, _chances(4, 5), _chances(5)), {}),
    ("kl_div", (_X, _chances(4, 5)), {}),
    ("kl_div", (_X, np.log(_chances(4, 5))), {"log_target": True}),
    ("poisson_nll_loss", (_X, _chances(4, 5) * 4), {"full": True}),
    ("poisson_nll_loss", (_chances(4, 5), _chances(4, 5) * 4), {"log_input": False}),
    ("gaussian_nll_loss", (_X, _Y, _chances(4, 5)), {"full": True}),
    ("gaussian_nll_loss", (_X, _Y, _chances(4)), {"eps": 0.3}),
    ("soft_margin_loss", (_X, _signs(4, 5)), {}),
    ("hinge_embedding_loss", (_X, _signs(4, 5)), {"margin": 0.5}),
    ("margin_ranking_loss", (_X, _Y, _signs(4, 5)), {"margin": 0.5}),
    ("multilabel_soft_margin_loss", (_X, _chances(4, 5)), {}),
    ("multilabel_soft_margin_loss", (_X, _chances(4, 5), _chances(5)), {}),
    ("multi_margin_loss", (_X, np.array([0, 4, 2, 1])), {"margin": 0.6}),
    ("multi_margin_loss", (_X, np.array([0, 4, 2, 1]), 2), {}),
    ("multilabel_margin_loss", (_X, np.array([[0, 3, -1, 2, 2], [-1] * 5, [1, 1, 4, -1, 0], [0, 1, 2, 3, 4]])), {}),
    ("cosine_embedding_loss", (_X, _Y, _signs(4)), {"margin": 0.1}),
    ("triplet_margin_loss", (_X, _Y, _normal(4, 5)), {"swap": True, "p": 2}),
    ("triplet_margin_with_distance_loss", (_X, _Y, _normal(4, 5)), {"margin": 2.0}),
]  # fmt: skip


def _function(name: str) -> Any:
    return getattr(nn.functional, name)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
@pytest.mark.sampled(3)
def test_like_pytorch(number: int, device_name: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    name, operands, options = CASES[number]
    reductions = ["none", "mean", "sum"] + (["batchmean"] if name == "kl_div" else [])
    for reduction in reductions:
        assert_like_torch(
            device_name,
            lambda *a, how=reduction: _function(name)(*a, reduction=how, **options),
            lambda *a, how=reduction: getattr(functional, name)(*a, reduction=how, **options),
            operands,
            tolerance=4e-5,
            gradients=1 if name == "soft_margin_loss" else 2,
        )


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
def test_derivatives(number: int) -> None:
    name, operands, options = CASES[number]
    inputs = [
        tensor.from_numpy(np.array(x, np.float64 if x.dtype.kind == "f" else x.dtype))
        if isinstance(x, np.ndarray)
        else x
        for x in operands
    ]
    inputs = [x[:2] if isinstance(x, tensor.Tensor) and x.shape[0] == 4 else x for x in inputs]
    differentiable = [
        x.requires_grad_() if isinstance(x, tensor.Tensor) and x.is_floating_point() else x
        for x in inputs[:1]
    ]

    def function(x: Any) -> Any:
        return _function(name)(x, *inputs[1:], reduction="sum", **options)

    assert tensor.autograd.gradcheck(function, differentiable)
    assert tensor.autograd.gradgradcheck(function, differentiable)


@pytest.mark.parametrize(
    "name", ["mse_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy_with_logits"]
)
@pytest.mark.sampled(4)
def test_derivatives_of_targets_and_on_devices(name: str, device_name: str) -> None:
    x = on(device_name, _RNG.standard_normal((2, 3)), grad=True)
    y = on(device_name, _RNG.random((2, 3)) + 0.1, grad=True)

    def function(x: Any, y: Any) -> Any:
        return _function(name)(x, y, reduction="sum")

    assert tensor.autograd.gradcheck(function, (x, y), fast_mode=device_name == "cuda")
    assert tensor.autograd.gradgradcheck(function, (x, y), fast_mode=device_name == "cuda")


def test_half_precision(device_name: str) -> None:
    for dtype, tolerance in ((tensor.float16, 2e-3), (tensor.bfloat16, 2e-2)):
        x, y = (on(device_name, each).to(dtype) for each in (_X, _Y))
        x.requires_grad_()
        wide = x.detach().double().requires_grad_()
        result, expected = elementwise.mse_loss(x, y), elementwise.mse_loss(wide, y.double())
        assert result.dtype is dtype
        result.backward()
        expected.backward()
        close(result.double(), expected, tolerance)
        close(x.grad.double(), wide.grad, tolerance * 2)


def test_reduced_in_one_kernel_over_any_strides(checked_device: str) -> None:
    x, y = on(checked_device, _X, grad=True), on(checked_device, _Y)
    result = elementwise.mse_loss(x.t(), y.t())
    close(result, elementwise.mse_loss(x, y))
    assert result.grad_fn.name() == "MseLossBackward0"
    result.backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), (_X - _Y) * 2 / _X.size, rtol=1e-5)


@pytest.mark.parity
def test_positive_weights(device_name: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    assert_like_torch(
        device_name,
        lambda x, y, w: elementwise.binary_cross_entropy_with_logits(x, y, pos_weight=w),
        lambda x, y, w: functional.binary_cross_entropy_with_logits(x, y, pos_weight=w),
        (_X * 30, _chances(4, 5), _chances(5)),
        gradients=2,
    )


def test_differences_of_integers_and_complex_numbers(device_name: str) -> None:
    x, y = (tensor.tensor(each, device=device_name) for each in ([1, 5], [3, 2]))
    assert elementwise.l1_loss(x, y, reduction="sum").item() == 5
    z = tensor.tensor([3 + 4j, 0], device=device_name)
    assert elementwise.l1_loss(z, z * 0).item() == pytest.approx(2.5)


def test_probabilities_at_their_ends(device_name: str) -> None:
    x = tensor.tensor([0.0, 1.0, 0.0, 1.0], device=device_name)
    y = tensor.tensor([0.0, 1.0, 1.0, 0.0], device=device_name)
    result = elementwise.binary_cross_entropy(x, y, reduction="none").cpu()
    np.testing.assert_array_equal(result.numpy(), [0, 0, 100, 100])


def test_no_chances(request: pytest.FixtureRequest) -> None:
    x = tensor.tensor([0.5, 1.5])
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        elementwise.binary_cross_entropy(x, x)
    if request.config.getoption("--gpu"):
        return
    drv.simulator.install()
    with pytest.raises(drv.DeviceAssertError):
        elementwise.binary_cross_entropy(x.cuda(), x.cuda()).item()


@pytest.mark.parity
def test_similarities_like_pytorch(device_name: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    x, y = _normal(3, 4, 2), _normal(3, 4, 2)
    for name, options in (
        ("cosine_similarity", {}),
        ("cosine_similarity", {"dim": -1, "eps": 2.0}),
        ("pairwise_distance", {"p": 1.5}),
        ("pairwise_distance", {"keepdim": True}),
    ):
        assert_like_torch(
            device_name,
            lambda *a, name=name, options=options: getattr(similarity, name)(*a, **options),
            lambda *a, name=name, options=options: getattr(functional, name)(*a, **options),
            (x, y),
        )
    assert_like_torch(device_name, similarity.cosine_similarity, functional.cosine_similarity, (x, y[:1]))


def test_wrong_arguments() -> None:
    x = tensor.zeros(2, 3)
    for error, match, call in (
        (RuntimeError, "negative values for beta", lambda: elementwise.smooth_l1_loss(x, x, beta=-1)),
        (RuntimeError, "non-positive values for delta", lambda: elementwise.huber_loss(x, x, delta=0)),
        (ValueError, "different to the input size", lambda: elementwise.binary_cross_entropy(x, x[0])),
        (ValueError, "must be the same", lambda: elementwise.binary_cross_entropy_with_logits(x, x[0])),
        (ValueError, "not a valid value", lambda: elementwise.mse_loss(x, x, reduction="batchmean")),
        (ValueError, "negative entry", lambda: elementwise.gaussian_nll_loss(x, x, x - 1)),
        (ValueError, "incorrect size", lambda: elementwise.gaussian_nll_loss(x, x, x[:1])),
        (ValueError, "greater than 0", lambda: similarity.triplet_margin_loss(x, x, x, margin=0)),
        (RuntimeError, "target tensor", lambda: similarity.cosine_embedding_loss(x, x, x)),
        (ValueError, "p == 1", lambda: margins.multi_margin_loss(x, tensor.zeros(2).long(), p=3)),
    ):
        with pytest.raises(error, match=match):
            call()
    with pytest.warns(UserWarning, match="different to the input size"):
        elementwise.mse_loss(x, x[0])
