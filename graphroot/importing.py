"""Imports of many modules without the cyclic collector, which would walk over all that they make, time after time."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_collections() -> Iterator[None]:
    """Import inside this block without cyclic collections; what there is at its end is as old as after many of them.

    Functions, classes and modules stay to the end. Collections while they are imported find next to nothing, at a fifth
    of the import's time, and the first one afterwards would walk over all of them as if they were new. Objects that the
    program froze stay frozen, and a collector that it had turned off stays off.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        if not gc.get_freeze_count():
            # All objects become those of the oldest generation, which only a full collection looks at.
            gc.freeze()
            gc.unfreeze()
    finally:
        gc.enable()
