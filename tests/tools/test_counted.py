"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from tools.counted import counted


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 bytes"), (1, "1 byte"), (2, "2 bytes"), (4000, "4000 bytes")]
)
def test_nouns_with_an_s(number: int, text: str) -> None:
    assert counted(number, "byte") == text


def test_nouns_with_another_plural() -> None:
    assert [counted(number, "launch", "launches") for number in (1, 2)] == ["1 launch", "2 launches"]


def test_groups_of_digits() -> None:
    assert counted(1_234_567, "file", separator=",") == "1,234,567 files"
