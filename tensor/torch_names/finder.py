"""What the import system asks for ``torch`` and its submodules, and for names of ours that are not there."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import DistributionFinder, PathDistribution
from typing import TYPE_CHECKING, Any

from graphroot.coexistence import is_ours, loaded, own, own_names, own_spec
from nvrtc_kernels.printed_names import printed
from tensor.core.names.absent import missing

from .children import SEARCH_PATH
from .module_names import PARTS, is_internal, ours
from .stand_ins import Part, Torch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType, ModuleType

_EVERYTHING = DistributionFinder.Context()
_PACKAGES = ("drv", "nvrtc_kernels", "tensor", "nn", "parallel")


class TorchFinder(DistributionFinder):
    """Finds ``torch`` and its submodules here, whatever else is installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The specification of ``name``; None if it is no module of PyTorch's.

        Raises
        ------
        ModuleNotFoundError
            If it is one and there is none here; with what is known of it.
        """
        if name == "torch":
            return ModuleSpec(name, _StandInLoader(), is_package=True)
        if not name.startswith("torch."):
            return None
        if name in PARTS:
            return ModuleSpec(name, _StandInLoader())
        target_name = ours(name)
        spec = None if is_internal(target_name) else _spec_of(target_name)
        if spec is None:
            raise _absent(name, target_name)
        return ModuleSpec(
            name,
            _Alias(target_name),
            origin=spec.origin,
            is_package=spec.submodule_search_locations is not None,
        )

    def find_distributions(
        self, context: DistributionFinder.Context = _EVERYTHING
    ) -> Iterable[PathDistribution]:
        """The version of ``torch`` that is followed, for programs that ask the installation."""
        if context.name in (None, "torch"):
            yield from map(PathDistribution, SEARCH_PATH.glob("torch-*.dist-info"))


class AbsentFinder(MetaPathFinder):
    """Last of all finders: says of ``from torch.nn import name`` why there is no such name."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for a module or name of ours that is not there."""
        package, dot, _ = name.partition(".")
        if (
            dot
            and package in _PACKAGES
            and not name.endswith(".__main__")
            and is_ours(sys.modules.get(package))
        ):
            raise _absent(name, name)


class _StandInLoader(Loader):
    """Makes the modules that stand in for PyTorch's."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Torch() if spec.name == "torch" else Part(spec.name, PARTS[spec.name])

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Alias(Loader):
    """Gives a module of ours by PyTorch's name: the same object."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = own(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        alias = module.__spec__
        # The import system has replaced it.
        module.__spec__ = self.spec
        if alias is not None:
            _register_submodules(alias.name, self.target, module)

    def get_code(self, name: str) -> CodeType | None:
        """The code of our module, for ``python -m torch.distributed.run``."""
        spec = _spec_of(self.target)
        loader: Any = None if spec is None else spec.loader
        return loader.get_code(self.target) if hasattr(loader, "get_code") else None


def _register_submodules(alias: str, target: str, module: ModuleType) -> None:
    """Enter submodules by PyTorch's names: what an import of them would set in ``module`` may be another object there.

    ``torch.nn.utils.weight_norm`` is a module for ``import`` and a function of ``torch.nn.utils``.
    """
    for name in own_names():
        each = loaded(name)
        if each is None or not name.startswith(f"{target}."):
            continue
        by_torchs_name = alias + name[len(target) :]
        if ours(by_torchs_name) == name and not is_internal(name) and by_torchs_name not in PARTS:
            sys.modules.setdefault(by_torchs_name, each)
            _register_parts(by_torchs_name, each)
    _register_parts(alias, module)


def _register_parts(alias: str, module: ModuleType) -> None:
    for name, source in PARTS.items():
        parent, _, child = name.rpartition(".")
        if parent != alias:
            continue
        if child in dir(module):
            sys.modules.setdefault(name, Part(name, source))
        elif not hasattr(module, "__path__"):
            # A module that is no package, in which nothing would be looked for.
            vars(module)[child] = sys.modules.setdefault(name, Part(name, source))


def _spec_of(module: str) -> ModuleSpec | None:
    present = loaded(module)
    if present is not None and present.__spec__ is None:
        return ModuleSpec(module, None)
    parent = module.rpartition(".")[0]
    if parent and not hasattr(own(parent), "__path__"):
        return None
    return own_spec(module)


def _absent(name: str, target: str) -> ModuleNotFoundError:
    """The error for a module that is not there; ``target`` would be its name here.

    It names no module to the import system, which would pass over it and raise an error without these words.
    """
    parent, _, child = target.rpartition(".")
    text = str(missing(parent, child))
    _, _, words = text.partition(f"has no attribute {child!r}")
    return ModuleNotFoundError(f"No module or name {printed_name(name)!r} in graphroot{words}")


def printed_name(name: str) -> str:
    """A module's name as a program knows it that runs as PyTorch's."""
    return printed(f"'{name}'").strip("'")
