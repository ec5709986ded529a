"""What autocast blocks set in each thread; :mod:`tensor.amp` makes the blocks, :mod:`tensor.operations.autocast` obeys."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels.dtypes import bfloat16, float16

from .grad_mode import Blocks, modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

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
    groups : dict
        What earlier blocks cast, by the key of the first: see :func:`leave`.
    """

    def __init__(self) -> None:
        self.dtypes = {"cpu": bfloat16, "cuda": float16}
        self.keeps = True
        self.depth = 0
        self.casts: dict[Any, CachedCast] = {}
        self.groups: dict[Any, list[weakref.ref[Tensor]]] = {}


class CachedCast:
    """The cast of a parameter, with what must not change or be freed while it is used."""

    __slots__ = ("input", "result", "storage", "stream", "version")

    def __init__(self, input: Tensor, stream: Any, result: Tensor) -> None:
        self.input = input
        self.stream = stream
        self.result = result
        self.storage = input._storage
        self.version = input._storage.version

    def shows(self, input: Tensor) -> bool:
        """Whether the cast has the elements of ``input`` now, and a history if operations are recorded."""
        storage = input._storage
        if storage is not self.storage or storage.version != self.version:
            return False
        return self.result._autograd is not None or not modes.recording


def cast_key(input: Tensor, dtype: dtype, stream: Any) -> tuple[int, dtype, int]:
    """What the cast of a parameter to ``dtype`` is cached by. Each stream has its own: nothing orders one behind another."""
    return id(input), dtype, id(stream)


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
    """Leave a block; after the outermost one no cast is cached.

    What a stream cast to one dtype is noted as a group, so that the next block, when it comes to the first of them, can
    cast all of them at once.
    """
    settings.depth -= 1
    if settings.depth or not settings.casts:
        return
    groups: dict[Any, list[Tensor]] = {}
    for (_, dtype, stream), entry in settings.casts.items():
        groups.setdefault((dtype, stream), []).append(entry.input)
    for (dtype, stream), inputs in groups.items():
        key = id(inputs[0]), dtype, stream
        known = settings.groups.get(key, ())
        if len(inputs) > 1 and [id(each()) for each in known] != [id(x) for x in inputs]:
            forget = functools.partial(_forget, settings.groups, key)
            settings.groups[key] = [weakref.ref(inputs[0], forget), *map(weakref.ref, inputs[1:])]
    settings.casts.clear()


def _forget(groups: dict[Any, Any], key: Any, _: Any) -> None:
    groups.pop(key, None)


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
