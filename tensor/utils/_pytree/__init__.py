"""Nested containers as their leaves in order and a structure that takes leaves back: names of ``torch.utils._pytree``.

Containers are dicts, OrderedDicts, defaultdicts, lists, tuples, named tuples, sizes of tensors and deques; everything else,
None too, is a leaf. Other classes become containers by :func:`register_pytree_node` and :func:`register_dataclass`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import hints as _hints

from .containers import (
    _register_namedtuple as _register_namedtuple,
)
from .containers import (
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    register_dataclass,
    register_pytree_node,
)
from .keys import GetAttrKey, KeyEntry, MappingKey, SequenceKey, key_get, keystr
from .structure import LeafSpec, TreeSpec
from .text import treespec_dumps, treespec_loads, treespec_pprint
from .traversal import (
    arg_tree_leaves,
    tree_all,
    tree_all_only,
    tree_any,
    tree_any_only,
    tree_flatten,
    tree_flatten_with_path,
    tree_is_leaf,
    tree_iter,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_map_,
    tree_map_only,
    tree_map_only_,
    tree_map_with_path,
    tree_structure,
    tree_unflatten,
)

__all__ = [
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "PyTree",
    "PyTreeSpec",
    "SequenceKey",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "arg_tree_leaves",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]

#: Types of annotations.
PyTree = Any
Context = Any
DumpableContext = Any
KeyPath = tuple[KeyEntry, ...]
FlattenFn = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFn = Callable[[Iterable[Any], Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]

#: PyTorch's other name.
PyTreeSpec = TreeSpec
#: PyTorch's older name, which many packages use.
_register_pytree_node = register_pytree_node

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
