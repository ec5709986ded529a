"""Reads function prototypes, enums and structs from C headers, as far as NVIDIA's libraries need it.

Headers are read once in a process: there is a test for each function.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

import pytest


@functools.cache
def header(library: str, *names: str) -> str:
    """Text of headers of ``library`` without comments and what marks the deprecated; skips where they are not installed."""
    from cuda import pathfinder

    folder = pathfinder.find_nvidia_header_directory(library)
    if folder is None or not all((Path(folder) / name).exists() for name in names):
        pytest.skip(f"the headers of {library} are not installed")
    text = "\n".join((Path(folder) / name).read_text(encoding="utf-8") for name in names)
    return re.sub(r"/\*.*?\*/|//[^\n]*|\bCUDNN_DEPRECATED(_ENUM)?\b", " ", text, flags=re.DOTALL)


@functools.cache
def functions(text: str) -> Mapping[str, tuple[str, list[str]]]:
    """For each function its return type and its parameters' types, spelled with single spaces."""
    result = {}
    pattern = (
        r"([\w ]+?[\w*])(?: *\b(?:CUBLASWINAPI|CUDNNWINAPI|CUFFTAPI)\s+| +(?=nccl))(\w+)\s*\(([^()]*)\)\s*;"
    )
    for returned, name, parameters in re.findall(pattern, text):
        argument = [
            _type(parameter) for parameter in parameters.split(",") if parameter.strip() not in ("", "void")
        ]
        result[name] = (" ".join(returned.split()).replace(" *", "*"), argument)
    return result


def _type(parameter: str) -> str:
    words = parameter.replace("const", " ").replace("*", " * ").replace("[]", " [] ").split()
    pointers = words.count("*") + words.count("[]")
    names = [word for word in words if word not in ("*", "[]")]
    return " ".join(names[:-1]) + "*" * pointers


@functools.cache
def enums(text: str) -> Mapping[str, int]:
    """Values of all enumerators, but for what follows a value that is an expression in its enum."""
    values: dict[str, int] = {}
    for body in re.findall(r"enum\s*\w*\s*\{([^}]*)\}", text):
        following = 0
        for entry in body.split(","):
            name, _, value = (part.strip() for part in entry.partition("="))
            if not name:
                continue
            if value:
                number = _number(value, values)
                if number is None:
                    break
                following = number
            values[name] = following
            following += 1
    return values


def _number(text: str, known: dict[str, int]) -> int | None:
    """A value: a number, an enumerator before it, or several of these with ``|`` between."""
    result = 0
    for part in text.strip("() ").split("|"):
        word = part.strip("() ")
        number = int(word, 0) if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", word) else known.get(word)
        if number is None:
            return None
        result |= number
    return result


def fields(text: str, struct: str) -> list[tuple[str, str]]:
    """Type and name of each field of ``typedef struct ... { ... } struct;``, in order."""
    result = re.search(rf"struct\s*\w*\s*\{{([^{{}}]*)\}}\s*{struct}\s*;", text)
    assert result, f"no struct {struct}"
    declared = [f"{entry.strip()}" for entry in result[1].split(";") if entry.strip()]
    return [(_type(entry), re.split(r"[\s*]+", entry)[-1]) for entry in declared]
