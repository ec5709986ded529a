"""``TreeSpec``: the structure of a tree without its leaves."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

from .containers import class_of, nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Containers that take each other's place, and whose order of keys does not matter.
_DICTS = (dict, OrderedDict, defaultdict)


class TreeSpec:
    """The structure of a nest of containers, which are compared by ``==``.

    Parameters
    ----------
    type, context
        As the attributes.
    children : sequence of TreeSpec
        The structures of the entries.

    Attributes
    ----------
    type : type or None
        The class of the outermost container; None of a leaf, ``collections.namedtuple`` of any named tuple.
    context
        What else puts it together: a dict's keys, a deque's length, the class of a named tuple.
    """

    __slots__ = ("_children", "context", "type")

    def __init__(self, type: type | None, context: Any = None, children: Sequence[TreeSpec] = ()) -> None:
        self.type = type
        self.context = context
        self._children = tuple(children)

    def children(self) -> list[TreeSpec]:
        """The structures of the entries, in order.

        Of a leaf an empty list.
        """
        return list(self._children)

    @property
    def children_specs(self) -> list[TreeSpec]:
        """As :meth:`children`."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The structure of the entry ``index``, from 0 on.

        Raises
        ------
        IndexError
            If there is no such entry.
        """
        return self._children[index]

    @property
    def num_children(self) -> int:
        """Number of entries of the outermost container."""
        return len(self._children)

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return 1 if self.type is None else sum(each.num_leaves for each in self._children)

    @property
    def num_nodes(self) -> int:
        """Number of containers and leaves."""
        return 1 + sum(each.num_nodes for each in self._children)

    def is_leaf(self) -> bool:
        """Whether it is the structure of a leaf alone."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Containers of this structure with these ``leaves``.

        Raises
        ------
        ValueError
            If there are more leaves, or fewer, than it has.
        """
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): {len(values)} leaves do not fit a structure of {self.num_leaves} leaves, {self!r}"
            )
        return _unflatten(iter(values), self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What stands in ``tree`` where this structure has leaves: leaves, or whole containers.

        Dicts of all classes fit each other, and are read in the order of this structure's keys.

        Raises
        ------
        ValueError
            If ``tree`` has another container, length or keys before that.
        """
        entries: list[Any] = []
        _flatten_up_to(self, tree, entries)
        return entries

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self._children) == (other.type, other.context, other._children)

    def __hash__(self) -> int:
        # A context need not be hashable.
        return hash((self.type, self._children))

    def __repr__(self) -> str:
        return self._text(0)

    def _text(self, indent: int) -> str:
        if self.type is None:
            return "*"
        indent += 2
        entries = f",\n{' ' * indent}".join(each._text(indent) for each in self._children)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{entries}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf.

    >>> from tensor.utils import _pytree
    >>> _pytree.LeafSpec() == _pytree.tree_structure(3)
    True
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)

    def __reduce__(self) -> tuple[type[LeafSpec], tuple[()]]:
        return LeafSpec, ()


def _unflatten(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    return nodes[spec.type].unflatten([_unflatten(leaves, each) for each in spec._children], spec.context)


def _flatten_up_to(spec: TreeSpec, tree: Any, result: list[Any]) -> None:
    if spec.type is None:
        result.append(tree)
        return
    cls = class_of(tree)
    both_dicts = spec.type in _DICTS and cls in _DICTS
    if cls is not spec.type and not both_dicts:
        raise ValueError(f"Node type mismatch; expected {spec.type}, but got {type(tree)}.")
    if both_dicts:
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        if {*keys} != {*tree}:
            raise ValueError(f"Node keys mismatch; expected {keys}, but got {list(tree)}.")
        entries = [tree[key] for key in keys]
    else:
        entries, context = nodes[cls].flatten(tree)
        entries = list(entries)
        if len(entries) != len(spec._children):
            raise ValueError(f"Node arity mismatch; expected {len(spec._children)}, but got {len(entries)}.")
        if context != spec.context:
            raise ValueError(
                f"Node context mismatch for node type {spec.type}: {spec.context!r} and {context!r}."
            )
    for each, entry in zip(spec._children, entries, strict=True):
        _flatten_up_to(each, entry, result)


def of_leaf() -> TreeSpec:
    """The structure of a leaf, the same object each time."""
    return _LEAF


_LEAF = LeafSpec()
