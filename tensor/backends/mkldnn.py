"""oneDNN, which is not used: the CPU computes with NumPy and its BLAS."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Taken for PyTorch's sake; nothing depends on them.
enabled = False
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """False: oneDNN is not used."""
    return False


@contextmanager
def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> Iterator[None]:
    """Settings of this module inside ``with tensor.backends.mkldnn.flags(enabled=False):``.

    ``enabled``, ``deterministic``, ``allow_tf32`` and ``fp32_precision`` are kept for programs that read them; they
    change nothing.
    """
    here = sys.modules[__name__].__dict__
    before = {name: here[name] for name in ("enabled", "deterministic", "allow_tf32", "fp32_precision")}
    here.update(
        enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32, fp32_precision=fp32_precision
    )
    try:
        yield
    finally:
        here.update(before)


VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2


class verbose:  # noqa: N801 - PyTorch's name
    """Accept a level with ``with``: there is nothing that could report.

    Parameters
    ----------
    level : int
        ``VERBOSE_OFF``, ``VERBOSE_ON`` or ``VERBOSE_ON_CREATION``.
    """

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
