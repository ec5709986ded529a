"""Spans of optimizers' steps, for profiles that run."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from tensor.core.spans import ANNOTATION, watch_also

from .optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.spans import Span, Spans


def _watch_steps(spans: Spans) -> Callable[[], None]:
    """Note a span around each step of an optimizer."""
    running: dict[tuple[int, int], Span] = {}

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        name = f"Optimizer.step#{type(optimizer).__name__}.step"
        running[get_ident(), id(optimizer)] = spans.begin(name, ANNOTATION)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        span = running.pop((get_ident(), id(optimizer)), None)
        if span is not None:
            spans.end(span)

    handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]

    def stop() -> None:
        for handle in handles:
            handle.remove()

    return stop


watch_also(_watch_steps)
