"""Which keyword was probably meant, where a class is called with one that its ``__init__`` does not have."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from .absent import nearest_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class KeywordHints:
    """Classes derived from it say which keyword of their ``__init__`` was probably meant.

    It is a base of its own so that ``inspect.signature`` finds their ``__init__`` before its ``__new__``.
    """

    if not TYPE_CHECKING:  # what type checkers read is each class's __init__

        def __new__(cls, *args: Any, **kwargs: Any) -> Self:
            if kwargs:
                _check_keywords(cls, kwargs)
            new = super().__new__
            return new(cls) if new is object.__new__ else new(cls, *args, **kwargs)


def _check_keywords(cls: type, names: Iterable[str]) -> None:
    """Raise TypeError, in Python's words and with a hint, for a keyword that is one of ``cls.__init__`` misspelt.

    A keyword that is like none of them is left to the call itself, and so is what a wrapper or ``**kwargs`` takes.

    Raises
    ------
    TypeError
        If there is such a keyword.
    """
    # What type checkers say of the attribute is about instances.
    function: Any = cls.__init__  # type: ignore[misc]
    known = _keywords(function)
    if known is None:
        return
    for name in names:
        if name not in known:
            nearest = nearest_of(name, known)
            if nearest is not None:
                raise TypeError(
                    f"{cls.__name__}.__init__() got an unexpected keyword argument {name!r}. "
                    f"Did you mean {nearest!r}?"
                )


@lru_cache(maxsize=1024)
def _keywords(function: Any) -> frozenset[str] | None:
    """The keywords that a function takes; None if it takes any, or does not say."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    return frozenset(each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY) - {"self"}
