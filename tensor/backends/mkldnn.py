"""oneDNN, which is not used: the CPU computes with NumPy and its BLAS."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Taken for PyTorch's sake; nothing depends on them.
enabled = False
deterministic = False


def is_available() -> bool:
    """False: oneDNN is not used."""
    return False


@contextmanager
def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> Iterator[None]:
    """Settings of this module inside ``with tensor.backends.mkldnn.flags(enabled=False):``.

    ``enabled`` and ``deterministic`` are kept for programs that read them; they change nothing, nor do ``allow_tf32``
    and ``fp32_precision``.
    """
    here = sys.modules[__name__].__dict__
    before = {name: here[name] for name in ("enabled", "deterministic")}
    here.update(enabled=enabled, deterministic=deterministic)
    try:
        yield
    finally:
        here.update(before)
