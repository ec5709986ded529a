"""Commands in the documents: a shell can read them, and what they call takes these options and is there.

A block of commands is marked ``sh``; in one that also shows output, the lines of commands begin with ``$``.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphroot.command import SUBCOMMANDS, parser_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: Where a subcommand that others start stands in the table.
_ROWS = {row.name: row for row in SUBCOMMANDS}
_EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


def _commands() -> Iterator[tuple[str, str]]:
    for document in DOCUMENTS:
        for mark, block in _FENCE.findall(document.read_text(encoding="utf-8")):
            if mark == "sh":
                yield document.name, block
            elif not mark:
                for line in re.findall(r"^\$ (.+)$", block, re.MULTILINE):
                    yield document.name, line


COMMANDS = [pytest.param(text, id=f"{name}-{number}") for number, (name, text) in enumerate(_commands())]


def simple_commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a shell's text, without assignments before it and redirections behind."""
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, "&&"]:
            if word in ("&&", "||", ";", "|", ">", ">>"):
                while words and re.fullmatch(r"\w+=.*", words[0]):
                    del words[0]
                if words:
                    yield words
                words = []
            else:
                words.append(word)


@pytest.mark.parametrize("text", COMMANDS)
def test_command(text: str) -> None:
    shell = shutil.which("bash")
    if shell is not None:
        read = subprocess.run([shell, "-n", "-c", text], capture_output=True, text=True, check=False)
        assert read.returncode == 0, read.stderr
    for words in simple_commands(text):
        _check(words)


def _check(words: list[str]) -> None:
    program = Path(words[0]).name
    if program == "graphroot":
        _check_ours(words[1], words[2:])
    elif program == "pip":
        assert words[1] == "install"
        _check_installation(words[2:])
    elif program in ("python", "python3") and words[1] == "-m":
        module = words[2]
        package, _, name = module.partition(".")
        if package == "tools":
            _check_ours(name, words[3:])
        elif module == "pytest":
            assert all((ROOT / word).exists() for word in words[3:] if "/" in word)
        elif module == "docs.gallery":
            assert all((ROOT / "docs" / "pictures" / word).exists() for word in words[3:])
        else:
            assert module in ("venv", "sphinx"), f"nothing is known of python -m {module}"
    elif program in ("python", "python3") and "/" in words[1]:
        assert (ROOT / words[1]).exists()


def _check_ours(name: str, arguments: list[str]) -> None:
    assert name in _ROWS, f"no subcommand is called {name}"
    parser = parser_of(_ROWS[name])
    known = {option: action for action in parser._actions for option in action.option_strings}
    values = iter(arguments)
    for word in values:
        option, equals, _ = word.partition("=")
        if not word.startswith("-"):
            return
        assert option in known, f"{parser.prog} has no option {option}"
        if not equals and known[option].nargs is None:
            next(values)


def _check_installation(arguments: list[str]) -> None:
    values = iter(arguments)
    for word in values:
        if word == "-r":
            assert (ROOT / next(values)).exists()
        for extras in re.findall(r"\[([\w,-]+)\]", word):
            assert set(extras.split(",")) <= set(_EXTRAS)


@pytest.mark.parametrize(
    "command",
    [
        "graphroot rnu train.py",
        "graphroot run --simulat train.py",
        ".venv/bin/pip install '.[tests]'",
        "python -m pytest tests/not_there",
        "python -m tools.benches",
        "A=1 python -m unknown",
    ],
)
def test_mistakes_are_seen(command: str) -> None:
    (words,) = simple_commands(command)
    with pytest.raises(AssertionError):
        _check(words)


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 20
