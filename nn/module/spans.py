"""Spans of modules, for profiles that run."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from tensor.core.spans import MODULE, watch_also

from .hooks import FORWARD, FORWARD_PRE, Hook, add, every_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.spans import Span, Spans


def _watch_modules(spans: Spans) -> Callable[[], None]:
    """Note a span around each call of a module, named by its class and its path from the outermost one that was called."""
    open_spans: dict[int, list[tuple[int, Span]]] = {}
    paths: dict[int, str] = {}

    def before(module: Any, args: Any) -> None:
        stack = open_spans.setdefault(get_ident(), [])
        if not stack:
            # The path of each module below, as state dicts have it.
            for path, each in module.named_modules():
                paths[id(each)] = path
        path = paths.get(id(module), "")
        name = f"nn.Module: {path}" if path else f"nn.Module: {type(module).__name__}"
        span = spans.begin(name, MODULE)
        span.arguments = type(module).__name__
        stack.append((id(module), span))

    def after(module: Any, args: Any, result: Any) -> None:
        stack = open_spans.get(get_ident(), [])
        while stack:
            identity, span = stack.pop()
            spans.end(span)
            if identity == id(module):
                break

    handles = [
        add(every_module, Hook(before, FORWARD_PRE), prepend=True),
        add(every_module, Hook(after, FORWARD, always_call=True)),
    ]

    def stop() -> None:
        for handle in handles:
            handle.remove()

    return stop


watch_also(_watch_modules)
