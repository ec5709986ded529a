"""``nn.modules``: PyTorch's places of the classes of ``nn``."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from typing import Any

import pytest

import nn
import parallel
import tensor
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


def test_hooks_of_every_module_are_found_by_their_path() -> None:
    from nn.modules.module import register_module_forward_hook

    calls: list[Any] = []
    with register_module_forward_hook(lambda module, args, output: calls.append(module)):
        layer = nn.Identity()
        layer(1)
    layer(1)
    assert calls == [layer]


def _prefixed(library: Any) -> tuple[list[str], list[str]]:
    layer = library.nn.Sequential(library.nn.Linear(1, 1), library.nn.BatchNorm1d(1))
    state = library.nn.Sequential(OrderedDict(module=layer, other=library.nn.Linear(1, 1))).state_dict()
    library.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    return [*state], [*state._metadata]


def test_a_prefix_is_taken_off() -> None:
    keys, metadata = _prefixed(tensor)
    assert keys[:2] == ["other.weight", "other.bias"]
    assert keys[2] == "0.weight"
    assert {"", "0", "1", "other"} == {*metadata}


@pytest.mark.parity
def test_a_prefix_is_taken_off_as_by_pytorch() -> None:
    ours, theirs = _prefixed(tensor), _prefixed(torch)
    assert ours[0] == theirs[0]
    assert {*ours[1]} == {*theirs[1]}


@pytest.mark.parity
def test_hooks_by_path_are_pytorchs() -> None:
    names = [each for each in dir(torch.nn.modules.module) if each.startswith("register_module_")]
    assert all(callable(getattr(nn.modules.module, each)) for each in names)
