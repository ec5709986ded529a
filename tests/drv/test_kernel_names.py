from __future__ import annotations

import pytest

from drv import kernel_names
from drv.kernel_names import readable, with_readable_names

NAMES = {
    "saxpy": "saxpy",
    "_Z5twicePf": "twice",
    "_Z5shiftIiEvPT_": "shift<int>",
    "_ZN1a1b4fillIfLi3EEEvPT_": "a::b::fill<float, 3>",
    "_Z9fill_flatIf6NormalIfEEvPT_yyyyy": "fill_flat<float, Normal<float>>",
    "_ZN12_GLOBAL__N_14sortEPi": "(anonymous namespace)::sort",
    "_Zwhatever": "_Zwhatever",
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_names_of_kernels(name: str, expected: str) -> None:
    assert readable(name) == expected


def test_without_the_library_of_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_names, "_library", lambda: None)
    readable.cache_clear()
    names = {name: readable(name) for name in NAMES}
    readable.cache_clear()
    assert names["_Z5shiftIiEvPT_"] == "shift"
    assert names["_ZN1a1b4fillIfLi3EEEvPT_"] == "a::b::fill"
    assert names["_Zwhatever"] == "_Zwhatever"


def test_names_in_a_text() -> None:
    text = "kernel '_Z5shiftIiEvPT_' on stream 1 after kernel 'saxpy'"
    assert with_readable_names(text) == "kernel 'shift<int>' on stream 1 after kernel 'saxpy'"
