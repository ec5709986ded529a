"""Plans whose results lie where somebody else says, such as a program that knows what is there at the same time.

Plans ask ``maker(layout)`` for what makes their results. Those that are made inside of :func:`placing` look into
``device_state.local.placed`` first.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tensor.core.layout import Layout


class _Placing(threading.local):
    """Layouts that plans which this thread makes ask for; ``None`` where they allocate, as always."""

    layouts: set[Layout] | None = None


_this_thread = _Placing()


@contextmanager
def placing() -> Iterator[set[Layout]]:
    """Have plans that are made inside give tensors of ``device_state.local.placed``, a list, the next one last.

    Where that has none of the layout they allocate. Gives the set of layouts that they ask for.
    """
    layouts: set[Layout] = set()
    with _asking_for(layouts):
        yield layouts


def is_placing(layout: Layout) -> bool:
    """Whether tensors of ``layout`` that the plan in the making asks for may be placed."""
    if _this_thread.layouts is None:
        return False
    _this_thread.layouts.add(layout)
    return True


def as_always() -> AbstractContextManager[None]:
    """Have plans that are made inside allocate."""
    return _asking_for(None)


@contextmanager
def _asking_for(layouts: set[Layout] | None) -> Iterator[None]:
    before, _this_thread.layouts = _this_thread.layouts, layouts
    try:
        yield
    finally:
        _this_thread.layouts = before
