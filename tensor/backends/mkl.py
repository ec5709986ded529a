"""Intel's oneMKL, which multiplies matrices on the CPU where the extra ``mkl`` is installed."""

from __future__ import annotations

from typing import Self

from drv.host import mkl as _mkl


def is_available() -> bool:
    """Whether the library is installed, and not turned off by ``GRAPHROOT_CPU_MKL=off``."""
    return _mkl.library() is not None


VERBOSE_OFF, VERBOSE_ON = 0, 1


class verbose:  # noqa: N801 - PyTorch's name
    """Let the library write a line to the standard output for each of its calls, inside ``with``.

    Parameters
    ----------
    enable : int
        ``VERBOSE_OFF`` or ``VERBOSE_ON``. Without the library nothing is written.
    """

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> Self:
        if self.enable != VERBOSE_OFF:
            _mkl.verbose(True)
        return self

    def __exit__(self, *exception: object) -> None:
        _mkl.verbose(False)
