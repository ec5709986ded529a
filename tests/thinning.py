"""Parameters of tests of which some run with ``--nightly`` only.

Where every pair of two parameters has a kernel of its own, most of a test's time is compilation, and a part of the pairs is
for the nightly run. :func:`thinned` says which always run by a rule of the test's own. The marker ``sampled`` has every value
of each of several parameters run always, and every so many of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable


def thinned(
    values: Iterable[Any], always: Callable[..., bool], ids: Callable[..., str] | None = None
) -> list[Any]:
    """Parameters for :func:`pytest.mark.parametrize`: ``values`` as they are where ``always(*value)``, else nightly.

    Parameters
    ----------
    values : iterable
        Each a tuple with a value for each of the test's parameters, or a single value.
    always : callable
        Whether the test always runs with a value, or with those of a tuple.
    ids : callable, optional
        The name of a value, or of those of a tuple.
    """
    result = []
    for each in values:
        value = each if isinstance(each, tuple) else (each,)
        marks = () if always(*value) else (pytest.mark.nightly,)
        result.append(pytest.param(*value, marks=marks, id=None if ids is None else ids(*value)))
    return result


def mark_sampled(items: Iterable[pytest.Item]) -> None:
    """Mark as nightly what ``@pytest.mark.sampled(every)`` leaves out of a test's parameters.

    The first of them runs, and every ``every``-th after it; where the test has several parameters also whatever is the
    first to have a value of one of them. The choice is the same in every process.
    """
    numbers: dict[object, int] = {}
    values: dict[object, set[Hashable]] = {}
    for item in items:
        marker = item.get_closest_marker("sampled")
        parameters = getattr(getattr(item, "callspec", None), "params", None)
        if marker is None or parameters is None or item.get_closest_marker("nightly") is not None:
            continue
        test = item.nodeid.partition("[")[0]
        number = numbers[test] = numbers.get(test, -1) + 1
        seen = values.setdefault(test, set())
        here = (
            {(name, _comparable(value)) for name, value in parameters.items()}
            if len(parameters) > 1
            else set()
        )
        if number % marker.args[0] and here <= seen:
            item.add_marker(pytest.mark.nightly)
        seen |= here


def _comparable(value: object) -> Hashable:
    """What is equal for equal values, also where they are no keys of a dictionary."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
