"""Replacing parts of a graph by others."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.fx import Graph, replace_pattern, subgraph_rewriter, symbolic_trace
from tests.pytorch import torch


def _cases(m: Any) -> dict[str, tuple[Any, Any, Any, tuple[Any, ...]]]:
    """Function, pattern, replacement, arguments."""
    random = np.random.default_rng(0)
    x, y = (m.from_numpy(random.standard_normal((3, 3))) for _ in range(2))

    class Net(m.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = m.nn.ReLU()
            self.second = m.nn.Tanh()

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x) + self.first(x))

    return {
        "one": (lambda x: m.relu(x) + 1, lambda x: m.relu(x), lambda x: m.sigmoid(x), (x,)),
        "several": (
            lambda x, w, v: x + m.max(m.cat([w, v]).sum()) + m.max(m.cat([w, v]).sum()),
            lambda w, v: m.cat([w, v]),
            lambda w, v: m.stack([w, v, v]),
            (x, x, y),
        ),
        "chain": (
            lambda x: m.neg(m.relu(m.neg(m.relu(x)))),
            lambda x: m.neg(m.relu(x)),
            lambda x: x * 2,
            (x,),
        ),
        "unused parameter": (
            lambda x, y: m.neg(x) + m.relu(y),
            lambda x, y: m.neg(x) + m.relu(y),
            lambda x, y: m.relu(x),
            (x, y),
        ),
        "used elsewhere": (
            lambda x: m.neg(m.relu(x)) + m.relu(x) + (lambda r: m.neg(r) + r)(m.relu(x)),
            lambda x: m.neg(m.relu(x)),
            lambda x: x * 3,
            (x,),
        ),
        "overlap": (lambda x: m.relu(m.relu(m.relu(x))), lambda x: m.relu(m.relu(x)), lambda x: x + 1, (x,)),
        "literal": (lambda x: (x + 1) * (x + 2), lambda x: x + 1, lambda x: x - 5, (x,)),
        "no match": (lambda x: x + 1, lambda x: m.relu(x), lambda x: m.sigmoid(x), (x,)),
        "same twice": (lambda x, y: (x + x) * (x + y), lambda x: x + x, lambda x: x * 7, (x, y)),
        "method": (lambda x: x.sum(dim=0).relu(), lambda x: x.sum(dim=0), lambda x: x.mean(dim=0), (x,)),
        "other keyword": (lambda x: x.sum(dim=0), lambda x: x.sum(dim=1), lambda x: x.mean(dim=0), (x,)),
        "two results": (
            lambda x, y: (lambda s: m.relu(m.neg(s)) * m.abs(m.tanh(s)))(x + y),
            lambda x: (m.neg(x), m.tanh(x)),
            lambda x: (x * 2, x * 3),
            (x, y),
        ),
        "returned": (lambda x: m.relu(x), lambda x: m.relu(x), lambda x: m.neg(m.abs(x)), (x,)),
        "slices": (lambda x: x[0:2, 1] + x[1, 0:2], lambda x: x[0:2, 1], lambda x: x[1:3, 0], (x,)),
        "modules": (Net(), lambda x, y: x + y, lambda x, y: x - y * 2, (x,)),
    }


@pytest.mark.parametrize("name", _cases(tensor))
def test_the_code_does_what_the_replacement_does(name: str) -> None:
    function, pattern, replacement, arguments = _cases(tensor)[name]
    traced = symbolic_trace(function)
    before = traced(*arguments)
    matches = replace_pattern(traced, pattern, replacement)
    traced.graph.lint()
    assert bool(matches) is (name not in ("no match", "other keyword"))
    assert tensor.equal(traced(*arguments), before) is not bool(matches)
    for match in matches:
        assert match.nodes_map[match.anchor] is not None


@pytest.mark.parity
@pytest.mark.parametrize("name", _cases(tensor))
def test_results_are_pytorchs(name: str) -> None:
    theirs = importlib.import_module("torch.fx")
    outcomes = []
    for m, fx in ((tensor, nn.fx), (torch, theirs)):
        function, pattern, replacement, arguments = _cases(m)[name]
        traced = fx.symbolic_trace(function)
        matches = fx.replace_pattern(traced, pattern, replacement)
        outcomes.append((len(matches), len([*traced.graph.nodes]), traced(*arguments).numpy()))
    assert outcomes[0][:2] == outcomes[1][:2]
    assert outcomes[0][2] == pytest.approx(outcomes[1][2], rel=1e-12)


class _Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.scale = nn.Parameter(tensor.full((3,), 2.0))

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.scale


def test_modules_and_parameters_of_the_replacement_are_added() -> None:
    traced = symbolic_trace(lambda x: tensor.relu(x))
    new = symbolic_trace(_Scaled())
    assert len(replace_pattern(traced, lambda x: tensor.relu(x), new)) == 1
    x = tensor.randn(2, 3)
    assert tensor.equal(traced(x), new(x))
    assert {name for name, _ in traced.named_parameters()} == {"layer.weight", "layer.bias", "scale"}
    assert traced.layer is not new.layer


def test_filters_literals_and_callbacks() -> None:
    traced = symbolic_trace(lambda x: (x + 1) * (x + 2) * (x + 3))
    seen: list[Any] = []

    def second(match: Any, graph: Graph, pattern: Graph) -> bool:
        seen.append(match.returning_nodes[0].args[1])
        return seen[-1] == 2

    def less(match: Any, graph: Graph, pattern: Graph) -> Graph:
        number = match.returning_nodes[0].args[1]
        return symbolic_trace(lambda x: x - number).graph

    replaced = subgraph_rewriter.replace_pattern_with_filters(
        traced, lambda x: x + 1, None, [second], ignore_literals=True, replacement_callback=less
    )
    assert seen == [1, 2, 3]
    assert [node.args[1] for node in replaced[0].replacements] == [2]
    assert traced(tensor.tensor(1.0)) == 2 * -1 * 4


def test_what_is_refused() -> None:
    for pattern, replacement, error, words in (
        (lambda x: x, lambda x: -x, ValueError, "must return what it has computed"),
        (lambda x, y: tensor.relu(x), lambda x, y: x, ValueError, "does not use its parameters y"),
        (lambda x: tensor.relu(x), lambda x, y: x + y, RuntimeError, "has 2 parameters, and the pattern 1"),
        (
            lambda x: tensor.relu(x),
            lambda x: (x + 1, x + 2),
            RuntimeError,
            "has 2 results, and the pattern 1",
        ),
    ):
        with pytest.raises(error, match=words):
            replace_pattern(symbolic_trace(lambda x: tensor.relu(x)), pattern, replacement)
    with pytest.raises(ValueError, match="Must provide replacement"):
        subgraph_rewriter.replace_pattern_with_filters(
            symbolic_trace(lambda x: x + 1), lambda x: tensor.relu(x)
        )
