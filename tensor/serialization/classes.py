"""Classes of tensors that a checkpoint keeps.

A file names a class; the program that loads it decides what the name means. So nothing is imported because a file
says so, and this layer need not know the ones above it.
"""

from __future__ import annotations

from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type[Any])

_registered: dict[str, type[Any]] = {}


def keep_class(cls: _Class) -> _Class:
    """Let tensors of class ``cls`` come back as such from a checkpoint, under the class's own name.

    The class has to be one that :meth:`Tensor.as_subclass` gives without further arguments; attributes are kept
    beside it. May be used as a decorator: it returns the class.

    Raises
    ------
    ValueError
        If another class has the name.
    """
    if _registered.setdefault(cls.__name__, cls) is not cls:
        raise ValueError(
            f"checkpoints know another class named {cls.__name__}: {_registered[cls.__name__]!r}"
        )
    return cls


def name_of(cls: type[Any]) -> str | None:
    """What a checkpoint calls ``cls``, ``None`` for a class that it does not keep."""
    return cls.__name__ if _registered.get(cls.__name__) is cls else None


def class_named(name: str) -> type[Any] | None:
    """The class called ``name``, ``None`` where this program does not know it."""
    return _registered.get(name)
