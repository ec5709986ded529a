"""Reads function prototypes and enums from C headers, as far as cuBLAS' and cuFFT's need it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def header(library: str, *names: str) -> str:
    """Text of headers of ``library`` without comments; skips where they are not installed."""
    from cuda import pathfinder

    folder = pathfinder.find_nvidia_header_directory(library)
    if folder is None or not all((Path(folder) / name).exists() for name in names):
        pytest.skip(f"the headers of {library} are not installed")
    text = "\n".join((Path(folder) / name).read_text(encoding="utf-8") for name in names)
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def functions(text: str) -> dict[str, tuple[str, list[str]]]:
    """For each function its return type and its parameters' types, spelled with single spaces."""
    found = {}
    pattern = r"([\w ]+?[\w*]) (?:CUBLASWINAPI|CUFFTAPI)\s+(\w+)\s*\(([^()]*)\)\s*;"
    for returned, name, parameters in re.findall(pattern, text):
        given = [
            _type(parameter) for parameter in parameters.split(",") if parameter.strip() not in ("", "void")
        ]
        found[name] = (" ".join(returned.split()), given)
    return found


def _type(parameter: str) -> str:
    words = parameter.replace("const", " ").replace("*", " * ").replace("[]", " [] ").split()
    pointers = words.count("*") + words.count("[]")
    names = [word for word in words if word not in ("*", "[]")]
    return " ".join(names[:-1]) + "*" * pointers


def enums(text: str) -> dict[str, int]:
    """Values of all enumerators."""
    values: dict[str, int] = {}
    for body in re.findall(r"enum\s*\w*\s*\{([^}]*)\}", text):
        following = 0
        for entry in body.split(","):
            name, _, value = (part.strip() for part in entry.partition("="))
            if not name:
                continue
            if value:
                following = values[value] if value in values else int(value, 0)
            values[name] = following
            following += 1
    return values
