"""opt_einsum, which is not used: ``einsum`` orders its contractions itself."""

from __future__ import annotations

#: Taken for PyTorch's sake; nothing depends on them.
enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False: the package is not used, installed or not."""
    return False


def get_opt_einsum() -> None:
    """None, where PyTorch returns the package: it is not used."""
    return
