"""What happens where the host waits for a device: nothing, a warning, or an error."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tensor.core.warning import warn_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFAULT, WARN, ERROR = 0, 1, 2
#: A bit beside these: somebody else asks too.
OBSERVED = 4

_TEXT = "called a synchronizing CUDA operation"


class _SyncDebug:
    """``level`` is asked before each copy that the host waits for; :meth:`report` is for levels other than 0.

    Attributes
    ----------
    level : int
        What the program set, and :data:`OBSERVED` while there are observers.
    observers : list of callables
        Called without arguments before each such copy.
    """

    __slots__ = ("level", "observers")

    def __init__(self) -> None:
        self.level = DEFAULT
        self.observers: list[Callable[[], None]] = []

    def observe(self, observer: Callable[[], None]) -> None:
        """Have ``observer`` called before each copy that the host waits for, in any thread."""
        self.observers.append(observer)
        self.level |= OBSERVED

    def unobserve(self, observer: Callable[[], None]) -> None:
        """Have ``observer`` called no more."""
        self.observers.remove(observer)
        if not self.observers:
            self.level &= ~OBSERVED

    def report(self) -> None:
        """Warn, or raise RuntimeError, before the operation is queued."""
        for observer in self.observers:
            observer()
        level = self.level & ~OBSERVED
        if level == DEFAULT:
            return
        if level == ERROR:
            raise RuntimeError(
                f"{_TEXT}: the host would wait for the device here, which cuda.set_sync_debug_mode('error') forbids; "
                "keep the value on the device, or copy with non_blocking=True from or to pinned memory"
            )
        warn_caller(_TEXT)

    def shape_follows_from_data(self) -> None:
        """Tell observers that an operation on the CPU gives a tensor whose shape follows from data.

        On a device the host would wait for it.
        """
        for observer in self.observers:
            observer()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Nothing is reported inside: what waits there is no operation of the program."""
        before, self.level = self.level, DEFAULT
        try:
            yield
        finally:
            self.level = before


sync_debug = _SyncDebug()
