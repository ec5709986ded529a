"""Where the modules of a shared package are: in the program's folders of its name without ``__init__.py``, and in ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, MutableSequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, overload

from .finder import is_own_spec, sees_only_ours

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def _finder_of(folder: str) -> Any:
    """What the import system finds modules in a folder by, as ``pkgutil.get_importer``, whose module is of no other use here."""
    finders: dict[str, Any] = sys.path_importer_cache
    if folder not in finders:
        for hook in sys.path_hooks:
            with suppress(ImportError):
                finders[folder] = hook(folder)
                break
    return finders.get(folder)


def spec_in(folder: str, name: str) -> ModuleSpec | None:
    """What the import system finds of a module in one folder of a search path; ``loader`` is None for a mere folder."""
    finder: Any = _finder_of(folder or os.curdir)
    return finder.find_spec(name) if hasattr(finder, "find_spec") else None


def portions(name: str) -> list[str]:
    """The program's folders without ``__init__.py`` of the name of a package, in the order of ``sys.path``."""
    parent = name.rpartition(".")[0]
    result: list[str] = []
    for folder in portions(parent) if parent else sys.path:
        spec = spec_in(folder, name)
        if spec is not None and spec.loader is None:
            result += spec.submodule_search_locations or ()
    return result


def hiding(name: str) -> ModuleSpec | None:
    """The module or regular package of the program's that is imported by the name of a package of ours, if one is."""
    for folder in sys.path:
        spec = spec_in(folder, name)
        if spec is not None and spec.loader is not None:
            return None if is_own_spec(spec) else spec
    return None


class SharedPath(MutableSequence[str]):
    """The ``__path__`` of a shared package: the program's folders first, then ours. It follows ``sys.path``.

    Imports by our own code see our folders only.

    Parameters
    ----------
    name : str
        The package.
    own : iterable of str
        Our folders of that name.
    """

    def __init__(self, name: str, own: Iterable[str]) -> None:
        self._name = name
        self._own = list(own)
        self._shared: list[str] = []
        self._known: tuple[str, ...] | None = None

    def _folders(self) -> list[str]:
        if sees_only_ours():
            return self._own
        current = tuple(sys.path)
        if current != self._known:
            self._shared, self._known = portions(self._name), current
        return [*self._shared, *self._own]

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._folders()[index]

    def __len__(self) -> int:
        return len(self._folders())

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders())

    def __repr__(self) -> str:
        return f"SharedPath({self._folders()})"

    # What is added belongs to neither, and comes last.

    def insert(self, index: int, value: str) -> None:
        """Add a folder behind those that are there."""
        self._own.append(value)

    def __setitem__(self, index: int | slice, value: Any) -> None:
        raise TypeError(f"the path of package {self._name!r} follows sys.path: append to it, or to sys.path")

    def __delitem__(self, index: int | slice) -> None:
        raise TypeError(f"the path of package {self._name!r} follows sys.path: remove folders from that")
