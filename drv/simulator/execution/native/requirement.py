"""What ``native=on`` needs."""

from __future__ import annotations

from drv.errors import LibraryNotInstalledError
from drv.host import machine_code


def require() -> None:
    """Raise :class:`LibraryNotInstalledError` if native code cannot be compiled."""
    if not machine_code.available():
        raise LibraryNotInstalledError(
            "native=on: native code for simulated kernels needs llvmlite, on a processor that LLVM knows: "
            "pip install 'graphroot[native]', or leave it to NumPy with native=off"
        )
