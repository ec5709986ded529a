"""Several PTX texts as one, as CUDA's linker makes one binary of several."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

_HEADER = re.compile(r"^[ \t]*\.(version|target|address_size)\b[ \t]*([^\n]*)\n?", re.MULTILINE)
_DEFINITION = re.compile(
    r"^[ \t]*(?:\.visible|\.weak|\.common)\s+\.(?:func|entry|global|const|shared)\b[^{};=]*?([\w$]+)\s*(?=[\[({=;])",
    re.MULTILINE,
)
_FUNCTION = re.compile(r"\.func\s+(?:\([^)]*\)\s*)?([\w$]+)\s*\(")
_EXTERNAL = re.compile(r"^[ \t]*\.extern\b[^;]*;[ \t]*\n?", re.MULTILINE)
_FILE = re.compile(r"^([ \t]*\.(?:file|loc)[ \t]+)(\d+)\b", re.MULTILINE)


def link(texts: list[str]) -> str:
    """One PTX text with what is in all of ``texts``.

    Declarations of what another text defines go, and the numbers of source files are made different. The result is for
    the latest version and the first target among them.

    Raises
    ------
    ValueError
        If one has no header, or two define the same symbol; the message is the linker's log.
    """
    headers = [dict(_HEADER.findall(text)) for text in texts]
    for number, header in enumerate(headers, 1):
        if "version" not in header or "target" not in header:
            raise ValueError(f"input {number} of the linker is no PTX: it has no .version or .target")
    if len(texts) == 1:
        return texts[0]
    defined: dict[str, int] = {}
    for number, text in enumerate(texts, 1):
        for name in _defined_in(text):
            first = defined.setdefault(name, number)
            if first != number:
                raise ValueError(
                    f"Multiple definition of '{name}' in inputs {first} and {number} of the linker"
                )
    latest = max(headers, key=lambda header: tuple(map(int, header["version"].split("."))))
    bodies, files = [], 0
    for text in texts:
        bodies.append(_renumbered(_without_declarations(_HEADER.sub("", text), defined), files))
        files += max((int(number) for _, number in _FILE.findall(text)), default=0)
    start = f".version {latest['version']}\n.target {headers[0]['target']}\n.address_size 64\n"
    return start + "\n".join(bodies)


def _without_declarations(text: str, defined: Container[str]) -> str:
    return _EXTERNAL.sub(lambda match: "" if _declared(match[0]) in defined else match[0], text)


def _renumbered(text: str, first: int) -> str:
    """``text`` with ``first`` added to the numbers of its source files."""
    return _FILE.sub(lambda match: f"{match[1]}{int(match[2]) + first}", text)


def _defined_in(text: str) -> list[str]:
    """Names of what is defined for other texts to use, in their order."""
    return list(dict.fromkeys(match[1] for match in _DEFINITION.finditer(text)))


def _declared(declaration: str) -> str:
    """Name of what an ``.extern`` declares."""
    function = _FUNCTION.search(declaration)
    if function is not None:
        return function[1]
    words = re.findall(r"[\w$]+", re.sub(r"\[[^\]]*\]", "", declaration))
    return words[-1] if words else ""
