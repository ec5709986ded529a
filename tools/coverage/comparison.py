"""Each public name of PyTorch, and whether it is here."""

from __future__ import annotations

import importlib
import sys
import warnings
from dataclasses import dataclass
from enum import Enum
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

import tensor
from tensor.core.names.absent import said_of

from .public_names import NAMESPACES, public_names

if TYPE_CHECKING:
    from collections.abc import Sequence


class Status(Enum):
    """What a name of PyTorch is here."""

    HERE = "here"
    PLANNED = "planned"
    LEFT_OUT = "left out"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Name:
    """A name of PyTorch: its status, and for one that is planned or left out what to use instead."""

    name: str
    status: Status
    words: str = ""


@dataclass(frozen=True, slots=True)
class Namespace:
    """The names of one namespace. ``ours`` is the module or class that has them, None where there is none.

    ``words`` say why there is none.
    """

    name: str
    ours: str | None
    words: str
    names: tuple[Name, ...]

    def of(self, status: Status) -> list[Name]:
        """The names of a status, in order."""
        return [each for each in self.names if each.status is status]


def compare(namespaces: Sequence[str] = NAMESPACES) -> list[Namespace]:
    """All namespaces, each with its names.

    Raises
    ------
    PyTorchNotInstalledError
        If there is no PyTorch to compare with.
    """
    return [_compared(name) for name in namespaces]


def _compared(namespace: str) -> Namespace:
    names = public_names(namespace)
    ours, words = _counterpart(namespace)
    if ours is None:
        status = _status(words)
        return Namespace(namespace, None, words, tuple(Name(name, status, words) for name in names))
    owner = "tensor.Tensor" if ours is tensor.Tensor else ours.__name__
    return Namespace(namespace, owner, "", tuple(_entry(owner, ours, name) for name in names))


def _entry(owner: str, ours: Any, name: str) -> Name:
    if _has(ours, name):
        return Name(name, Status.HERE)
    words = said_of(owner, name) or ""
    return Name(name, _status(words), words.partition(": ")[2] or words.partition("; ")[2] or words)


def _has(owner: Any, name: str) -> bool:
    if isinstance(owner, type):
        return hasattr(owner, name)
    if isinstance(vars(type(owner)).get(name), property):
        # A setting is not read: some ask the driver.
        return True
    with warnings.catch_warnings():
        # Names that are deprecated say so when they are looked up.
        warnings.simplefilter("ignore")
        return hasattr(owner, name) or _submodule(owner, name) is not None


def _status(words: str) -> Status:
    if words.startswith("planned"):
        return Status.PLANNED
    return Status.LEFT_OUT if words.startswith("left out") else Status.MISSING


def _counterpart(namespace: str) -> tuple[Any, str]:
    """The module, or class, that has the names of a namespace of PyTorch; None, and what is said of it."""
    if namespace == "torch.Tensor":
        return tensor.Tensor, ""
    ours: ModuleType = tensor
    for part in namespace.split(".")[1:]:
        below = getattr(ours, part, None)
        if not isinstance(below, ModuleType):
            below = _submodule(ours, part)
        if below is None:
            return None, said_of(ours.__name__, part) or ""
        ours = below
    return ours, ""


def _submodule(module: Any, name: str) -> ModuleType | None:
    """The module ``name`` in the folder of a package, or what the package put in its place; None if there is none."""
    folders = getattr(module, "__path__", None)
    if folders is None:
        return None
    path = f"{module.__name__}.{name}"
    # Only the package's own folder counts: finders of editable installations look into other copies of it.
    if path not in sys.modules and PathFinder.find_spec(path, folders) is None:
        return None
    return importlib.import_module(path)
