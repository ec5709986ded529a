"""Samples and batches are nested: mappings, tuples and sequences rebuilt with other children."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_named_tuple(data: Any) -> bool:
    """Whether ``data`` is a tuple with names."""
    return isinstance(data, tuple) and hasattr(data, "_fields")


def mapping_like(data: Mapping[Any, Any], children: dict[Any, Any]) -> Any:
    """A mapping of ``data``'s class with the values ``children``; a dict where the class cannot be rebuilt."""
    try:
        if isinstance(data, MutableMapping):
            result = copy.copy(data)
            result.update(children)
            return result
        return type(data)(children)  # type: ignore[call-arg]
    except TypeError:
        return children


def sequence_like(data: Sequence[Any], children: list[Any]) -> Any:
    """A sequence of ``data``'s class with the elements ``children``; a list where the class cannot be rebuilt."""
    if is_named_tuple(data):
        return type(data)(*children)
    try:
        if isinstance(data, MutableSequence):
            result = copy.copy(data)
            for position, child in enumerate(children):
                result[position] = child
            return result
        return type(data)(children)  # type: ignore[call-arg]
    except TypeError:
        return children
