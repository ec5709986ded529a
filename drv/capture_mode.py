"""What a thread may do while a stream is captured."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .runtime import Runtime


def relax_captures(runtime: Runtime) -> None:
    """Let this thread do, from now on, what captures forbid other threads, such as to ask whether an event was reached."""
    from cuda.bindings.driver import CUstreamCaptureMode

    relaxed = CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    runtime.check(
        runtime.driver.cuThreadExchangeStreamCaptureMode(relaxed), "cuThreadExchangeStreamCaptureMode"
    )


@contextlib.contextmanager
def unseen_by_captures(runtime: Runtime) -> Iterator[None]:
    """Let this thread allocate and load while captures last, whatever their modes.

    That is safe where what it does is no part of what is captured, and stays as long as the graph needs it.
    """
    if not runtime.captures:
        yield
        return
    from cuda.bindings.driver import CUstreamCaptureMode

    driver = runtime.driver
    relaxed = CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = runtime.check(
        driver.cuThreadExchangeStreamCaptureMode(relaxed), "cuThreadExchangeStreamCaptureMode"
    )
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(before)
