"""Programs on ``cuda.bindings.driver``, on the simulated driver."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Self

from cuda.bindings import driver as bindings

from drv import current, selection
from drv.errors import CudaError
from drv.simulator import install

if TYPE_CHECKING:
    from types import TracebackType

    from drv.runtime import Runtime
    from drv.simulator.checks.findings import Findings

_FUNCTION = re.compile(r"cu[A-Z]")
_lock = threading.Lock()
_active: StandIn | None = None


class StandIn:
    """The simulated driver in the place of NVIDIA's; :func:`stand_in` makes it.

    Attributes
    ----------
    runtime : Runtime
        The runtime on that driver, which ``drv``, and all that is built on it, uses, too.
    findings : Findings
        What the checkers have found so far.
    """

    def __init__(self, runtime: Runtime, *, installed: bool) -> None:
        self.runtime = runtime
        # Of the driver's, so that it can be read when the runtime has gone.
        self.findings: Findings = runtime.driver.findings
        self._installed = installed
        self._originals = {name: getattr(bindings, name) for name in vars(bindings) if _FUNCTION.match(name)}

    def finish(self) -> None:
        """Have all that is queued run. It orders nothing, as the program has not waited for it."""
        driver = self.runtime.driver
        with driver.lock:
            for context in list(driver.contexts.values()):
                for stream in context.all_streams():
                    if stream.last is not None and not stream.last.done:
                        driver.scheduler.complete(stream.last)

    def suspend(self) -> None:
        """Give the functions back for a while, in which another stand-in may take them; :meth:`resume` ends it."""
        global _active
        with _lock:
            if _active is self:
                _active = None
                self._give_back()

    def resume(self) -> None:
        """Take the functions again."""
        global _active
        with _lock:
            _refuse_second()
            _active = self
            self._take_over()

    def close(self) -> None:
        """Give the functions of the bindings back to NVIDIA's driver. A second call does nothing."""
        global _active
        with _lock:
            if _active is not self:
                return
            _active = None
            self._give_back()
        if self._installed and selection.is_current(self.runtime):
            selection.reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None and self.runtime.alive:
                self.finish()
                self.runtime.raise_pending()
        finally:
            self.close()

    def _take_over(self) -> None:
        # All are looked up first: the driver asks the bindings how many results a function has that it does not simulate.
        simulated = {name: getattr(self.runtime.driver, name) for name in self._originals}
        for name, function in simulated.items():
            setattr(bindings, name, function)

    def _give_back(self) -> None:
        for name, original in self._originals.items():
            setattr(bindings, name, original)


def active() -> StandIn | None:
    """The stand-in in use, if there is one."""
    return _active


def _refuse_second() -> None:
    if _active is not None:
        raise CudaError("a simulated driver stands in for NVIDIA's already: close() that stand-in first")


def stand_in(**options: Any) -> StandIn:
    """Let the functions of ``cuda.bindings.driver`` be those of a simulated driver, for programs that call them.

    It holds for the rest of the process, or as a context manager for a block, at whose end the queued work is waited for
    and the first finding of the checkers, which such a program has nobody to tell, is raised.

    Parameters
    ----------
    **options
        As :func:`install` takes them. ``drv``, and what is built on it, is on the same driver. Without options a
        simulated driver that is in use already is taken.

    Returns
    -------
    StandIn
        With ``findings``, and ``close()`` that ends it.

    Raises
    ------
    CudaError
        If NVIDIA's driver is in use in this process, or another stand-in is.
    InvalidValueError
        If an option does not exist or cannot have that value.
    FindingError
        By the context manager, at the end of its block.

    Notes
    -----
    A module that did ``from cuda.bindings import driver``, also before, is served; one that took a function out of it
    (``from cuda.bindings.driver import cuInit``) before keeps NVIDIA's. Code that reaches the driver from C does not come
    by here.

    Examples
    --------
    >>> from cuda.bindings import driver
    >>> with drv.simulator.stand_in(devices=2):
    ...     _ = driver.cuInit(0)
    ...     print(driver.cuDeviceGetCount()[1])
    2
    """
    global _active
    with _lock:
        _refuse_second()
        reused = not options and selection.is_initialized() and current.runtime().simulated
        runtime = current.runtime() if reused else install(**options)
        _active = StandIn(runtime, installed=not reused)
        _active._take_over()
        return _active
