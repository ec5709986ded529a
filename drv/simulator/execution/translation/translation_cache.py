"""Parsed PTX and translated kernels are cached on disk, so that a process that runs known kernels parses and translates nothing.

There is an entry for what an image was parsed to, and one for each of its kernels that has run, with the blocks that were
reached. Their keys say what they were made from: the image, the simulator's own source files, and the versions of Python and NumPy.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drv.disk_cache import DiskCache
from drv.environment import cache_directory
from drv.simulator.ptx import stored_modules

from . import stored_plans
from .plan import KernelPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.ptx import Function, Module

_T = TypeVar("_T")

#: Images below this size are parsed as quickly as read.
_WORTH_KEEPING = 1024
#: Bytes that all entries may take together.
_LIMIT = 512 << 20


class TranslationCache:
    """Entries of one image in the cache on disk: what it was parsed to, and its translated kernels.

    Parameters
    ----------
    image : bytes
        The PTX.
    """

    def __init__(self, image: bytes) -> None:
        self._disk = disk_cache()
        self._key = hashlib.sha256(version() + image).hexdigest()
        self._has_module = False

    @classmethod
    def of(cls, image: bytes) -> TranslationCache | None:
        """The entries of ``image``; ``None`` where caching is not worth it, or the simulator's sources are not files."""
        return cls(image) if len(image) >= _WORTH_KEEPING and version() else None

    def module(self) -> Module | None:
        """What the image was parsed to, if that is cached."""
        payload = self._disk.load(self._key)
        module = None if payload is None else _unless_damaged(stored_modules.unpacked, payload)
        self._has_module = module is not None
        return module

    def plan(self, module: Module, entry: Function) -> KernelPlan:
        """The plan of a kernel of the image: the cached one, or a new one."""
        payload = self._payload(entry.name)
        if payload is not None:
            plan = _unless_damaged(stored_plans.unpacked, payload, module, entry)
            if plan is not None:
                plan.is_news = False
                return plan
        return KernelPlan(module, entry)

    def update(self, plan: KernelPlan) -> None:
        """Store a plan with what has been translated of it."""
        plan.is_news = False
        # Operands that are nested too deeply to be written are read from the text each time.
        with contextlib.suppress(RecursionError):
            self._store(plan.entry.name, stored_plans.packed(plan), plan.module)

    def load(self, name: str, module: Module) -> Any:
        """The entry of that name, which refers to objects of the module; ``None`` if there is none."""
        payload = self._payload(name)
        return None if payload is None else _unless_damaged(_read, payload, module)

    def store(self, name: str, value: Any, module: Module) -> None:
        """Store ``value``, and the module to whose objects it refers."""
        self._store(name, _written(value, module), module)

    def _payload(self, name: str) -> bytes | None:
        return self._disk.load(self._key_of(name)) if self._has_module else None

    def _store(self, name: str, payload: bytes, module: Module) -> None:
        if not self._has_module:
            self._disk.store(self._key, stored_modules.packed(module))
            self._has_module = True
        self._disk.store(self._key_of(name), payload)

    def _key_of(self, name: str) -> str:
        return hashlib.sha256(f"{self._key} {name}".encode()).hexdigest()


def disk_cache() -> DiskCache:
    """What is stored of all kernels."""
    return DiskCache.of(cache_directory() / "simulator", _LIMIT)


@functools.cache
def version() -> bytes:
    """What a parsed and translated text depends on beside it; empty where that cannot be told."""
    result = hashlib.sha256(f"{sys.version} {sys.byteorder} {np.__version__}".encode())
    simulator = Path(__file__).parents[2]
    try:
        # Translated code calls the executor, and has windows of the address space in it.
        for folder in ("ptx", "arithmetic", "execution", "memory"):
            sources = sorted((simulator / folder).rglob("*.py"))
            if not sources:
                return b""
            for file in sources:
                result.update(file.read_bytes())
    except OSError:
        return b""
    return result.digest()


def _referents(module: Module) -> dict[tuple[Any, ...], Any]:
    """Objects of a parsed module that plans refer to, by what stands for them."""
    result: dict[tuple[Any, ...], Any] = {("module",): module}
    for name, function in module.functions.items():
        result[name,] = function
        result |= {(name, index): each for index, each in enumerate(function.instructions)}
    return result


def _written(value: Any, module: Module) -> bytes:
    file = io.BytesIO()
    _Pickler(file, _referents(module)).dump(value)
    return file.getvalue()


def _read(payload: bytes, module: Module) -> Any:
    return _Unpickler(io.BytesIO(payload), _referents(module)).load()


def _unless_damaged(read: Callable[..., _T], *arguments: Any) -> _T | None:
    """What has been stored; ``None`` where that does not fit together any more."""
    try:
        return read(*arguments)
    except Exception:
        # Of any class, as the contents decide. It is parsed and translated again, and so replaced.
        return None


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, referents: dict[tuple[Any, ...], Any]) -> None:
        super().__init__(file, 5)
        self._names = {id(value): name for name, value in referents.items()}

    def reducer_override(self, value: Any) -> Any:
        # Unlike for ``persistent_id``, strings, numbers and containers are none of its business.
        name = self._names.get(id(value))
        return NotImplemented if name is None else (_referent, name)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, referents: dict[tuple[Any, ...], Any]) -> None:
        super().__init__(file)
        self._referents = referents

    def find_class(self, module: str, name: str) -> Any:
        if name == "_referent" and module == __name__:
            return lambda *key: self._referents[key]
        return super().find_class(module, name)


def _referent(*name: Any) -> Any:
    """What stands in a pickle for an object of the module."""
    raise LookupError(name)
