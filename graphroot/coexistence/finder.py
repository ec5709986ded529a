"""Our packages for imports by our own code, whatever else has their names."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

#: Our packages whose names others may have; each imports those behind it.
PACKAGES = ("tools", "parallel", "nn", "tensor", "nvrtc_kernels", "drv")
#: The one whose ``__init__`` imports none of the others.
NEEDS_NO_OTHERS = "tools"
#: The folder that they are in: ``site-packages``, or that of a checkout.
ROOT = Path(__file__).resolve().parents[2]

_FOLDERS = tuple(str(ROOT / package) + os.sep for package in PACKAGES)


class _Loading(threading.local):
    """How many blocks of :func:`only_ours` this thread is in."""

    depth = 0


_loading = _Loading()


def is_ours(module: ModuleType | None) -> bool:
    """Whether a module is from a file of our packages."""
    return is_own_spec(getattr(module, "__spec__", None))


def is_own_spec(spec: ModuleSpec | None) -> bool:
    """Whether a specification leads to a file of our packages."""
    origin = None if spec is None else spec.origin
    return origin is not None and (
        origin.startswith(_FOLDERS) or os.path.realpath(origin).startswith(_FOLDERS)
    )


@contextmanager
def only_ours() -> Iterator[None]:
    """For a block, let imports of this thread see our packages only, and of shared names our files only."""
    _loading.depth += 1
    try:
        yield
    finally:
        _loading.depth -= 1


def sees_only_ours() -> bool:
    """Whether imports come from our own code: in :func:`only_ours`, or while a package of ours is being loaded."""
    return is_loading() or bool(being_loaded())


def is_loading() -> bool:
    """Whether this thread is in a block of :func:`only_ours`."""
    return _loading.depth > 0


def being_loaded() -> list[str]:
    """Packages of ours whose own code runs just now."""
    modules = [(name, sys.modules.get(name)) for name in PACKAGES]
    return [
        name
        for name, module in modules
        # By this the import system itself knows that a module is not ready for other threads.
        if getattr(getattr(module, "__spec__", None), "_initializing", False) and is_ours(module)
    ]


class OwnPackages:
    """Before all other finders: our packages for imports by our own code, from which they may be hidden.

    Parameters
    ----------
    before_loading : function
        Called when a program imports a package of ours.
    """

    def __init__(self, before_loading: Callable[[], None]) -> None:
        self.before_loading = before_loading

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a package of ours; None for any other name, and where a program finds one of its own."""
        if path is not None or name not in PACKAGES:
            return None
        if sees_only_ours():
            return PathFinder.find_spec(name, [str(ROOT)])
        if name != NEEDS_NO_OTHERS and is_own_spec(PathFinder.find_spec(name)):
            # It is about to be loaded by the finder whose it is, and what it needs must be ours.
            self.before_loading()
        return None
