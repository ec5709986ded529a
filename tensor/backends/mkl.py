"""Intel's MKL, which is not used by itself: the CPU computes with the BLAS that NumPy came with."""

from __future__ import annotations


def is_available() -> bool:
    """False: whichever library NumPy computes with, it is not asked for here."""
    return False
