"""``tensor.utils._pytree``: leaves and structure of nested containers."""

from __future__ import annotations

import importlib
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest

import tensor
from tensor.utils import _pytree as pytree
from tests.pytorch import torch

Point = namedtuple("Point", "x y")  # noqa: PYI024 - what programs have

TREES: list[Any] = [
    3,
    None,
    [],
    {"b": 1, "a": [2, (3, None)]},
    OrderedDict(z=1, a=Point([2], 3)),
    defaultdict(list, {"k": [1]}),
    deque([1, {"x": 2}], maxlen=4),
    ((), {}, [[]]),
]


@pytest.mark.parametrize("tree", TREES)
def test_round_trip(tree: Any) -> None:
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec.num_leaves == len(leaves)
    assert pytree.tree_structure(tree) == spec


@pytest.mark.parity
@pytest.mark.parametrize("tree", TREES)
def test_leaves_are_pytorchs(tree: Any) -> None:
    assert torch.utils is not None
    theirs = importlib.import_module("torch.utils._pytree")
    assert pytree.tree_leaves(tree) == theirs.tree_leaves(tree)
    for name in ("tree_map", "tree_map_"):
        mine, other = (getattr(each, name)(repr, tree) for each in (pytree, theirs))
        assert mine == other
    is_leaf = lambda x: isinstance(x, (list, Point))  # noqa: E731
    assert pytree.tree_leaves(tree, is_leaf) == theirs.tree_leaves(tree, is_leaf)
    assert pytree.tree_map_only(int, str, tree) == theirs.tree_map_only(int, str, tree)


def test_details_survive() -> None:
    again = pytree.tree_map(lambda x: x, defaultdict(list, a=deque([1], 3)))
    assert again["new"] == []
    assert again["a"].maxlen == 3


def test_map_over_several_trees() -> None:
    assert pytree.tree_map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]}) == {"x": [11, 22]}
    with pytest.raises(ValueError, match="does not have the structure"):
        pytree.tree_map(lambda a, b: a, [1, 2], (1, 2))
    with pytest.raises(ValueError, match="2 leaves do not fit a structure of 1 leaves"):
        pytree.tree_unflatten([1, 2], pytree.tree_structure([0]))
    with pytest.raises(TypeError, match="must be a TreeSpec, not int"):
        pytree.tree_unflatten([1], 3)


def test_choice_of_leaves(device: object) -> None:
    batch = {"x": tensor.ones(2), "names": ["a"], "pair": (tensor.zeros(1), None)}
    moved = pytree.tree_map_only(tensor.Tensor, lambda x: x.cuda(), batch)
    assert moved["x"].is_cuda
    assert moved["pair"][0].is_cuda
    assert (moved["names"], moved["pair"][1]) == (["a"], None)
    assert pytree.tree_map_only(lambda x: x == "a", str.upper, ["a", "b"]) == ["A", "b"]
    assert pytree.tree_map_only((int, str), repr, [1, "a", None]) == ["1", "'a'", None]
    assert pytree.tree_all(lambda x: x > 0, [1, (2,)])
    assert not pytree.tree_any(lambda x: x > 2, [1, (2,)])


def test_own_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytree, "_nodes", dict(pytree._nodes))

    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    pytree.register_pytree_node(Pair, lambda x: ([x.a, x.b], None), lambda values, _: Pair(*values))
    doubled = pytree.tree_map(lambda x: 2 * x, [Pair(1, (2,))])
    assert (doubled[0].a, doubled[0].b) == (2, (4,))
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Pair, lambda x: ([], None), lambda values, _: None)
