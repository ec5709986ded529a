"""Structures as text, in the format that PyTorch 2.13 writes."""

from __future__ import annotations

import json
from typing import Any

from .containers import nodes
from .structure import LeafSpec, TreeSpec

_PROTOCOL = 1


class _Placeholder:
    def __repr__(self) -> str:
        return "*"


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """``treespec`` as JSON, which :func:`treespec_loads` reads, as does PyTorch.

    ``protocol`` is 1, the one there is.

    Raises
    ------
    TypeError
        If it is no :class:`TreeSpec`, or JSON cannot have a context.
    ValueError
        For another protocol.
    NotImplementedError
        If a class of containers has no name in text.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    protocol = _PROTOCOL if protocol is None else protocol
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return json.dumps((protocol, _dumped(treespec)))


def _dumped(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    node = nodes[spec.type]
    if node.name is None:
        raise NotImplementedError(
            f"the structure of {spec.type} cannot be text: its class has no name there. Give it one by "
            "register_pytree_node(..., serialized_type_name=...)"
        )
    context = node.dumped(spec.context) if node.dumped is not None else json.dumps(spec.context)
    return {"type": node.name, "context": context, "children_spec": list(map(_dumped, spec.children()))}


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that :func:`treespec_dumps`, here or in PyTorch, has written as ``serialized``.

    Raises
    ------
    ValueError
        For another protocol, or text that is no JSON.
    NotImplementedError
        For a class of containers that has no such name here.
    """
    protocol, schema = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    classes = {node.name: cls for cls, node in nodes.items() if node.name is not None}
    return _loaded(schema, classes)


def _loaded(schema: dict[str, Any], classes: dict[str, Any]) -> TreeSpec:
    name = schema["type"]
    if name is None:
        return LeafSpec()
    if name not in classes:
        raise NotImplementedError(f"Deserializing {name!r} in pytree is not registered.")
    cls = classes[name]
    loaded = nodes[cls].loaded
    context = schema["context"]
    context = loaded(context) if loaded is not None else json.loads(context)
    return TreeSpec(cls, context, [_loaded(each, classes) for each in schema["children_spec"]])


def treespec_pprint(treespec: TreeSpec) -> str:
    """``treespec`` as the containers would be printed, with ``*`` for each leaf.

    Examples
    --------
    >>> from tensor.utils import _pytree
    >>> _pytree.treespec_pprint(_pytree.tree_structure({"a": [1, 2]}))
    "{'a': [*, *]}"
    """
    return repr(treespec.unflatten([_Placeholder()] * treespec.num_leaves))
