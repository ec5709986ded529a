"""The catalogue: which name of which namespace is which function.

Definitions of operations publish here; namespaces (``tensor``, the class ``Tensor``, ``nn.functional``, ...) are bound
to their part of it. What is published later, by a definition of a user for example, appears in them at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType

_published: dict[str, dict[str, FunctionType]] = {}
_bound: dict[str, list[Callable[[str, FunctionType], None]]] = {}
_observers: list[Callable[[FunctionType], None]] = []


def publish(namespace: str, name: str, function: FunctionType) -> None:
    """Let ``function`` be ``name`` in a namespace.

    Raises
    ------
    ValueError
        If the namespace has another function of that name.
    """
    names = _published.setdefault(namespace, {})
    if name in names:
        other = names[name]
        raise ValueError(
            f"{namespace}.{name} is defined twice, in {other.__module__} and in {function.__module__}: rename one, or "
            "publish it in another namespace"
        )
    names[name] = function
    for observe in _observers:
        observe(function)
    for assign in _bound.get(namespace, ()):
        assign(name, function)


def bind(namespace: str, target: dict[str, Any] | type[Any]) -> None:
    """Give a module's globals, or a class, all names of a namespace, now and when more are published."""

    def assign(name: str, function: FunctionType) -> None:
        if isinstance(target, dict):
            target[name] = function
        else:
            setattr(target, name, function)

    for name, function in _published.get(namespace, {}).items():
        assign(name, function)
    _bound.setdefault(namespace, []).append(assign)


def published(namespace: str) -> dict[str, FunctionType]:
    """The functions of a namespace by name."""
    return dict(_published.get(namespace, {}))


def namespaces() -> tuple[str, ...]:
    """The namespaces that have functions."""
    return tuple(_published)


def observe(observer: Callable[[FunctionType], None]) -> None:
    """Call ``observer`` with every function that is published from now on."""
    _observers.append(observer)
