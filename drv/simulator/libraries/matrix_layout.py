"""How the simulated cuBLAS' matrices lie in memory, and what it asks of their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .cublas_state import refuse_value
from .strided_memory import load

if TYPE_CHECKING:
    import numpy as np

    from drv.simulator.memory.library_memory import LibraryMemory


@dataclass(frozen=True, slots=True)
class Layout:
    """Stored matrices ``(batch, rows, columns)`` and their strides in elements."""

    dtype: np.dtype[Any]
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]

    def load(self, memory: LibraryMemory, address: int) -> Any:
        """The matrices at ``address``."""
        return load(memory, address, self.dtype, self.shape, self.strides)


def column_major(dtype: np.dtype[Any], rows: int, columns: int, leading: int) -> Layout:
    """One matrix with a leading dimension."""
    return Layout(dtype, (1, rows, columns), (0, 1, leading))


def require_operations(*operations: int) -> None:
    """Refuse what is neither N, T nor C."""
    for operation in operations:
        if operation not in (0, 1, 2):
            raise refuse_value(f"operation {operation}: expected CUBLAS_OP_N, _T or _C")


def require_sizes(**sizes: int) -> None:
    """Refuse negative sizes."""
    for name, size in sizes.items():
        if size < 0:
            raise refuse_value(f"{name} is {size}")


def require_leading(name: str, leading: int, rows: int) -> None:
    """Refuse a leading dimension that is shorter than a column."""
    if leading < max(1, rows):
        raise refuse_value(f"{name} is {leading}: at least {max(1, rows)} is needed")
