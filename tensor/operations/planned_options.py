"""Plans of operations that have options, such as sizes and strides of windows: found by the options' values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.layout import Layout

#: Types of options that are equal only to options that mean the same: they are part of a plan's key as they are.
PLAIN = frozenset((int, str, bool, type(None)))
_INTEGERS = frozenset((int,))


def plan_for(operation: Any, layouts: tuple[Layout | None, ...], options: tuple[Any, ...]) -> Any:
    """``device_state.plans[operation, *layouts, *options]``, on the device of the first layout.

    Options may be of any type; those that make no sense are reported as they were given, by ``operation.plan``.
    """
    # Asked for all options in one call, as most calls have none of another type.
    if not PLAIN.issuperset(map(type, options)):
        for each in options:
            if type(each) is tuple:
                # What equals an integer, as 2.0 does, is no integer.
                if not _INTEGERS.issuperset(map(type, each)):
                    return _with_rare(operation, layouts, options)
            elif type(each) not in PLAIN:
                return _with_rare(operation, layouts, options)
    return layouts[0].device_state.plans[operation, *layouts, *options]  # type: ignore[union-attr]


def _with_rare(operation: Any, layouts: Sequence[Any], options: tuple[Any, ...]) -> Any:
    keys = []
    for each in options:
        if isinstance(each, (list, tuple)):
            if any(type(number) is not int for number in each):
                return operation.plan(*layouts, *options)
            keys.append(tuple(each))
        elif type(each) in PLAIN:
            keys.append(each)
        else:
            return operation.plan(*layouts, *options)
    plans, key = layouts[0].device_state.plans, (operation, *layouts, *keys)
    result = plans.get(key)
    if result is None:
        result = plans[key] = operation.plan(*layouts, *options)
    return result
