"""Making way in ``sys.modules`` where a name of ours is the program's, too."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .finder import (
    NEEDS_NO_OTHERS,
    PACKAGES,
    ROOT,
    being_loaded,
    is_loading,
    is_ours,
    is_own_spec,
    only_ours,
    sees_only_ours,
)
from .shared_path import SharedPath, hiding, portions, spec_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.machinery import ModuleSpec
    from pathlib import Path

#: Modules of ours by whose names ``sys.modules`` has the program's, or what stands for both.
_displaced: dict[str, ModuleType] = {}
#: Modules of the program's that are out of ``sys.modules`` while ours are loaded.
_aside: dict[str, ModuleType] = {}
#: Packages of ours all modules of which are loaded.
_loaded: set[str] = set()
_lock = threading.RLock()
#: What starts programs, or replaces PyTorch, when it is imported.
_NOT_LOADED = ("__main__", "as_torch")


def share(name: str) -> None:
    """Let the program's folders of the name of a package of ours share it: the package's last line.

    Parameters
    ----------
    name : str
        The package's ``__name__``.
    """
    package: Any = sys.modules[name]
    if not is_ours(package):
        return
    package.__path__ = SharedPath(name, package.__path__)
    if being_loaded() == [name] and not is_loading():
        _make_way()


def own(name: str) -> ModuleType:
    """The module of ours of a name, whatever module the program has by it; it is imported if it was not yet.

    Parameters
    ----------
    name : str
        A module's full name, such as ``"nn"`` or ``"tools.run.command_line"``.

    Raises
    ------
    ImportError
        If there is no such module, or it cannot be imported.
    """
    if name in _displaced:
        return _displaced[name]
    package = name.partition(".")[0]
    if package not in PACKAGES:
        # Of `graphroot` itself there is no other.
        return importlib.import_module(name)
    with _lock:
        if package in _displaced:
            # All its modules are loaded.
            module = loaded(name)
            if module is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return module
        set_aside()
        try:
            with only_ours():
                module = importlib.import_module(name)
        finally:
            make_way()
        return module


def loaded(name: str) -> ModuleType | None:
    """The module of ours of a name, if it is loaded."""
    if name in _displaced:
        return _displaced[name]
    return sys.modules[name] if _is_own_entry(name) else None


def own_spec(name: str) -> ModuleSpec | None:
    """The specification of the module of ours of a name; None if there is no such module."""
    present = loaded(name)
    if present is not None:
        return present.__spec__
    if name.partition(".")[0] in _loaded:
        return None
    try:
        with only_ours():
            return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


def own_names() -> list[str]:
    """The names of all modules of ours that are loaded, those that made way among them."""
    return [
        *_displaced,
        *(
            name
            for name in list(sys.modules)
            if name.partition(".")[0] in PACKAGES and name not in _displaced and _is_own_entry(name)
        ),
    ]


def set_aside() -> None:
    """Take the program's modules of our names out of ``sys.modules``, until :func:`make_way`: ours are loaded now."""
    with _lock:
        for package in PACKAGES:
            if package not in _displaced and _theirs(package):
                for name in list(sys.modules):
                    if name == package or name.startswith(f"{package}."):
                        _aside[name] = sys.modules.pop(name)


def make_way() -> None:
    """Let the program have those of our names that it has modules of, by ``sys.path`` as it is now.

    Modules of ours keep each other. It is called when a package of ours was loaded, and by what puts a program's folder
    on ``sys.path`` afterwards.
    """
    if not sees_only_ours():
        # Else not all is loaded yet, and what began to load it goes on with this.
        _make_way()


def _make_way() -> None:
    with _lock:
        present = [name for name in PACKAGES if name in _displaced or is_ours(sys.modules.get(name))]
        if present in ([], [NEEDS_NO_OTHERS]) and not _aside:
            # A program looked for its own, and nothing of ours is in use.
            return
        busy = being_loaded()
        hidden: dict[str, Iterable[str]] = {
            name: _aside[name].__dict__.get("__path__", ()) for name in PACKAGES if name in _aside
        }
        for name in PACKAGES:
            if name not in busy and name not in hidden and (spec := hiding(name)) is not None:
                hidden[name] = spec.submodule_search_locations or ()
        shared = {
            name: folders
            for name in PACKAGES
            if name not in hidden and (folders := portions(name)) and _overlaps(name, folders)
        }
        if not hidden and not shared:
            return
        _load_all_that_import(max((*hidden, *shared), key=PACKAGES.index))
        for name, below in hidden.items():
            _displace(name)
            _displace_below(_both(name, list(below), hidden=True))
        for name, module in _aside.items():
            _displace(name)
            sys.modules[name] = module
        _aside.clear()
        for name, folders in shared.items():
            _displace_below(_both(name, folders))


def remark_on(error: BaseException) -> str | None:
    """What to say of an error that may come from a module of the program's in the place of ours; None for others."""
    name = getattr(error, "name", None) if isinstance(error, ImportError) else None
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        name = error.obj.__name__
    package = (name or "").partition(".")[0]
    spec = hiding(package) if package in PACKAGES else None
    if spec is None:
        return None
    return f"{package!r} is {spec.origin} here, which hides graphroot's package {package!r}: rename it if graphroot's was meant"


def neighbours(folder: Path) -> dict[str, str]:
    """What a folder has by the names of our packages, in words, by name."""
    result = {}
    for name in PACKAGES:
        spec = spec_in(str(folder), name)
        if spec is None or is_own_spec(spec):
            continue
        result[name] = (
            f"{folder / name} shares the name of graphroot's package {name!r}; both are importable"
            if spec.loader is None
            else f"{spec.origin} hides graphroot's package {name!r} from programs in this folder that import it by that name"
        )
    return result


class _Shared(ModuleType):
    """A package of ours and of the program's, with names of which the program's are found first."""

    def __init__(self, ours: ModuleType, path: SharedPath) -> None:
        super().__init__(ours.__name__, ours.__doc__)
        self._ours = ours
        self.__spec__ = ours.__spec__
        self.__file__ = ours.__file__
        self.__package__ = ours.__package__
        self.__path__ = path

    def __getattr__(self, name: str) -> Any:
        submodule = f"{self.__name__}.{name}"
        if submodule in _displaced:
            return importlib.import_module(submodule)
        return getattr(self._ours, name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *dir(self._ours)} - {"_ours"})


def _displace(name: str) -> None:
    """Take a module of ours out of ``sys.modules``."""
    if name not in _displaced and _is_own_entry(name):
        _displaced[name] = sys.modules.pop(name)


def _displace_below(both: Iterable[tuple[str, bool]]) -> None:
    """Take out the modules below a package of which the program has others, and let both have the folders."""
    for name, is_module in list(both):
        if is_module:
            _displace(name)
            parent = name.rpartition(".")[0]
            while parent and parent not in _displaced:
                _displaced[parent] = ours = sys.modules[parent]
                sys.modules[parent] = _Shared(ours, _path_of(ours))
                parent = parent.rpartition(".")[0]
        elif name not in _displaced and _is_own_entry(name):
            ours = sys.modules[name]
            ours.__path__ = _path_of(ours)


def _path_of(ours: ModuleType) -> SharedPath:
    path = getattr(ours, "__path__", ())
    return path if isinstance(path, SharedPath) else SharedPath(ours.__name__, path)


def _both(name: str, folders: Iterable[str], *, hidden: bool = False) -> Iterator[tuple[str, bool]]:
    """Names below ``name`` that ours and ``folders`` have; whether the latter have a module, or only share the folder.

    With ``hidden``, the program's package is a regular one, and all that it has is its own.
    """
    prefix = f"{name}."
    for child in sorted(
        {each[len(prefix) :].partition(".")[0] for each in own_names() if each.startswith(prefix)}
    ):
        specs = [spec for folder in folders if (spec := spec_in(folder, prefix + child)) is not None]
        modules = [spec for spec in specs if spec.loader is not None]
        if specs:
            regular = hidden or bool(modules)
            yield prefix + child, regular
            below = [each for spec in modules[:1] or specs for each in spec.submodule_search_locations or ()]
            yield from _both(prefix + child, below, hidden=regular)


def _overlaps(name: str, folders: list[str]) -> bool:
    """Whether ``folders`` have anything of the name of a module of ours in the package ``name``."""
    import pkgutil  # only where a name is taken

    return any(
        spec_in(folder, f"{name}.{child.name}") is not None
        for child in pkgutil.iter_modules([str(ROOT / name)])
        for folder in folders
    )


def _theirs(package: str) -> bool:
    """Whether ``sys.modules`` has a module of the program's by the name of a package of ours."""
    module = sys.modules.get(package)
    return module is not None and not is_ours(module)


def _is_own_entry(name: str) -> bool:
    """Whether ``sys.modules`` has ours by a name; some of ours are made of no file."""
    module = sys.modules.get(name)
    return is_ours(module) or (
        module is not None
        and getattr(module, "__spec__", None) is None
        and getattr(module, "__file__", None) is None
    )


def _load_all_that_import(package: str) -> None:
    """Load all modules of our packages that may look for a module of ``package`` by its name, so that none does later."""
    for each in PACKAGES[: PACKAGES.index(package) + 1]:
        if each in _loaded:
            continue
        _loaded.add(each)
        with only_ours():
            _load(each)


def _load(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except Exception:
        # Needs an extra that is not installed; whoever uses it is told so.
        return
    import pkgutil  # as above

    for child in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if child.name not in _NOT_LOADED:
            _load(f"{name}.{child.name}")
