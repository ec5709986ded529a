"""Threads for work that is products of BLAS for the most part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.host.blas import single_threaded
from drv.host.threads import share

if TYPE_CHECKING:
    from collections.abc import Callable


def share_products(work: Callable[[int], None], pieces: int) -> None:
    """:func:`drv.host.threads.share` where BLAS has one thread: threads of both kinds would wait for each other."""
    if single_threaded():
        share(work, pieces)
        return
    for piece in range(pieces):
        work(piece)
