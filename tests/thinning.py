"""Parameters of tests of which some run with ``--nightly`` only.

Where every pair of two parameters has a kernel of its own, most of a test's time is compilation. What runs always has every
value of each parameter; the other pairs are for the nightly run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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
