"""Intel's MKL, which is not used by itself: the CPU computes with the BLAS that NumPy came with."""

from __future__ import annotations

from typing import Self


def is_available() -> bool:
    """False: whichever library NumPy computes with, it is not asked for here."""
    return False


VERBOSE_OFF, VERBOSE_ON = 0, 1


class verbose:  # noqa: N801 - PyTorch's name
    """Accept a level with ``with``: there is nothing that could report.

    Parameters
    ----------
    enable : int
        ``VERBOSE_OFF`` or ``VERBOSE_ON``.
    """

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
