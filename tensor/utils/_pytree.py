"""Nested containers as their leaves in order and a structure that takes leaves back: names of ``torch.utils._pytree``.

Containers are dicts, OrderedDicts, defaultdicts, lists, tuples, named tuples and deques; everything else, None too, is a
leaf. Other classes become containers by :func:`register_pytree_node`.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]


#: What takes a container apart, into entries and context, and what makes it of them.
_nodes: dict[type, tuple[Callable[[Any], tuple[Any, Any]], Callable[[Any, Any], Any]]] = {
    dict: (lambda x: (list(x.values()), list(x)), lambda values, keys: dict(zip(keys, values, strict=True))),
    OrderedDict: (
        lambda x: (list(x.values()), list(x)),
        lambda values, keys: OrderedDict(zip(keys, values, strict=True)),
    ),
    defaultdict: (
        lambda x: (list(x.values()), (x.default_factory, list(x))),
        lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
    ),
    list: (lambda x: (x, None), lambda values, _: list(values)),
    tuple: (lambda x: (list(x), None), lambda values, _: tuple(values)),
    deque: (lambda x: (list(x), x.maxlen), lambda values, maxlen: deque(values, maxlen)),
}


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make")


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """The structure of a nest of containers: its class, what puts it together, and the structures of its entries.

    ``type`` is None for a leaf; ``context`` are a dict's keys, for example; ``children`` are the entries' structures.
    """

    type: type | None
    context: Any
    children: tuple[TreeSpec, ...]

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return 1 if self.type is None else sum(each.num_leaves for each in self.children)

    def is_leaf(self) -> bool:
        """Whether it is the structure of a leaf alone."""
        return self.type is None


_LEAF = TreeSpec(None, None, ())


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    **options: Any,
) -> None:
    """Treat instances of ``cls`` as containers.

    ``flatten_fn`` returns a container's entries and a context; ``unflatten_fn`` makes one of entries and context.

    Raises
    ------
    ValueError
        If the class is a container already.
    """
    if cls in _nodes:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _nodes[cls] = flatten_fn, unflatten_fn


def _entries(tree: Any, is_leaf: Callable[[Any], bool] | None) -> tuple[Any, Any] | None:
    """Entries and context of a container; None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    cls = type(tree)
    if cls in _nodes:
        return _nodes[cls][0](tree)
    return (list(tree), None) if _is_named_tuple(cls) else None


def _flatten(tree: Any, is_leaf: Callable[[Any], bool] | None, leaves: list[Any]) -> TreeSpec:
    entries = _entries(tree, is_leaf)
    if entries is None:
        leaves.append(tree)
        return _LEAF
    return TreeSpec(type(tree), entries[1], tuple(_flatten(each, is_leaf, leaves) for each in entries[0]))


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of ``tree`` in order, and its structure.

    What ``is_leaf`` returns True for is a leaf, whatever it contains.

    >>> from tensor.utils import _pytree
    >>> leaves, spec = _pytree.tree_flatten({"a": [1, 2], "b": 3})
    >>> leaves, _pytree.tree_unflatten([4, 5, 6], spec)
    ([1, 2, 3], {'a': [4, 5], 'b': 6})
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, is_leaf, leaves)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Containers of the structure ``treespec`` with these ``leaves``.

    Raises
    ------
    ValueError
        If there are more leaves, or fewer, than the structure has.
    TypeError
        If ``treespec`` is none.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten(): treespec must be a TreeSpec, not {type(treespec).__name__}")
    values = list(leaves)
    if len(values) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(): {len(values)} leaves do not fit a structure of {treespec.num_leaves} leaves"
        )
    return _unflatten(iter(values), treespec)


def _unflatten(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    entries = [_unflatten(leaves, each) for each in spec.children]
    if spec.type in _nodes:
        return _nodes[spec.type][1](entries, spec.context)
    return spec.type(*entries)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of ``tree`` in order; ``is_leaf`` as for :func:`tree_flatten`.

    Examples
    --------
    >>> tree_leaves({"a": 1, "b": [2, (3,)]})
    [1, 2, 3]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure of ``tree``; ``is_leaf`` as for :func:`tree_flatten`.

    Trees of the same containers, keys and lengths have equal structures.
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """A tree like ``tree`` of what ``func`` returns for its leaves, and for those of ``rests`` in the same places.

    ``is_leaf`` is as for :func:`tree_flatten`.

    Raises
    ------
    ValueError
        If one of ``rests`` has another structure.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves]
    for rest in rests:
        others, other = tree_flatten(rest, is_leaf)
        if other != spec:
            raise ValueError(f"tree_map(): {rest!r} does not have the structure of {tree!r}")
        columns.append(others)
    return tree_unflatten(map(func, *columns), spec)


def tree_map_(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Call ``func`` as :func:`tree_map` does, and return ``tree`` itself. Raises as :func:`tree_map`.

    For functions that change leaves, such as ``Tensor.zero_``; what they return is dropped.
    """
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """A tree like ``tree``, in which ``func`` is called for some leaves, and others stay.

    ``type_or_types_or_pred`` is their class, a tuple or union of classes, or a function that returns whether it is one of
    them. ``is_leaf`` is as for :func:`tree_flatten`.
    """
    chosen = type_or_types_or_pred
    is_function = callable(chosen) and not isinstance(chosen, type)
    return tree_map(
        lambda x: func(x) if (chosen(x) if is_function else isinstance(x, chosen)) else x,
        tree,
        is_leaf=is_leaf,
    )


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether ``pred`` is true of all leaves of ``tree``; ``is_leaf`` as for :func:`tree_flatten`.

    True of a tree without leaves; the first leaf of which it is not true ends the search.
    """
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether ``pred`` is true of some leaf of ``tree``; ``is_leaf`` as for :func:`tree_flatten`.

    False of a tree without leaves; the first leaf of which it is true ends the search.
    """
    return any(map(pred, tree_leaves(tree, is_leaf)))


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
