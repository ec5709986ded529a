"""What happens where the host waits for a device: nothing, a warning, or an error."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tensor.core.warning import warn_caller

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT, WARN, ERROR = 0, 1, 2

_TEXT = "called a synchronizing CUDA operation"


class _SyncDebug:
    """``level`` is asked before each copy that the host waits for; :meth:`report` is for levels other than 0."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = DEFAULT

    def report(self) -> None:
        """Warn, or raise RuntimeError, before the operation is queued."""
        if self.level == ERROR:
            raise RuntimeError(
                f"{_TEXT}: the host would wait for the device here, which cuda.set_sync_debug_mode('error') forbids; "
                "keep the value on the device, or copy with non_blocking=True from or to pinned memory"
            )
        warn_caller(_TEXT)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Nothing is reported inside: what waits there is no operation of the program."""
        before, self.level = self.level, DEFAULT
        try:
            yield
        finally:
            self.level = before


sync_debug = _SyncDebug()
