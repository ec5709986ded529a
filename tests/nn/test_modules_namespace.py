"""``nn.modules``: PyTorch's places of the classes of ``nn``."""

from __future__ import annotations

import importlib

import pytest

import nn
import parallel
from tests.pytorch import torch


def test_classes_are_those_of_nn() -> None:
    assert nn.modules.Linear is nn.Linear
    assert nn.modules.conv.Conv2d is nn.Conv2d
    assert nn.modules.batchnorm.SyncBatchNorm is parallel.SyncBatchNorm
    assert set(nn.modules.__all__) <= {*nn.__all__, "SyncBatchNorm"}


def test_submodules_can_be_imported() -> None:
    from nn.modules.utils import _pair, _single

    assert _pair(3) == (3, 3)
    assert _pair([1, 2]) == (1, 2)
    assert _single(1) == (1,)
    assert importlib.import_module("nn.modules.conv") is nn.modules.conv


@pytest.mark.parametrize(
    ("base", "layer"),
    [
        (nn.modules.batchnorm._BatchNorm, nn.BatchNorm2d(3)),
        (nn.modules.batchnorm._NormBase, nn.InstanceNorm1d(3)),
        (nn.modules.conv._ConvNd, nn.ConvTranspose2d(3, 3, 1)),
        (nn.modules.conv._ConvTransposeNd, nn.ConvTranspose2d(3, 3, 1)),
        (nn.modules.dropout._DropoutNd, nn.Dropout()),
        (nn.modules.loss._Loss, nn.MSELoss()),
        (nn.modules.loss._WeightedLoss, nn.NLLLoss()),
        (nn.modules.pooling._MaxPoolNd, nn.MaxPool2d(2)),
    ],
)
def test_base_classes(base: type, layer: nn.Module) -> None:
    assert isinstance(layer, base)
    assert not isinstance(nn.Linear(1, 1), base)


def test_a_missing_class_is_named() -> None:
    with pytest.raises(
        AttributeError, match=r"'nn.modules.conv' has no attribute 'Conv2D': did you mean 'Conv2d'"
    ):
        _ = nn.modules.conv.Conv2D


@pytest.mark.parity
def test_places_are_pytorchs() -> None:
    theirs = torch.nn.modules
    for name in nn.modules._CLASSES:
        for each in getattr(nn.modules, name).__all__:
            assert getattr(getattr(theirs, name), each) is getattr(torch.nn, each)
    utils = theirs.utils
    for name in ("_single", "_pair", "_triple", "_quadruple"):
        for x in (2, [5, 6], "a"):
            assert getattr(utils, name)(x) == getattr(nn.modules.utils, name)(x)
    assert tuple(utils._reverse_repeat_tuple((1, 2, 3), 2)) == nn.modules.utils._reverse_repeat_tuple(
        (1, 2, 3), 2
    )
