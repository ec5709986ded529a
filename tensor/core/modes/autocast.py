"""What autocast blocks set in each thread; :mod:`tensor.amp` makes the blocks, :mod:`tensor.operations.autocast` obeys."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels.dtypes import bfloat16, float16

from .grad_mode import Blocks, modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvrtc_kernels.dtypes import dtype

#: The types of devices that there are blocks for.
DEVICE_TYPES = ("cpu", "cuda")


class Casts(NamedTuple):
    """What a thread's operations cast to, for each type of device; ``None`` where nothing is cast."""

    cpu: dtype | None
    cuda: dtype | None
    #: Whether the casts of parameters are cached.
    keeps: bool


class _Settings(threading.local):
    """Of one thread: what holds inside blocks, beside ``modes.autocast``.

    Attributes
    ----------
    dtypes : dict
        What is cast to, by type of device, where autocast is enabled.
    keeps : bool
        Whether casts of parameters are cached.
    depth : int
        How many blocks the thread is in.
    casts : dict
        The cached ones.
    """

    def __init__(self) -> None:
        self.dtypes = {"cpu": bfloat16, "cuda": float16}
        self.keeps = True
        self.depth = 0
        self.casts: dict[Any, Any] = {}


settings = _Settings()

#: In how many threads anything is cast. Operations look at their thread only if there are any.
autocast_blocks = Blocks()


def set_casts(casts: Casts | None) -> None:
    """Have this thread's operations cast from now on as ``casts`` says."""
    if casts is not None and casts.cpu is None and casts.cuda is None:
        casts = None
    change = (casts is not None) - (modes.autocast is not None)
    if change:
        autocast_blocks.add(change)
    modes.autocast = casts


def enabled(device_type: str) -> bool:
    """Whether this thread's operations on a type of device are cast."""
    casts = modes.autocast
    return casts is not None and getattr(casts, device_type) is not None


def update(
    device_type: str, enable: bool | None = None, dtype: dtype | None = None, keeps: bool | None = None
) -> None:
    """Change what is given of the settings of this thread."""
    if dtype is not None:
        settings.dtypes[device_type] = dtype
    if keeps is not None:
        settings.keeps = keeps
    if enable is None:
        enable = enabled(device_type)
    casts = modes.autocast or Casts(None, None, settings.keeps)
    lower = settings.dtypes[device_type] if enable else None
    set_casts(casts._replace(**{device_type: lower}, keeps=settings.keeps))


def enter() -> None:
    """Go into a block."""
    settings.depth += 1


def leave() -> None:
    """Leave a block; after the outermost one no cast is cached."""
    settings.depth -= 1
    if not settings.depth:
        settings.casts.clear()


def note() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Note the autocast state of this thread.

    Returns
    -------
    Callable
        Gives context managers, in any thread, inside which the state is as it was noted: as in a block like the one
        that this thread is in.
    """
    casts, dtypes, keeps = modes.autocast, dict(settings.dtypes), settings.keeps

    @contextlib.contextmanager
    def noted() -> Iterator[None]:
        casts_before, dtypes_before, keeps_before = modes.autocast, settings.dtypes, settings.keeps
        settings.dtypes, settings.keeps = dict(dtypes), keeps
        set_casts(casts)
        enter()
        try:
            yield
        finally:
            leave()
            settings.dtypes, settings.keeps = dtypes_before, keeps_before
            set_casts(casts_before)

    return noted
