"""Words of a PTX text, with their lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .program import PTXSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATTERN = re.compile(
    r"""
      (?P<newline>\n)
    | (?P<skip>[ \t\r\f]+|//[^\n]*|/\*.*?\*/)
    | (?P<string>"[^"\n]*")
    | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+U?)
    | (?P<word>[%$_.A-Za-z][\w$%.]*)
    | (?P<mark>::|[][{}()<>,;:@!|+\-=*])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class Token(NamedTuple):
    """A word, its kind (``word``, ``number``, ``string``, ``mark`` or ``end``) and its line, from 1."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> Iterator[Token]:
    """Words of ``text``, then one of kind ``end``. Raises :class:`PTXSyntaxError` for a stray character."""
    line, position, end = 1, 0, len(text)
    match = _PATTERN.match
    while position < end:
        matched = match(text, position)
        if matched is None:
            raise PTXSyntaxError(line, f"unexpected character {text[position]!r}")
        kind = matched.lastgroup
        if kind == "newline":
            line += 1
        elif kind == "skip":
            line += matched.group().count("\n")
        elif kind == "word" and matched.group().startswith("."):
            # Directives may be written together: ".reg.b32".
            for part in matched.group().split(".")[1:]:
                yield Token("word", "." + part, line)
        else:
            yield Token(str(kind), matched.group(), line)
        position = matched.end()
    yield Token("end", "", line)
