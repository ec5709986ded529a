"""Every public name says what its parameters are and what it raises.

Operations, which share their docstrings' parts, are held to more in ``tests/tensor/operations/definition/test_docstrings.py``.
"""

from __future__ import annotations

import re

import pytest

from .public_names import PublicName, public_names

#: Says that another docstring has the rest: an alias, an override, or a function that is explained with its family.
_ELSEWHERE = re.compile(
    r"^See (that|:\w+:)|[Rr]aises as |are those of |[Aa]lias of |as for the errors", re.MULTILINE
)

PUBLIC = public_names()


def _is_explained(name: str, text: str) -> bool:
    return bool(re.search(rf"\b{re.escape(name)}\b", text) or _ELSEWHERE.search(text))


def test_there_are_as_many_as_the_packages_publish() -> None:
    """So that a change of how they are collected does not empty the tests below."""
    packages = [name.partition(".")[0] for name in PUBLIC]
    for package, least in {"drv": 200, "tensor": 300, "nn": 600, "parallel": 180}.items():
        assert packages.count(package) >= least


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring_speaks_of_parameters_and_exceptions(name: str) -> None:
    public = PUBLIC[name]
    text = public.text
    assert text.strip(), "it has no docstring"
    unexplained = [each for each in public.parameters() if not _is_explained(each, text)]
    assert not unexplained, "the docstring does not mention these parameters"
    unsaid = [each for each in sorted(public.exceptions()) if not _is_explained(each, text)]
    assert not unsaid, "the code raises these, and the docstring does not say so"


# The rule itself


def _checked(kind: object) -> None:
    if kind is None:
        raise TypeError("a kind is needed")


class _Sample:
    def public(self, size: int, *, out: object = None) -> int:
        """Twice ``size``."""
        _checked(out)
        return self._positive(size)

    def _positive(self, size: int) -> int:
        if size < 0:
            raise ValueError("size is negative")
        return 2 * size


def test_the_rule_finds_what_is_missing() -> None:
    public = PublicName("public", _Sample.public, _Sample)
    assert public.parameters() == ["size", "out"]
    assert public.exceptions() == {"TypeError", "ValueError"}
    assert _is_explained("size", public.text)
    assert not _is_explained("out", public.text)
    assert _is_explained("out", "See :func:`other` for the parameters.")
