"""Every public name says what its parameters are and what it raises.

Operations, which share their docstrings' parts, are held to more in ``tests/tensor/operations/definition/test_docstrings.py``.
"""

from __future__ import annotations

import functools
import inspect
import re

import pytest

from .public_names import PACKAGES, PublicName, public_names

#: Says that another docstring has the rest: an alias, an override, or a function that is explained with its family.
_ELSEWHERE = re.compile(
    r"^See (that|:\w+:)|[Rr]aises as |are those of |[Aa]lias of |as for the errors", re.MULTILINE
)

#: Read when the first test runs: every process of ``pytest -n`` collects the tests, and few of them run these.
_public_names = functools.cache(public_names)


def _names_of(package: str) -> dict[str, PublicName]:
    return {name: public for name, public in _public_names().items() if name.partition(".")[0] == package}


def _is_explained(name: str, text: str) -> bool:
    return bool(re.search(rf"\b{re.escape(name)}\b", text) or _ELSEWHERE.search(text))


def test_there_are_as_many_as_the_packages_publish() -> None:
    """So that a change of how they are collected does not empty the tests below."""
    for package, least in {"drv": 200, "tensor": 300, "nn": 600, "parallel": 180}.items():
        assert len(_names_of(package)) >= least
    assert sum(len(_names_of(package)) for package in PACKAGES) == len(_public_names())


def _left_unsaid(public: PublicName) -> str:
    """What a docstring should say and does not; nothing where it is complete."""
    text = public.text
    if not text.strip():
        return "has no docstring"
    unexplained = [each for each in public.parameters() if not _is_explained(each, text)]
    if unexplained:
        return f"does not mention its parameters {unexplained}"
    unsaid = [each for each in sorted(public.exceptions()) if not _is_explained(each, text)]
    return f"does not say that it raises {unsaid}" if unsaid else ""


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_speak_of_parameters_and_exceptions(package: str) -> None:
    said = {name: _left_unsaid(public) for name, public in _names_of(package).items()}
    assert {name: text for name, text in said.items() if text} == {}


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


def _is_one_line(public: PublicName) -> bool:
    return len([line for line in (inspect.getdoc(public.value) or "").splitlines() if line.strip()]) <= 1


def test_docstrings_say_more_than_a_line() -> None:
    brief = [
        name
        for name, public in _public_names().items()
        if _is_one_line(public) and not _says_all_in_one_line(public)
    ]
    assert brief == [], "say shapes, dtypes, results or what is raised, too"


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
    assert _left_unsaid(public) == "does not mention its parameters ['out']"
    assert not _left_unsaid(PublicName("count", _Sample.count, _Sample))
    assert not _says_all_in_one_line(public)
    assert not _says_all_in_one_line(PublicName("_Sample", _Sample))
    assert _says_all_in_one_line(PublicName("count", _Sample.count, _Sample))
    assert _says_all_in_one_line(PublicName("other", _Sample.other, _Sample))
