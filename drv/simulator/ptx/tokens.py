"""Words of a PTX text, with their lines."""

from __future__ import annotations

import re
from typing import NamedTuple

from .program import PTXSyntaxError
from .statements import STATEMENT

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


#: What debuggers want, which is nothing but numbers and names.
_SECTION = re.compile(r"[ \t]*\.section[ \t]+[.\w]+[ \t\n]*\{[-+.,:\w$ \t\n]*\}", re.ASCII)


class Token(NamedTuple):
    """A word, its kind (``word``, ``number``, ``string``, ``mark`` or ``end``) and its line, from 1.

    A line that is one statement is a token of kind ``statement``, with its match.
    """

    kind: str
    text: str
    line: int
    match: re.Match[str] | None = None


def tokens(text: str, line: int = 1, *, words_only: bool = False) -> list[Token]:
    """Words and statements of ``text``, then one of kind ``end``. Raises :class:`PTXSyntaxError` for a stray character.

    ``line`` is the number of the first line; with ``words_only`` statements come as words.
    """
    result: list[Token] = []
    position, end = 0, len(text)
    match, statement = _PATTERN.match, STATEMENT.match
    at_start = not words_only
    while position < end:
        if at_start:
            whole = statement(text, position)
            if whole is not None:
                result.append(Token("statement", ";", line, whole))
                line += 1
                position = whole.end()
                continue
            section = _SECTION.match(text, position)
            if section is not None:
                line += section.group().count("\n")
                position = section.end()
            at_start = False
        matched = match(text, position)
        if matched is None:
            raise PTXSyntaxError(line, f"unexpected character {text[position]!r}")
        kind = matched.lastgroup
        if kind == "newline":
            line += 1
            at_start = not words_only
        elif kind == "skip":
            line += matched.group().count("\n")
        elif kind == "word" and matched.group().startswith("."):
            # Directives may be written together: ".reg.b32".
            result += [Token("word", "." + suffix, line) for suffix in matched.group().split(".")[1:]]
        else:
            result.append(Token(str(kind), matched.group(), line))
        position = matched.end()
    result.append(Token("end", "", line))
    return result
