"""Values in nested dicts and lists, by names such as ``optimizer.state.weight.exp_avg``, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


def flattened(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """The values in ``state_dict`` by the keys on the way to them, joined by points.

    Lists and tuples that have tensors or dicts in them have names for their items, others are values.

    Raises
    ------
    ValueError
        If two values have the same name.
    """
    result: dict[str, Any] = {}
    for path, value in _leaves(state_dict, ()):
        name = ".".join(map(str, path))
        if name in result:
            raise ValueError(f"duplicated flatten key {name}: two values of the state dict have this name")
        result[name] = value
    return result


def filled(state_dict: Any, values: Mapping[str, Any], path: tuple[Any, ...] = ()) -> Any:
    """``state_dict`` with those of its values replaced that ``values`` has; dicts and lists are changed in place."""
    if not _is_container(state_dict):
        return values.get(".".join(map(str, path)), state_dict)
    items = [(key, filled(value, values, (*path, key))) for key, value in _items(state_dict)]
    if isinstance(state_dict, tuple):
        return type(state_dict)([value for _, value in items])
    for key, value in items:
        if state_dict[key] is not value:
            state_dict[key] = value
    return state_dict


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if not _is_container(value):
        yield path, value
        return
    for key, each in _items(value):
        yield from _leaves(each, (*path, key))


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    yield from container.items() if isinstance(container, Mapping) else enumerate(container)


def _is_container(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return type(value) in (list, tuple) and any(
        isinstance(each, Tensor) or _is_container(each) for each in value
    )
