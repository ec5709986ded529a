"""Derivatives of the first three orders of every loss, of input and target."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tensor.autograd import gradcheck, gradgradcheck
from tests.tensor.comparison import array_of

_RNG = np.random.default_rng(4)
_X, _Y, _Z = (_RNG.standard_normal((3, 4)) * 2 for _ in range(3))
_P, _Q = (_RNG.uniform(0.1, 0.9, (3, 4)) for _ in range(2))
_WEIGHT = _RNG.uniform(0.5, 1.5, 4)
_CLASSES, _SIGNS = np.array([0, 3, 1]), np.array([1.0, -1.0, 1.0])
_LABELS = np.array([[1, 3, -1, 0], [0, -1, 1, 1], [2, 1, 0, -1]])

#: Name, how many of the first arrays have gradients, arrays, options.
CASES: dict[str, tuple[str, int, tuple[Any, ...], dict[str, Any]]] = {
    "mse": ("mse_loss", 2, (_X, _Y), {}),
    "l1": ("l1_loss", 2, (_X, _Y), {}),
    "smooth l1": ("smooth_l1_loss", 2, (_X, _Y), {"beta": 1.7}),
    "huber": ("huber_loss", 2, (_X, _Y), {"delta": 1.3}),
    "bce": ("binary_cross_entropy", 2, (_P, _Q), {}),
    "bce weight": ("binary_cross_entropy", 2, (_P, _Q, _WEIGHT), {}),
    "bce logits": ("binary_cross_entropy_with_logits", 2, (_X, _Q), {}),
    "bce logits weight": ("binary_cross_entropy_with_logits", 2, (_X, _Q, _WEIGHT), {}),
    "kl": ("kl_div", 2, (_X, _P), {}),
    "kl log": ("kl_div", 2, (_X, _Y), {"log_target": True}),
    "poisson": ("poisson_nll_loss", 2, (_X, _P), {}),
    "poisson full": ("poisson_nll_loss", 2, (_P, _Q + 2), {"log_input": False, "full": True}),
    "gaussian": ("gaussian_nll_loss", 3, (_X, _Y, _P), {"full": True}),
    "soft margin": ("soft_margin_loss", 1, (_X, np.sign(_Y)), {}),
    "hinge": ("hinge_embedding_loss", 1, (_X, np.sign(_Y)), {"margin": 0.5}),
    "ranking": ("margin_ranking_loss", 2, (_X, _Y, np.sign(_Z)), {"margin": 0.5}),
    "nll": ("nll_loss", 1, (_X, _CLASSES, _WEIGHT), {}),
    "nll ignored": ("nll_loss", 1, (_X, _CLASSES), {"ignore_index": 3}),
    "nll 2d": ("nll_loss", 1, (_X.reshape(3, 2, 2), np.array([[0, 1], [1, 1], [1, 0]])), {}),
    "nll of one": ("nll_loss", 1, (_X[0], np.array(2)), {}),
    "cross entropy": ("cross_entropy", 1, (_X, _CLASSES, _WEIGHT), {}),
    "cross entropy smooth": ("cross_entropy", 1, (_X, _CLASSES), {"label_smoothing": 0.2}),
    "cross entropy of probabilities": ("cross_entropy", 2, (_X, _P, _WEIGHT), {"label_smoothing": 0.1}),
    "multilabel soft margin": ("multilabel_soft_margin_loss", 2, (_X, _P, _WEIGHT), {}),
    "multi margin": ("multi_margin_loss", 1, (_X, _CLASSES), {"margin": 0.6}),
    "multi margin 2": ("multi_margin_loss", 1, (_X, _CLASSES, 2), {}),
    "multilabel margin": ("multilabel_margin_loss", 1, (_X, _LABELS), {}),
    "cosine embedding": ("cosine_embedding_loss", 2, (_X, _Y, _SIGNS), {}),
    "triplet": ("triplet_margin_loss", 3, (_X, _Y, _Z), {"swap": True}),
    "triplet with distance": ("triplet_margin_with_distance_loss", 3, (_X, _Y, _Z), {"margin": 2.0}),
}
#: PyTorch has no second derivative of these.
_ONCE_IN_PYTORCH = {"multi margin", "multi margin 2", "multilabel margin"}


class _Graphroot:
    """This project under PyTorch's names."""

    nn, autograd = nn, tensor.autograd


def _arrays(library: Any, name: str, device: str = "cpu") -> list[Any]:
    make = tensor.from_numpy if library is _Graphroot else library.from_numpy
    return [make(x.copy()).to(device) if isinstance(x, np.ndarray) else x for x in CASES[name][2]]


def _apply(library: Any, name: str, arrays: Any, reduction: str) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "reduction: 'mean' divides")
        return getattr(library.nn.functional, CASES[name][0])(*arrays, reduction=reduction, **CASES[name][3])


def slopes(library: Any, name: str, reduction: str, position: int, device: str = "cpu") -> list[Any]:
    """The first three derivatives with respect to one of the arrays, each times the array before the next one."""
    arrays = _arrays(library, name, device)
    x = arrays[position].requires_grad_()
    y, results = _apply(library, name, arrays, reduction), []
    for _ in range(1 if name in _ONCE_IN_PYTORCH else 3):
        (y,) = library.autograd.grad((y * y).sum(), x, create_graph=True)
        results.append(y.detach())
        y = y * x.exp()
    return results


@pytest.mark.parametrize("name", CASES)
def test_three_orders(name: str) -> None:
    count, arrays = CASES[name][1], _arrays(_Graphroot, name)
    inputs = tuple(x.requires_grad_() for x in arrays[:count])
    for reduction in ("none", "mean"):

        def function(*inputs: Any, how: str = reduction) -> Any:
            return _apply(_Graphroot, name, [*inputs, *arrays[count:]], how)

        def gradient(direction: Any, *inputs: Any, function: Any = function) -> Any:
            result = function(*inputs)
            return tensor.autograd.grad(result, inputs, direction, create_graph=True)

        shape = function(*inputs).shape
        direction = tensor.tensor(_RNG.uniform(0.5, 1.5, shape), requires_grad=True)
        assert gradcheck(function, inputs)
        assert gradcheck(gradient, (direction, *inputs), fast_mode=reduction == "none")
        assert gradgradcheck(gradient, (direction, *inputs), fast_mode=True)


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_orders_like_pytorch(name: str, reduction: str) -> None:
    torch = pytest.importorskip("torch")
    for position in range(CASES[name][1]):
        results = slopes(_Graphroot, name, reduction, position)
        expected = slopes(torch, name, reduction, position)
        for order, (a, b) in enumerate(zip(results, expected, strict=True), 1):
            largest = np.abs(array_of(b)).max()
            np.testing.assert_allclose(
                array_of(a), array_of(b), rtol=1e-9, atol=1e-11 * largest, err_msg=f"order {order}"
            )


@pytest.mark.parametrize("name", ["huber", "bce", "bce logits", "kl", "nll", "cross entropy smooth"])
@pytest.mark.sampled(4)
def test_orders_on_a_device(name: str, checked_device: str) -> None:
    for position in range(CASES[name][1]):
        results = slopes(_Graphroot, name, "mean", position, checked_device)
        for a, b in zip(results, slopes(_Graphroot, name, "mean", position), strict=True):
            np.testing.assert_allclose(array_of(a), array_of(b), rtol=1e-10, atol=1e-12)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["mse", "l1", "smooth l1", "huber", "bce logits", "kl"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0)], ids=str)
def test_derivatives_of_scalars_and_of_nothing(name: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")

    def program(library: Any, make: Any) -> list[Any]:
        x = make(np.full(shape, 0.3)).requires_grad_()
        y = _apply(library, name, (x, make(np.full(shape, 0.6))), "sum") * x.sum().exp()
        results = []
        for _ in range(3):
            (y,) = library.autograd.grad(y.sum(), x, create_graph=True)
            results.append(array_of(y.detach()))
            y = y * x
        return results

    for a, b in zip(program(_Graphroot, tensor.from_numpy), program(torch, torch.from_numpy), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("name", ["bce", "bce logits", "kl", "kl log", "mse", "huber"])
@pytest.mark.sampled(4)
def test_gradient_is_the_same_whether_recorded_or_not(name: str, device_name: str) -> None:
    for dtype, tolerance in ((tensor.float64, 1e-13), (tensor.float16, 4e-3)):
        arrays = [x.to(dtype).requires_grad_() for x in _arrays(_Graphroot, name, device_name)]
        direction = tensor.linspace(0.5, 1.5, 12, device=device_name, dtype=dtype).reshape(3, 4)
        results = [
            tensor.autograd.grad(
                _apply(_Graphroot, name, arrays, "none"), arrays, direction, create_graph=each
            )
            for each in (False, True)
        ]
        for a, b in zip(*results, strict=True):
            assert a.dtype is b.dtype is dtype
            np.testing.assert_allclose(array_of(a), array_of(b.detach()), rtol=tolerance, atol=tolerance)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["mse_loss", "huber_loss", "kl_div", "l1_loss"])
def test_gradients_of_broadcast_inputs(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")

    def program(library: Any, make: Any) -> list[Any]:
        x, y = make(_P[0].copy()).requires_grad_(), make(_Q.copy()).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(library.nn.functional, name)(x, y, reduction="sum").backward()
        return [array_of(x.grad), array_of(y.grad)]

    results = program(_Graphroot, lambda x: tensor.from_numpy(x).to(device_name))
    for a, b in zip(results, program(torch, torch.from_numpy), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_ctc_has_no_second_derivative() -> None:
    x = tensor.tensor(np.log(_RNG.dirichlet(np.ones(4), (5, 1))), requires_grad=True)
    loss = nn.functional.ctc_loss(x, tensor.tensor([[1, 2]]), (5,), (2,))
    (first,) = tensor.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(NotImplementedError, match="_ctc_loss_backward"):
        tensor.autograd.grad(first.sum(), x)
