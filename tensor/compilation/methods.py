"""Which methods of a program's classes may run, and with that which attributes of their objects are read.

An object that trains a model has methods for much else, such as counting steps: what only these read may change.
"""

from __future__ import annotations

import dis
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: What finds attributes by names that are computed, or all of them.
_COMPUTED = frozenset(
    (
        "getattr",
        "hasattr",
        "vars",
        "dir",
        "__dict__",
        "__getattribute__",
        "attrgetter",
        "asdict",
        "astuple",
        "fields",
        "getmembers",
    )
)
#: The instruction of a pattern with a class's attributes, whose names may be those of its ``__match_args__``.
_MATCHES_CLASS = dis.opmap["MATCH_CLASS"]


def names_in(code: types.CodeType) -> Iterator[str]:
    """The names that some code may ask objects for."""
    yield from code.co_names
    yield from (each for each in code.co_consts if isinstance(each, str))


def attribute_of(x: Any, name: str) -> Any:
    """An attribute; ``None`` where there is none, or asking for it raises an error."""
    try:
        return getattr(x, name, None)
    except Exception:
        return None


def function_of(member: Any) -> types.FunctionType | None:
    """The function that a member of a class is, or that it is made of, as properties are."""
    for each in (member, *(attribute_of(member, name) for name in ("__func__", "fget", "func"))):
        if isinstance(each, types.FunctionType):
            return each
    return None


class Methods:
    """Methods of classes by their code, and the names that code asks for which may run.

    A method may run if its name is in other code that may, or if Python calls it by itself, as ``__getattr__``.
    """

    def __init__(self) -> None:
        self._classes: set[type] = set()
        #: The names of methods by their code, with the code inside of them.
        self._names: dict[types.CodeType, set[str]] = {}
        self._begun: set[types.CodeType] = set()

    def begin(self, function: types.FunctionType) -> None:
        """Take note of a function that may run without being named: what is called first, or is a value."""
        self._begun.update(_inside(function.__code__))

    def add(self, cls: type, is_own: Callable[[type], bool]) -> bool:
        """Take note of the methods of ``cls``; ``False`` if others than ``is_own`` says are among its bases."""
        bases = [each for each in cls.__mro__ if each is not object]
        if not all(map(is_own, bases)):
            return False
        if cls not in self._classes:
            self._classes.add(cls)
            for each in bases:
                for name, member in vars(each).items():
                    # What is called by making an object goes by the name of its class.
                    called = cls.__name__ if name == "__init__" else name
                    function = function_of(member)
                    while function is not None:
                        for code in _inside(function.__code__):
                            self._names.setdefault(code, set()).add(called)
                        function = function_of(getattr(function, "__wrapped__", None))
        return True

    def names(self, codes: Iterable[types.CodeType]) -> frozenset[str] | None:
        """The names that those of ``codes`` ask for that may run; ``None`` if they ask for names that are computed."""
        running = self._running(codes)
        names = {name for code in running for name in names_in(code)}
        if names & _COMPUTED or any(_MATCHES_CLASS in code.co_code[::2] for code in running):
            return None
        return frozenset(names)

    def left_out(self, codes: Iterable[types.CodeType]) -> set[types.CodeType]:
        """Those of ``codes`` that do not run."""
        codes = set(codes)
        return codes - self._running(codes)

    def _running(self, codes: Iterable[types.CodeType]) -> set[types.CodeType]:
        # Of classes also what is not looked through, as what dataclasses write.
        waiting = [code for code in self._names if code not in self._begun]
        running = {*codes, *self._names}.difference(waiting)
        names = {name for code in running for name in names_in(code)}
        while True:
            more = [
                code
                for code in waiting
                if any(name in names or is_implied(name) for name in self._names[code])
            ]
            if not more:
                return running
            running.update(more)
            waiting = [code for code in waiting if code not in running]
            names.update(name for code in more for name in names_in(code))


def is_implied(name: str) -> bool:
    """Whether an attribute may be asked for, or a method run, without being named."""
    return name.startswith("__") and name.endswith("__")


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _inside(constant)
