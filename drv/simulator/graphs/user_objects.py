"""User objects: what a program's own destructor gives back when neither the program nor a graph refers to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class UserObject:
    """An object: the C function ``destroy`` is called with ``pointer`` when no reference is left."""

    handle: int
    pointer: int
    destroy: int
    references: int
