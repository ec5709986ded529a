"""Pruned parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.utils import prune
from tests.nn.parity import assert_like_pytorch
from tests.nn.test_signatures import assert_same_parameters

_WEIGHTS = np.random.default_rng(0).standard_normal((4, 6))


def layer_of(lib: Any, layers: Any) -> Any:
    layer = layers.Linear(6, 4).double()
    with lib.no_grad():
        layer.weight.copy_(lib.from_numpy(_WEIGHTS.copy()))
        layer.bias.copy_(lib.arange(4.0))
    return layer


def state(layer: Any) -> Any:
    return dict(layer.state_dict()), layer.weight, layer.bias, [name for name, _ in layer.named_parameters()]


PROGRAMS: dict[str, Any] = {
    "identity": lambda lib, layers, p, layer: p.identity(layer, "weight"),
    "count": lambda lib, layers, p, layer: p.l1_unstructured(layer, "weight", 5),
    "share": lambda lib, layers, p, layer: p.l1_unstructured(layer, "weight", 0.4),
    "nothing": lambda lib, layers, p, layer: p.l1_unstructured(layer, "weight", 0),
    "all": lambda lib, layers, p, layer: p.l1_unstructured(layer, "weight", 1.0),
    "scores": lambda lib, layers, p, layer: p.l1_unstructured(
        layer, "weight", 3, importance_scores=lib.arange(24.0).view(4, 6)
    ),
    "rows": lambda lib, layers, p, layer: p.ln_structured(layer, "weight", 2, n=2, dim=0),
    "columns": lambda lib, layers, p, layer: p.ln_structured(layer, "weight", 0.5, n=1, dim=-1),
    "infinity": lambda lib, layers, p, layer: p.ln_structured(layer, "weight", 1, n=float("inf"), dim=0),
    "mask": lambda lib, layers, p, layer: p.custom_from_mask(layer, "bias", lib.tensor([1, 0, 1, 0])),
    "twice": lambda lib, layers, p, layer: p.l1_unstructured(
        p.l1_unstructured(layer, "weight", 5), "weight", 0.5
    ),
    "rows after elements": lambda lib, layers, p, layer: p.ln_structured(
        p.l1_unstructured(layer, "weight", 9), "weight", 1, n=2, dim=0
    ),
    "three times": lambda lib, layers, p, layer: p.custom_from_mask(
        p.ln_structured(p.ln_structured(layer, "weight", 1, n=2, dim=0), "weight", 0.4, n=2, dim=1),
        "weight",
        lib.ones(4, 6).tril(),
    ),
    "removed": lambda lib, layers, p, layer: p.remove(p.l1_unstructured(layer, "weight", 5), "weight"),
    "several": lambda lib, layers, p, layer: p.global_unstructured(
        [(layer, "weight"), (layer, "bias")], p.L1Unstructured, amount=0.3
    ),
    "several again": lambda lib, layers, p, layer: p.global_unstructured(
        [(p.l1_unstructured(layer, "weight", 4), "weight"), (layer, "bias")], p.L1Unstructured, amount=6
    ),
    "not pruned": lambda lib, layers, p, layer: p.remove(layer, "weight"),
    "vector": lambda lib, layers, p, layer: p.ln_structured(layer, "bias", 1, n=2, dim=0),
    "dimension": lambda lib, layers, p, layer: p.ln_structured(layer, "weight", 1, n=2, dim=2),
    "negative": lambda lib, layers, p, layer: p.l1_unstructured(layer, "weight", -1),
    "too large": lambda lib, layers, p, layer: p.l1_unstructured(layer, "weight", 25),
    "too much": lambda lib, layers, p, layer: p.l1_unstructured(layer, "weight", 1.5),
    "text": lambda lib, layers, p, layer: p.l1_unstructured(layer, "weight", "all"),
    "shape of scores": lambda lib, layers, p, layer: p.l1_unstructured(
        layer, "weight", 1, importance_scores=lib.ones(2)
    ),
    "global rows": lambda lib, layers, p, layer: p.global_unstructured(
        [(layer, "weight")], p.LnStructured, amount=1, n=2
    ),
    "global scores": lambda lib, layers, p, layer: p.global_unstructured(
        [(layer, "weight")], p.L1Unstructured, importance_scores=[], amount=1
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_pytorch(name: str) -> None:
    def program(lib: Any, layers: Any) -> Any:
        # PyTorch has its module apart.
        methods = __import__(f"{layers.__name__}.utils.prune", fromlist=["prune"])
        layer = layer_of(lib, layers)
        PROGRAMS[name](lib, layers, methods, layer)
        before = methods.is_pruned(layer)
        layer(lib.ones(2, 6).double()).sum().backward()
        grads = {key: each.grad for key, each in layer.named_parameters()}
        return state(layer), grads, before, methods.is_pruned(layers.Sequential(layer))

    assert_like_pytorch(program)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_random_ones(device: str, request: pytest.FixtureRequest) -> None:
    if device == "cuda" and not request.config.getoption("--gpu"):
        import drv

        drv.simulator.install(check="race")
    layer = prune.random_unstructured(nn.Linear(6, 4, device=device), "weight", 0.25)
    assert layer.weight_mask.sum().item() == 18
    assert layer.weight_mask.device == layer.weight_orig.device
    prune.random_structured(layer, "weight", 2, dim=1)
    assert (layer.weight_mask.sum(0) == 0).sum().item() >= 2
    assert len(next(iter(layer._forward_pre_hooks.values())).function) == 2
    layer(tensor.ones(2, 6, device=device)).sum().backward()
    assert ((layer.weight_orig.grad == 0) == (layer.weight_mask == 0)).all().item()


def test_a_failure_changes_nothing() -> None:
    layer = nn.Linear(6, 4)
    with pytest.raises(ValueError, match="number of parameters to prune=24"):
        prune.l1_unstructured(layer, "weight", 25)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    prune.l1_unstructured(layer, "weight", 4)
    before = layer.weight_mask
    with pytest.raises(ValueError, match="number of parameters to prune=20"):
        prune.l1_unstructured(layer, "weight", 21)
    assert layer.weight_mask is before
    assert len(layer._forward_pre_hooks) == 1
    assert isinstance(next(iter(layer._forward_pre_hooks.values())).function, prune.L1Unstructured)


def test_methods_of_ones_own() -> None:
    class Checkerboard(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    layer = nn.Linear(6, 4)
    Checkerboard.apply(layer, "weight")
    assert layer.weight_mask.sum().item() == 12
    pruned = Checkerboard().prune(tensor.ones(5))
    assert pruned.tolist() == [0, 1, 0, 1, 0]
    container = prune.PruningContainer()
    with pytest.raises(TypeError, match="not a BasePruningMethod"):
        container.add_pruning_method(3)  # type: ignore[arg-type]


@pytest.mark.parity
@pytest.mark.parametrize("name", prune.__all__)
def test_names_and_arguments_are_pytorchs(name: str) -> None:
    theirs = pytest.importorskip("torch").nn.utils.prune
    mine, expected = getattr(prune, name), getattr(theirs, name)
    if not isinstance(mine, type):
        assert_same_parameters(mine, expected)
        return
    assert_same_parameters(mine.__init__, expected.__init__)
    for method in ("apply", "compute_mask", "prune", "remove", "apply_mask"):
        assert_same_parameters(getattr(mine, method), getattr(expected, method))
