"""Runs one function in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def together(function: Callable[[int], Any], count: int) -> list[Any]:
    """What ``function(0)``, ``function(1)``, ... return, each called in its thread; the first error is raised."""
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def call(index: int) -> None:
        try:
            results[index] = function(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
    return results
