"""The modules that have to be made, since none of ours is the same: ``torch`` itself, and modules with parts of ours."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from graphroot.coexistence import own
from nvrtc_kernels.printed_names import printed
from tensor.core.names.absent import missing

from .module_names import PARTS, is_internal
from .versions import TORCH_VERSION


class Torch(ModuleType):
    """The package ``torch``: the names of :mod:`tensor`, with PyTorch's version."""

    def __init__(self) -> None:
        super().__init__("torch", "Tensors with PyTorch semantics: graphroot, in PyTorch's place.")
        ours = own("tensor")
        public = {
            name: value
            for name, value in vars(ours).items()
            if not (name.startswith("__") or _is_internal(name) or f"torch.{name}" in PARTS)
        }
        vars(self).update(
            public, __version__=TORCH_VERSION, __all__=[*ours.__all__], __file__=ours.__file__, __path__=[]
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or _is_internal(name):
            raise missing("tensor", name)
        if f"torch.{name}" in PARTS:
            return importlib.import_module(f"torch.{name}")
        value = vars(self)[name] = getattr(own("tensor"), name)
        return value

    def __dir__(self) -> list[str]:
        return sorted(
            {
                *vars(self),
                *filter(lambda name: not _is_internal(name), dir(own("tensor"))),
            }
        )


def _is_internal(name: str) -> bool:
    return is_internal(f"tensor.{name}")


class Part(ModuleType):
    """A module whose names are found in a larger one."""

    def __init__(self, name: str, source: str) -> None:
        super().__init__(name, printed(f"Names of ``{name}``, which are those of ``{source}``."))
        self._source = source
        if name == "torch.version":
            self.__version__ = TORCH_VERSION

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(own(self._source), name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *dir(own(self._source))})
