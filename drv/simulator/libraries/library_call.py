"""What the simulated libraries share: refusing a call with a status, and queueing work."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from drv.bindings.prototypes import call_text
from drv.errors import is_sticky
from drv.simulator.injection import RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import IntEnum

    from drv.simulator.injection import Injection
    from drv.simulator.memory.library_memory import LibraryMemory
    from drv.simulator.work.simulated_library import LibraryCost


class Driver(Protocol):
    """What the simulated libraries need of the simulated driver."""

    inject: Injection
    #: What libraries have in common, by their names.
    shared: dict[str, Any]

    def library_call(
        self,
        stream: int,
        label: str,
        run: Callable[[LibraryMemory], None],
        device: int | None = None,
        cost: LibraryCost | None = None,
    ) -> tuple[Any, ...]:
        """Queue ``run``, which gets the memory as the stream's device sees it; ``device`` must be that one."""

    def cuCtxGetDevice(self) -> tuple[Any, ...]:
        """Ordinal of the current context's device."""

    def cuStreamSynchronize(self, hStream: Any) -> tuple[Any, ...]:
        """Wait for what is queued on a stream."""

    def cuMemAlloc(self, bytesize: Any) -> tuple[Any, ...]:
        """Allocate device memory."""

    def cuMemFree(self, dptr: Any) -> tuple[Any, ...]:
        """Free device memory."""

    def fault_report(self) -> str | None:
        """What lost the current context."""


def answer_text(driver: Driver, status: Any) -> str:
    """What the driver answered, and what lost the context where that is why."""
    report = driver.fault_report() if is_sticky(int(status)) else None
    return f"the driver answered {status.name}" + (f"\n{report}" if report else "")


class Refusal(Exception):  # noqa: N818 - a status, not yet an error
    """A call ends with ``status``; ``detail`` says what is wrong with it."""

    def __init__(self, status: int, detail: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


_Function = TypeVar("_Function", bound="Callable[..., Any]")


def refusing(
    failure: Callable[[int, str, str], Exception], internal_error: IntEnum
) -> Callable[[_Function], _Function]:
    """A decorator for methods with C names: a :class:`Refusal` becomes what ``failure`` makes of it.

    ``internal_error`` is the status of a call that is to fail and nothing says how.
    """

    def decorate(method: _Function) -> _Function:
        parameters = list(inspect.signature(method).parameters)[1:]

        @wraps(method)
        def answering(self: Any, *arguments: Any) -> Any:
            try:
                if self._driver.inject.asked:
                    return watched(self, *arguments)
                return method(self, *arguments)
            except Refusal as refusal:
                text = call_text(method.__name__, parameters, arguments)
                raise failure(refusal.status, text, refusal.detail) from None

        def watched(self: Any, *arguments: Any) -> Any:
            inject: Injection = self._driver.inject
            fault = inject.call_fault(method.__name__, internal_error)
            if fault is not None and method.__name__ not in RELEASES:
                raise Refusal(fault)
            with inject.in_library():
                result = method(self, *arguments)
            if fault is not None:
                raise Refusal(fault)
            return result

        return answering  # type: ignore[return-value]

    return decorate
