"""Samples and batches are nested: mappings, tuples and sequences rebuilt with other parts."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_named_tuple(data: Any) -> bool:
    """Whether ``data`` is a tuple with names."""
    return isinstance(data, tuple) and hasattr(data, "_fields")


def mapping_like(data: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """A mapping of ``data``'s class with the values ``parts``; a dict where the class cannot be rebuilt."""
    try:
        if isinstance(data, MutableMapping):
            result = copy.copy(data)
            result.update(parts)
            return result
        return type(data)(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts


def sequence_like(data: Sequence[Any], parts: list[Any]) -> Any:
    """A sequence of ``data``'s class with the elements ``parts``; a list where the class cannot be rebuilt."""
    if is_named_tuple(data):
        return type(data)(*parts)
    try:
        if isinstance(data, MutableSequence):
            result = copy.copy(data)
            for position, part in enumerate(parts):
                result[position] = part
            return result
        return type(data)(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts
