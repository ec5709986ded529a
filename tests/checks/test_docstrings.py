"""Every public name says what its parameters are and what it raises.

Operations, which share their docstrings' parts, are held to more in ``tests/tensor/operations/definition/test_docstrings.py``.
"""

from __future__ import annotations

import functools
import inspect
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


#: What a signature without parameters says by its result: nothing is left to say of a flag, a number or a name.
_SAID_BY_SIGNATURE = ("bool", "int", "float", "str", "None")
#: Refers to the docstring that has shapes, dtypes and errors: an override, an alias, an older name.
_REFERS = re.compile(r"^(See (that|:\w+:)|(Alias|Deprecated name|Older name) of :\w+:)|: an alias of :\w+:")


def _says_all_in_one_line(public: PublicName) -> bool:
    """Whether there is nothing else to say: of a property, of what takes no argument and returns no object, of an alias."""
    if isinstance(public.value, (property, functools.cached_property)) or _REFERS.search(public.text):
        return True
    if inspect.isclass(public.value):
        return False
    signature = inspect.signature(public.functions[0])
    takes = [name for name in signature.parameters if name not in ("self", "cls")]
    return not takes and str(signature.return_annotation) in _SAID_BY_SIGNATURE


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring_says_more_than_a_line(name: str) -> None:
    public = PUBLIC[name]
    lines = [line for line in (inspect.getdoc(public.value) or "").splitlines() if line.strip()]
    assert len(lines) > 1 or _says_all_in_one_line(public), (
        "say shapes, dtypes, results or what is raised, too"
    )


# The rule itself


def _checked(kind: object) -> None:
    if kind is None:
        raise TypeError("a kind is needed")


class _Sample:
    def public(self, size: int, *, out: object = None) -> int:
        """Twice ``size``."""
        _checked(out)
        return self._positive(size)

    def count(self) -> int:
        """Number of elements."""
        return 1

    def other(self, size: int) -> object:
        """See :meth:`public`."""
        return self.public(size)

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
    assert not _says_all_in_one_line(public)
    assert not _says_all_in_one_line(PublicName("_Sample", _Sample))
    assert _says_all_in_one_line(PublicName("count", _Sample.count, _Sample))
    assert _says_all_in_one_line(PublicName("other", _Sample.other, _Sample))
