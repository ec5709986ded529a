"""Which kernels a block of a test launches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import tensor
from drv.simulator.timing.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def launched() -> Iterator[list[str]]:
    """Note the names of the kernels of a block, and of its copies and products, in their order; they are there after it.

    The profiler tells them. What it says of their times is not read, so that the simulator does not count what they do.
    """
    names: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "launch_begins", lambda *_: None)
        with tensor.profiler.profile() as profile:
            yield names
            tensor.cuda.synchronize()
        names += [each.name for each in profile.events()]
