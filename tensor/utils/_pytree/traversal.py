"""Trees as their leaves in order, and functions of the leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .containers import class_of, nodes
from .structure import TreeSpec, of_leaf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .keys import KeyEntry

    KeyPath = tuple[KeyEntry, ...]


def _flatten(tree: Any, is_leaf: Callable[[Any], bool] | None, leaves: list[Any]) -> TreeSpec:
    cls = None if is_leaf is not None and is_leaf(tree) else class_of(tree)
    if cls is None:
        leaves.append(tree)
        return of_leaf()
    entries, context = nodes[cls].flatten(tree)
    return TreeSpec(cls, context, [_flatten(each, is_leaf, leaves) for each in entries])


def _with_paths(
    tree: Any, is_leaf: Callable[[Any], bool] | None, path: KeyPath
) -> Iterator[tuple[KeyPath, Any]]:
    cls = None if is_leaf is not None and is_leaf(tree) else class_of(tree)
    if cls is None:
        yield path, tree
        return
    node = nodes[cls]
    entries, _ = node.flatten(tree)
    entries = list(entries)
    if node.keys is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {cls}. Please pass a flatten_with_keys_fn argument to "
            "register_pytree_node."
        )
    for key, entry in zip(node.keys(tree), entries, strict=True):
        yield from _with_paths(entry, is_leaf, (*path, key))


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
    return treespec.unflatten(leaves)


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether ``tree`` is a leaf: no container, or one that ``is_leaf`` returns True for.

    >>> tree_is_leaf([]), tree_is_leaf(None)
    (False, True)
    """
    return (is_leaf is not None and is_leaf(tree)) or class_of(tree) is None


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """Yield the leaves of ``tree`` in order; ``is_leaf`` as for :func:`tree_flatten`.

    Containers are taken apart when their leaves are asked for.
    """
    cls = None if is_leaf is not None and is_leaf(tree) else class_of(tree)
    if cls is None:
        yield tree
        return
    for each in nodes[cls].flatten(tree)[0]:
        yield from tree_iter(each, is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Pairs of the path of a leaf, a tuple of keys, and the leaf, in order; and the structure of ``tree``.

    ``is_leaf`` is as for :func:`tree_flatten`.

    Raises
    ------
    ValueError
        If a class of containers was registered without ``flatten_with_keys_fn``.
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[KeyPath, Any]]:
    """The pairs of :func:`tree_flatten_with_path`, for which ``tree`` and ``is_leaf`` are explained; raises as that.

    >>> from tensor.utils import _pytree
    >>> [(_pytree.keystr(path), leaf) for path, leaf in _pytree.tree_leaves_with_path({"a": (1, 2)})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return list(_with_paths(tree, is_leaf, ()))


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
    """A tree like ``tree`` of what ``func`` returns for its leaves, and for what ``rests`` have in the same places.

    ``is_leaf`` is as for :func:`tree_flatten`. Where ``tree`` has a leaf, one of ``rests`` may have a container.

    Raises
    ------
    ValueError
        If one of ``rests`` has another structure.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *_columns("tree_map", spec, tree, rests)))


def _columns(name: str, spec: TreeSpec, tree: Any, rests: tuple[Any, ...]) -> Iterator[list[Any]]:
    """What each of ``rests`` has where ``tree``, of the structure ``spec``, has leaves."""
    for rest in rests:
        try:
            yield spec.flatten_up_to(rest)
        except ValueError as error:
            raise ValueError(f"{name}(): {rest!r} does not have the structure of {tree!r}: {error}") from None


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """As :func:`tree_map`, with the path of each leaf, a tuple of keys, as the first argument of ``func``.

    ``tree``, ``rests`` and ``is_leaf`` are as for :func:`tree_map`.

    Raises
    ------
    ValueError
        If one of ``rests`` has another structure, or a container has no keys.
    """
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    return spec.unflatten(map(func, paths, leaves, *_columns("tree_map_with_path", spec, tree, rests)))


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
    return tree_map(_for_some(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Call ``func`` as :func:`tree_map_only` does, and return ``tree`` itself.

    ``type_or_types_or_pred`` and ``is_leaf`` are as there; what ``func`` returns is dropped.
    """
    return tree_map_(_for_some(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def _for_some(chosen: Any, func: Callable[[Any], Any]) -> Callable[[Any], Any]:
    is_function = callable(chosen) and not isinstance(chosen, type)
    return lambda x: func(x) if (chosen(x) if is_function else isinstance(x, chosen)) else x


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


def tree_all_only(
    type_or_types: Any,
    /,
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Whether ``pred`` is true of all leaves of ``tree`` that are of ``type_or_types``.

    These are a class, or a tuple or union of classes; ``is_leaf`` is as for :func:`tree_flatten`.
    """
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any,
    /,
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Whether ``pred`` is true of some leaf of ``tree`` that is of ``type_or_types``.

    These are a class, or a tuple or union of classes; ``is_leaf`` is as for :func:`tree_flatten`.
    """
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments: of those in ``args``, then of those in ``kwargs``.

    >>> arg_tree_leaves(1, [2], last={"a": 3})
    [1, 2, 3]
    """
    return [leaf for each in (*args, *kwargs.values()) for leaf in tree_iter(each)]
