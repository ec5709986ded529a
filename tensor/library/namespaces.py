"""``tensor.ops``: the namespaces of operators, as attributes of a module."""

from __future__ import annotations

from os import fspath
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import missing

from . import operators, own_operators, torchvision_operators

if TYPE_CHECKING:
    from os import PathLike


class OpNamespace(ModuleType):
    """The operators of one namespace: those that were registered, or, in ``aten``, those of this library."""

    def __init__(self, name: str) -> None:
        super().__init__(f"tensor.ops.{name}")
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        if self.name == "aten":
            operator = own_operators.aten(name)
            vars(self)[name] = operator
            return operator
        packet = operators.packets.get((self.name, name))
        if packet is None:
            raise AttributeError(
                f"'_OpNamespace' '{self.name}' object has no attribute '{name}': no operator {self.name}::{name} was "
                f"registered by torch.library; compiled ones are not loaded",
                name=name,
            )
        return packet

    def __dir__(self) -> list[str]:
        if self.name == "aten":
            return own_operators.names()
        return sorted(name for namespace, name in operators.packets if namespace == self.name)


class Ops(ModuleType):
    """The module ``tensor.ops``, whose attributes are namespaces."""

    def __init__(self, name: str) -> None:
        super().__init__(name, __doc__)
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise missing("tensor.ops", name)
        namespace = OpNamespace(name)
        vars(self)[name] = namespace
        return namespace

    def load_library(self, path: str | PathLike[str]) -> None:
        """Register the operators of a compiled library: of torchvision's, which are here.

        Raises
        ------
        OSError
            For any other: such libraries are made of PyTorch's own C++ classes, which are not here.
        """
        if torchvision_operators.is_torchvisions(fspath(path)):
            torchvision_operators.define()
            self.loaded_libraries.add(fspath(path))
            return
        raise OSError(
            f"Could not load this library: {fspath(path)}: compiled operators need PyTorch's C++ libraries, which are not "
            "here; register the operator by torch.library.custom_op, with a kernel in Python or of cuda.RawKernel"
        )

    def load_library_if_exists(self, path: str | PathLike[str]) -> None:
        """Register the operators of a compiled library, as :meth:`load_library`."""
        self.load_library(path)
