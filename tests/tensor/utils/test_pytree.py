"""``tensor.utils._pytree``: leaves and structure of nested containers."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import time
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import TYPE_CHECKING, Any

import pytest

import tensor
from tensor.utils import _pytree as pytree
from tests.pytorch import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class Pair:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


@pytest.fixture
def containers() -> Iterator[dict[Any, Any]]:
    """The table of containers, in which what a test registers is forgotten afterwards."""
    nodes = pytree.containers.nodes
    before = dict(nodes)
    yield nodes
    nodes.clear()
    nodes.update(before)


@pytest.mark.usefixtures("containers")
def test_own_containers() -> None:
    pytree.register_pytree_node(Pair, lambda x: ([x.a, x.b], None), lambda values, _: Pair(*values))
    doubled = pytree.tree_map(lambda x: 2 * x, [Pair(1, (2,))])
    assert (doubled[0].a, doubled[0].b) == (2, (4,))
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Pair, lambda x: ([], None), lambda values, _: None)
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn"):
        pytree.tree_leaves_with_path([Pair(1, 2)])
    with pytest.raises(NotImplementedError, match="its class has no name there"):
        pytree.treespec_dumps(pytree.tree_structure(Pair(1, 2)))


@pytest.mark.usefixtures("containers")
def test_containers_with_keys_and_a_name() -> None:
    with pytest.raises(ValueError, match="must be None or registered"):
        pytree.register_pytree_node(Pair, len, len, to_dumpable_context=str)
    pytree.register_pytree_node(
        Pair,
        lambda x: ([x.a, x.b], {1}),
        lambda values, _: Pair(*values),
        serialized_type_name="tests.Pair",
        to_dumpable_context=sorted,
        from_dumpable_context=set,
        flatten_with_keys_fn=lambda x: ([(pytree.GetAttrKey(n), getattr(x, n)) for n in "ab"], {1}),
    )
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path([Pair(1, [2])])] == [
        "[0].a",
        "[0].b[0]",
    ]
    spec = pytree.tree_structure(Pair(1, 2))
    assert "tests.Pair" in pytree.treespec_dumps(spec)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


@dataclasses.dataclass
class Batch:
    x: Any
    y: Any = None
    note: str = "none"


@pytest.mark.usefixtures("containers")
def test_dataclasses() -> None:
    pytree.register_dataclass(Batch, field_names=["x", "y"], drop_field_names=["note"])
    batch = Batch([1, 2], note="lost")
    assert pytree.tree_leaves(batch) == [1, 2]
    assert pytree.tree_map(lambda x: -x, batch) == Batch([-1, -2])
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(batch)] == [".x[0]", ".x[1]"]
    with pytest.raises(ValueError, match="only be used with dataclasses"):
        pytree.register_dataclass(Pair)
    with pytest.raises(ValueError, match="differ in note"):
        pytree.register_dataclass(Batch, field_names=["x", "y"])


def test_structures() -> None:
    spec = pytree.tree_structure({"a": [1, (2, 3)], "b": None})
    assert (spec.type, spec.num_children, spec.num_nodes, spec.num_leaves) == (dict, 2, 7, 4)
    assert spec.child(1) == pytree.LeafSpec() == pytree.tree_structure(5)
    assert isinstance(spec.children()[1], pytree.LeafSpec)
    assert spec.children_specs == spec.children()
    assert hash(spec) == hash(pytree.tree_structure({"a": [5, (6, 7)], "b": 8}))
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.flatten_up_to({"b": [0], "a": [1, (2, {})]}) == [1, 2, {}, [0]]
    for wrong, words in (
        ([1], "Node type mismatch"),
        ({"a": [1, (2, 3)]}, "keys mismatch"),
        ({"a": [1], "b": 2}, "expected 2, but got 1"),
    ):
        with pytest.raises(ValueError, match=words):
            spec.flatten_up_to(wrong)
    limited = pytree.tree_structure(deque([1], maxlen=2))
    with pytest.raises(ValueError, match="context mismatch"):
        limited.flatten_up_to(deque([1]))


def test_text_refuses() -> None:
    with pytest.raises(TypeError, match="instance of PyTreeSpec"):
        pytree.treespec_dumps(3)
    for call in (
        lambda: pytree.treespec_dumps(pytree.LeafSpec(), 2),
        lambda: pytree.treespec_loads("[2, {}]"),
    ):
        with pytest.raises(ValueError, match="Unknown protocol 2"):
            call()
    with pytest.raises(NotImplementedError, match="'no.Class' in pytree is not registered"):
        pytree.treespec_loads('[1, {"type": "no.Class", "context": null, "children_spec": []}]')
    with pytest.raises(NotImplementedError, match="named tuple"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))


def test_named_tuples_with_a_name_in_text() -> None:
    pytree._register_namedtuple(Point, serialized_type_name="tests.Point")
    try:
        spec = pytree.tree_structure([Point(1, 2)])
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    finally:
        pytree.containers._named_tuples.clear()


def test_kinds_of_tuples() -> None:
    assert pytree.is_namedtuple(Point)
    assert pytree.is_namedtuple(Point(1, 2))
    assert pytree.is_namedtuple_instance(tensor.ones(2, 2).max(0))
    assert not pytree.is_namedtuple((1, 2))
    assert pytree.is_structseq(time.localtime())
    assert pytree.is_structseq(time.struct_time)
    assert not pytree.is_structseq_instance(Point(1, 2))


def test_some_leaves_and_paths() -> None:
    assert pytree.tree_map_with_path(
        lambda path, a, b: (pytree.keystr(path), a, b), {"a": 1}, {"a": [4]}
    ) == {"a": ("['a']", 1, [4])}
    seen: list[Any] = []
    tree = [1, "a"]
    assert pytree.tree_map_only_(int, seen.append, tree) is tree
    assert seen == [1]
    assert pytree.tree_all_only(int, lambda x: x > 0, [1, "a"])
    assert not pytree.tree_any_only(int, lambda x: x > 1, [1, "a"])
    assert pytree.key_get({"a": [5]}, (pytree.MappingKey("a"), pytree.SequenceKey(0))) == 5


@pytest.mark.parity
@pytest.mark.parametrize("tree", [*TREES, Point(1, [2]), ({"b": (1,)}, [[2, 3], None])])
def test_structures_and_paths_are_pytorchs(tree: Any) -> None:
    assert torch.utils is not None
    theirs = importlib.import_module("torch.utils._pytree")
    (pairs, spec), (their_pairs, their_spec) = (
        each.tree_flatten_with_path(tree) for each in (pytree, theirs)
    )
    assert [(pytree.keystr(path), leaf) for path, leaf in pairs] == [
        (theirs.keystr(path), leaf) for path, leaf in their_pairs
    ]
    assert repr(pairs) == repr(their_pairs)
    assert repr(spec) == repr(their_spec)
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (
        their_spec.num_leaves,
        their_spec.num_nodes,
        their_spec.num_children,
    )
    assert pytree.treespec_pprint(spec) == theirs.treespec_pprint(their_spec)
    if "namedtuple" not in repr(spec):
        text = pytree.treespec_dumps(spec)
        assert text == theirs.treespec_dumps(their_spec)
        assert pytree.treespec_loads(text) == spec
    assert list(pytree.tree_iter(tree)) == list(theirs.tree_iter(tree))
    assert pytree.tree_is_leaf(tree) == theirs.tree_is_leaf(tree)
    assert pytree.arg_tree_leaves(tree, k=tree) == theirs.arg_tree_leaves(tree, k=tree)


@pytest.mark.parity
def test_sizes_are_containers_as_pytorchs() -> None:
    theirs = importlib.import_module("torch.utils._pytree")
    (leaves, spec), (their_leaves, their_spec) = (
        each.tree_flatten(library.ones(2, 3).shape) for each, library in ((pytree, tensor), (theirs, torch))
    )
    assert leaves == their_leaves
    assert repr(spec) == repr(their_spec)
    assert pytree.treespec_dumps(spec) == theirs.treespec_dumps(their_spec)
    assert isinstance(spec.unflatten([4, 5]), tensor.Size)
