"""Imports without the cyclic collector leave it as it was, and everything in its oldest generation."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from graphroot.importing import without_collections

#: Both run in processes of their own, as the tests' own has frozen objects.
_OLD = """
import gc
from graphroot.importing import without_collections
collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
with without_collections():
    objects = [[position] for position in range(3000)]
gc.callbacks.clear()
assert gc.isenabled() and not collections, collections
assert not gc.get_freeze_count()
assert any(each is objects for each in gc.get_objects(generation=2))
"""
_FROZEN = """
import gc
from graphroot.importing import without_collections
objects = [[position] for position in range(3000)]
gc.freeze()
with without_collections():
    pass
assert gc.isenabled()
assert gc.get_freeze_count() >= 3000
"""


@pytest.mark.parametrize("program", [_OLD, _FROZEN], ids=["old", "frozen"])
def test_a_block_has_no_collections_and_what_it_makes_is_old(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    assert gc.isenabled()
    with pytest.raises(ImportError), without_collections():
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
