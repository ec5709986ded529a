"""Modules of losses against PyTorch's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tests.nn.parity import assert_like_pytorch
from tests.nn.test_signatures import assert_same_parameters
from tests.pytorch import torch
from tests.tensor.comparison import array_of

pytestmark = pytest.mark.parity

_RNG = np.random.default_rng(0)
_X, _Y, _Z = (_RNG.standard_normal((4, 5)).astype(np.float32) for _ in range(3))
_CHANCES = (_RNG.random((4, 5)) * 0.9 + 0.05).astype(np.float32)
_SIGNS = np.where(_X * _Y > 0, 1, -1).astype(np.float32)
_CLASSES = np.array([0, 4, 2, 1])
_WEIGHTS = _CHANCES[0]
#: Class, options (arrays become tensors), operands.
LOSSES: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("L1Loss", {}, (_X, _Y)),
    ("MSELoss", {"reduction": "sum"}, (_X, _Y)),
    ("SmoothL1Loss", {"beta": 0.5}, (_X, _Y)),
    ("HuberLoss", {"delta": 0.5}, (_X, _Y)),
    ("CrossEntropyLoss", {"weight": _WEIGHTS, "label_smoothing": 0.1}, (_X, _CLASSES)),
    ("CrossEntropyLoss", {"ignore_index": 2}, (_X, _CLASSES)),
    ("NLLLoss", {"weight": _WEIGHTS}, (_X, _CLASSES)),
    ("BCELoss", {"weight": _WEIGHTS}, (_CHANCES, _CHANCES)),
    ("BCEWithLogitsLoss", {"pos_weight": _WEIGHTS}, (_X, _CHANCES)),
    ("KLDivLoss", {"reduction": "batchmean"}, (_X, _CHANCES)),
    ("PoissonNLLLoss", {"full": True}, (_X, _CHANCES)),
    ("GaussianNLLLoss", {"full": True}, (_X, _Y, _CHANCES)),
    ("SoftMarginLoss", {}, (_X, _SIGNS)),
    ("HingeEmbeddingLoss", {"margin": 0.5}, (_X, _SIGNS)),
    ("MarginRankingLoss", {"margin": 0.5}, (_X, _Y, _SIGNS)),
    ("MultiMarginLoss", {"p": 2, "weight": _WEIGHTS}, (_X, _CLASSES)),
    ("MultiLabelMarginLoss", {}, (_X, np.array([[0, 3, -1, 2, 2]] * 4))),
    ("MultiLabelSoftMarginLoss", {"weight": _WEIGHTS}, (_X, _CHANCES)),
    ("CosineEmbeddingLoss", {"margin": 0.1}, (_X, _Y, _SIGNS[:, 0])),
    ("TripletMarginLoss", {"p": 1.0, "swap": True}, (_X, _Y, _Z)),
    ("TripletMarginWithDistanceLoss", {"margin": 0.5}, (_X, _Y, _Z)),
    ("CTCLoss", {"zero_infinity": True}, (_X - 3, np.array([1, 2]), np.array([4]), np.array([2]))),
    ("PairwiseDistance", {"p": 1.0}, (_X, _Y)),
    ("CosineSimilarity", {"dim": 0}, (_X, _Y)),
]


@pytest.mark.parametrize("number", range(len(LOSSES)), ids=lambda number: f"{LOSSES[number][0]}-{number}")
def test_like_pytorch(number: int) -> None:
    torch = pytest.importorskip("torch")
    name, options, operands = LOSSES[number]

    def result(library: Any, layers: Any) -> Any:
        argument = {
            key: library.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
            for key, value in options.items()
        }
        module = getattr(layers, name)(**argument)
        inputs = [library.from_numpy(each.copy()) for each in operands]
        inputs[0].requires_grad_()
        result = module(*inputs)
        result.sum().backward()
        return result, inputs[0].grad, sorted(module.state_dict()), repr(module)

    mine, theirs = result(tensor, nn), result(torch, torch.nn)
    for left, right in zip(mine[:2], theirs[:2], strict=True):
        np.testing.assert_allclose(array_of(left), array_of(right), rtol=2e-5, atol=1e-5)
    assert mine[2:] == theirs[2:]


def test_old_arguments() -> None:
    def program(library: Any, layers: Any) -> Any:
        return [layers.MSELoss(size_average=False).reduction, layers.MSELoss(reduce=False).reduction]

    assert_like_pytorch(program)


def test_what_is_refused() -> None:
    def program(library: Any, layers: Any) -> Any:
        results = []
        for call in (
            lambda: layers.TripletMarginLoss(margin=0),
            lambda: layers.MultiMarginLoss(p=3),
            lambda: layers.MSELoss(reduction="all")(library.zeros(2), library.zeros(2)),
            lambda: layers.BCELoss()(library.zeros(2), library.zeros(3)),
            lambda: layers.CrossEntropyLoss()(library.zeros(2, 3), library.zeros(3).long()),
            lambda: layers.CrossEntropyLoss()(library.zeros(2, 3), library.tensor([0, 3])),
        ):
            try:
                call()
            except Exception as error:
                results.append(type(error).__name__)
        return results

    assert_like_pytorch(program)


def test_signatures_of_functions() -> None:
    torch = pytest.importorskip("torch")
    for name in nn.functional.__all__:
        if "loss" in name or "norm" in name or "dropout" in name or "embedding" in name or "entropy" in name:
            theirs = getattr(torch.nn.functional, name)
            if inspect.isfunction(theirs):
                assert_same_parameters(getattr(nn.functional, name), theirs)


@pytest.mark.parametrize("delta", [1j, "1"])
def test_the_delta_of_a_huber_loss_is_a_number(delta: Any) -> None:
    for layers in (nn, torch.nn):
        with pytest.raises(TypeError, match="delta must be a float or int"):
            layers.HuberLoss(delta=delta)
