"""OpenMP, which is not used: threads are Python's own, and those of NumPy's BLAS."""

from __future__ import annotations


def is_available() -> bool:
    """False: OpenMP is not used."""
    return False
