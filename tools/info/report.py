"""The facts as text for people."""

from __future__ import annotations

import textwrap
from typing import Any

from tools.counted import counted

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_INDENT, _LINE = 12, 110


def as_text(facts: dict[str, Any]) -> str:
    """A few lines for each subject; what is wrong says what to do."""
    python, cache = facts["python"], facts["cache"]
    sections: list[tuple[str, list[str]]] = [
        ("graphroot", [f"{facts['graphroot']} in {facts['folder']}; behaves as {facts['follows']}"]),
        (
            "Python",
            [
                f"{python['version']} ({python['executable']})",
                f"{python['platform']}, {counted(python['processors'], 'processor', separator=',')}",
            ],
        ),
        ("driver", _driver(facts)),
        ("simulator", [", ".join(f"{name}={value}" for name, value in facts["simulator"].items())]),
        ("libraries", [_library(name, each) for name, each in facts["libraries"].items()]),
        (
            "packages",
            [", ".join(f"{name} {version}" for name, version in facts["packages"].items() if version)],
        ),
        (
            "cache",
            [f"{cache['folder']}: {counted(cache['files'], 'file', separator=',')}, {size(cache['bytes'])}"],
        ),
    ]
    if facts["variables"]:
        sections.append(("variables", [f"{name}={value}" for name, value in facts["variables"].items()]))
    if facts["neighbours"]:
        sections.append(("neighbours", list(facts["neighbours"].values())))
    return "\n".join(
        textwrap.fill(
            line,
            _LINE,
            initial_indent=f"{'' if number else name:{_INDENT}}",
            subsequent_indent=" " * _INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, lines in sections
        for number, line in enumerate(lines)
    )


def size(count: float) -> str:
    """A number of bytes in the unit in which it is between 1 and 1024."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return (
        f"{count:.0f} {_UNITS[unit]}" if unit == 0 or count == int(count) else f"{count:.1f} {_UNITS[unit]}"
    )


def _driver(facts: dict[str, Any]) -> list[str]:
    driver = facts["driver"]
    if driver["name"] is None:
        return ["none: no GPU is used unless a simulated one is asked for", driver["reason"]]
    name = "the simulated one" if driver["name"] == "simulator" else "NVIDIA's"
    return [
        f"{name}, CUDA {driver['cuda']}",
        *(
            f"cuda:{number}  {each['name']}, capability {each['capability']}, {size(each['memory'])}, "
            f"{counted(each['multiprocessors'], 'multiprocessor', separator=',')}"
            for number, each in enumerate(facts["devices"])
        ),
    ]


def _library(name: str, library: dict[str, Any]) -> str:
    if library["path"] is None:
        return f"{name}: not found; pip install '{library['install']}'"
    version = f" {library['version']}" if library["version"] else ""
    return f"{name}{version}: {library['path']}"
