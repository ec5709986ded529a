"""Parameters of tests of which some run with ``--nightly`` only.

Where every pair of two parameters has a kernel of its own, most of a test's time is compilation, and a part of the pairs is
for the nightly run. :func:`thinned` says which always run by a rule of the test's own. The marker ``sampled`` has every value
of each of several parameters run always, and one in so many of all. :func:`mark_schedules` is for schedules of the simulated
device, under each of which a share of the tests runs.
"""

from __future__ import annotations

import re
import zlib
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


#: Parameters that say under which schedule of the simulated device a test runs, the seed among them.
_SCHEDULES = {"schedule", "schedules", "any_schedule", "seed"}
_SCHEDULE = re.compile(r"\W*(eager|lazy|random)\b")


def mark_schedules(items: Iterable[pytest.Item]) -> None:
    """Mark as nightly what repeats a test under another schedule of the simulated device alone.

    Which schedule runs follows from the names of the test and of its other parameters: each has a share of the tests. Parameters
    whose names say more than the schedule are left alone, and so are tests that choose for themselves what always runs.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        texts = [str(value) for name, value in parameters.items() if name in _SCHEDULES]
        if (
            not any(_SCHEDULE.match(text) for text in texts)
            or any(item.iter_markers("nightly"))
            or any(item.iter_markers("sampled"))
        ):
            continue
        # The seed of a schedule is a part behind it, or of it.
        names = item.callspec.id.split("-")
        try:
            for part in "-".join(texts).split("-"):
                names.remove(part)
        except ValueError:
            continue
        tests.setdefault("-".join((item.nodeid.partition("[")[0], *names)), []).append(item)
    for test, same in tests.items():
        running = zlib.crc32(test.encode()) % len(same)
        for item in same[:running] + same[running + 1 :]:
            item.add_marker(pytest.mark.nightly)


def mark_sampled(items: Iterable[pytest.Item]) -> None:
    """Mark as nightly what ``@pytest.mark.sampled(every)`` leaves out of a test's parameters.

    At least one in ``every`` runs, the first among them. Where the test has several parameters, every value of each runs, in
    as few tests as come of taking the one with the most values that have not run yet, time after time. The choice is the same in
    every process.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if (
            item.get_closest_marker("sampled") is not None
            and hasattr(item, "callspec")
            and item.get_closest_marker("nightly") is None
        ):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in tests.values():
        marker = same[0].get_closest_marker("sampled")
        assert marker is not None
        running = _sample([_values(item) for item in same], marker.args[0])
        for number, item in enumerate(same):
            if number not in running:
                item.add_marker(pytest.mark.nightly)


def _sample(values: list[set[Hashable]], every: int) -> set[int]:
    """Numbers of sets that have all values between them, and of others if these are fewer than one in ``every``."""
    result = {0}
    missing: set[Hashable] = set().union(*values) - values[0]
    while missing:
        # The first of those that have the most.
        best = max(range(len(values)), key=lambda number: len(missing & values[number]))
        result.add(best)
        missing -= values[best]
    others = [number for number in range(len(values)) if number not in result]
    more = max(0, -(-len(values) // every) - len(result))
    return result | {others[(2 * number + 1) * len(others) // (2 * more)] for number in range(more)}


def _values(item: Any) -> set[Hashable]:
    """Values of a test's parameters, each with the parameter's name; none of a single one."""
    parameters = item.callspec.params
    if len(parameters) < 2:
        return set()
    return {(name, _comparable(value)) for name, value in parameters.items()}


def _comparable(value: object) -> Hashable:
    """What is equal for equal values, also where they are no keys of a dictionary."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
