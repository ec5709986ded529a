"""Python functions that are generated: what is known of a call once and for all is no loop and no look-up in them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .draws import Draw

#: Below this package, so that tracebacks and warnings take generated code for a part of this library.
_FILE = str(Path(__file__).with_name("<generated>"))


@dataclass(frozen=True, slots=True)
class Record:
    """A dataclass of the program's that is made of values.

    Attributes
    ----------
    cls : type
        The class, which has the constructor that it gets as a dataclass.
    values : dict
        What it is made of, by name.
    """

    cls: type
    values: dict[str, Any]


class Code:
    """The body of a function, line by line.

    Parameters
    ----------
    name : str
        The function's.
    *parameters : str
        Its parameters.
    """

    def __init__(self, name: str, *parameters: str) -> None:
        self._name = name
        self._lines = [f"def {name}({', '.join(parameters)}):"]
        self._names: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def add(self, line: str) -> None:
        """A line of the body."""
        self._lines.append(f"    {line}")

    def constant(self, value: Any) -> str:
        """The name of ``value``, the object itself, in the body."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"k{len(self._names)}"
            self._names[name] = value
        return name

    def function(self) -> Callable[..., Any]:
        """The function."""
        # Of names and numbers that are made here: no text of a program is part of it.
        exec(compile("\n".join(self._lines), _FILE, "exec"), self._names)
        result: Callable[..., Any] = self._names[self._name]
        return result


def listed(values: Iterator[str] | list[str]) -> str:
    """A list of expressions."""
    return f"[{', '.join(values)}]"


def grouped(values: Iterator[str] | list[str]) -> str:
    """A tuple of expressions, or of names that are assigned to."""
    return "(" + "".join(f"{each}, " for each in values) + ")"


def expression(
    code: Code, value: Any, leaf: type, names: Callable[[Any], str], draw: Draw | None = None, drawn: str = ""
) -> str:
    """What gives ``value`` with ``names(x)`` in place of each ``leaf`` in it, in lists, tuples and dicts too.

    The numbers of ``draw`` that it has are those of ``drawn``, which names another draw.
    """
    if isinstance(value, leaf):
        return names(value)
    if not _contains(value, leaf, draw):
        return code.constant(value)
    if isinstance(value, (list, tuple)):
        inner = expressions(code, value, leaf, names, draw, drawn)
        if hasattr(value, "_fields"):
            return f"{code.constant(type(value))}({', '.join(inner)})"
        return listed(inner) if type(value) is list else grouped(inner)
    if isinstance(value, dict):
        items = [
            f"{code.constant(name)}: {expression(code, each, leaf, names, draw, drawn)}"
            for name, each in value.items()
        ]
        return f"{{{', '.join(items)}}}"
    if isinstance(value, Record):
        items = [
            f"{name}={expression(code, each, leaf, names, draw, drawn)}"
            for name, each in value.values.items()
        ]
        return f"{code.constant(value.cls)}({', '.join(items)})"
    # A record of a draw: fields in the order that its class takes them in.
    fields = {"seed": f"{drawn}[0]", "call": f"{drawn}[1]"}
    values = [
        fields.get(each.name) or code.constant(getattr(value, each.name))
        for each in dataclasses.fields(value)
    ]
    return f"{code.constant(type(value))}({', '.join(values)})"


def expressions(
    code: Code,
    values: Sequence[Any],
    leaf: type,
    names: Callable[[Any], str],
    draw: Draw | None = None,
    drawn: str = "",
) -> list[str]:
    """What gives each of ``values``, as :func:`expression`; the numbers of a draw are two neighbours."""
    result = []
    for position, each in enumerate(values):
        if draw is not None and draw.is_at(values, position):
            result.append(f"{drawn}[0]")
        elif draw is not None and position and draw.is_at(values, position - 1):
            result.append(f"{drawn}[1]")
        else:
            result.append(expression(code, each, leaf, names, draw, drawn))
    return result


def _contains(value: Any, leaf: type, draw: Draw | None) -> bool:
    """Whether there is something in ``value`` that is not the same in each run."""
    if isinstance(value, (list, tuple)):
        return any(
            _contains(each, leaf, draw) or (draw is not None and draw.is_at(value, position))
            for position, each in enumerate(value)
        )
    if isinstance(value, dict):
        return any(_contains(each, leaf, draw) for each in value.values())
    return isinstance(value, (leaf, Record)) or (draw is not None and draw.is_in(value))
