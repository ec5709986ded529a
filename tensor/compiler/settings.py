"""Settings of compilers, which programs set and which change nothing: there is nothing that they are settings of."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def patch_of(module: str) -> Callable[..., Any]:
    """The function ``patch`` of the module of settings of that name."""

    @contextmanager
    def patch(changes: Any = None, value: Any = None, /, **settings: Any) -> Iterator[None]:
        """Set some settings inside ``with``, or in a decorated function.

        Parameters
        ----------
        changes : dict or str, optional
            Settings by name, or the name of one.
        value
            What that one is set to.
        **settings
            Others.
        """
        names = vars(sys.modules[module])
        new = {**({changes: value} if isinstance(changes, str) else changes or {}), **settings}
        before = {name: names[name] for name in new if name in names}
        names.update(new)
        try:
            yield
        finally:
            for name in new:
                names.pop(name, None)
            names.update(before)

    return patch
