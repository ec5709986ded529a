"""What the driver needs to know of parsed PTX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class KernelCode(Protocol):
    """An entry function of a module."""

    @property
    def name(self) -> str:
        """Name in the module."""

    @property
    def parameters(self) -> Sequence[tuple[str, int, int, int]]:
        """``(name, offset, size, alignment)`` of each parameter, in bytes."""

    @property
    def parameter_bytes(self) -> int:
        """Size of the parameter buffer."""

    @property
    def static_shared_bytes(self) -> int:
        """Shared memory that the kernel declares."""

    @property
    def local_bytes(self) -> int:
        """Local memory per thread."""

    @property
    def registers(self) -> int:
        """Registers per thread, estimated: PTX has as many as it likes."""

    @property
    def max_threads(self) -> int | None:
        """Threads per block that the kernel is declared for (``.maxntid``, ``.reqntid``)."""


class VariableImage(Protocol):
    """A module-scope variable in global or constant memory."""

    @property
    def name(self) -> str:
        """Name in the module."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def initial(self) -> bytes:
        """First bytes of the variable; the rest is zero."""

    @property
    def relocations(self) -> Sequence[tuple[int, str, int]]:
        """``(offset, symbol, addend)`` of the addresses it holds."""


class Program(Protocol):
    """A parsed module."""

    @property
    def target(self) -> str:
        """``.target`` such as ``sm_90``."""

    @property
    def entries(self) -> Mapping[str, KernelCode]:
        """Kernels by name."""

    @property
    def variables(self) -> Mapping[str, VariableImage]:
        """Variables by name."""

    @property
    def code_addresses(self) -> dict[str, int]:
        """Addresses of functions by name."""
