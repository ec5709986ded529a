"""Launch plans: what carries out an operation on operands of given layouts, worked out once and kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from drv.host.blas import single_threaded

if TYPE_CHECKING:
    from collections.abc import Callable

#: Launch plans after which a place starts over; see :mod:`tensor.core.layout`.
PLAN_LIMIT = 16384


class Plans(dict[Any, Any]):
    """What carries out an operation on operands of given layouts: ``plans[operation, *layouts]``.

    A missing plan is made by the operation's ``plan``: a method, or the function of a :class:`planned` one.
    """

    __slots__ = ()

    def __missing__(self, key: tuple[Any, ...]) -> Any:
        # What is carried out on the host may call BLAS.
        single_threaded()
        result = key[0].plan(*key[1:])
        if len(self) >= PLAN_LIMIT:
            self.clear()
        self[key] = result
        return result


class planned:  # noqa: N801 - stands where a decorator would
    """An operation that is nothing but how it is planned; as a key it is itself.

    ``COPY = planned(function)`` has ``device_state.plans[COPY, to, origin]`` call ``function(to, origin)`` once; what that
    returns carries the operation out. ``arguments`` come before those of the key, and ``options`` by name, so that one
    function plans a family: ``planned(_pair_plan, "mm", 2)``.
    """

    __slots__ = ("plan",)

    def __init__(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        self.plan = partial(function, *arguments, **options) if arguments or options else function

    def __repr__(self) -> str:
        function = self.plan.func if isinstance(self.plan, partial) else self.plan
        return f"<planned {function.__module__}.{function.__qualname__}>"
