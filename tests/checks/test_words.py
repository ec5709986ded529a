"""No identifier is one of the words that the glossary replaces by the field's own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
SOURCES = (
    "drv",
    "tests/drv",
    "tensor",
    "nn",
    "parallel",
    "tools",
    "examples",
    "nvrtc_kernels",
    "graphroot",
    "docs",
)


def replaced_words(text: str) -> frozenset[str]:
    """Words of the glossary's column "not". Rows with a meaning in parentheses forbid that meaning, not the word."""
    table = text.split("| not | but |\n|---|---|\n")[1].split("\n\n")[0]
    cells = [line.split("|")[1].strip() for line in table.splitlines()]
    return frozenset(word for cell in cells if "(" not in cell for word in re.split(r",\s*", cell))


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a source names: variables, parameters, attributes, functions and classes."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield node.lineno, name
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from ((node.lineno, name) for name in names)
            case _:
                pass


def named_by(words: frozenset[str], tree: ast.AST) -> list[tuple[int, str]]:
    """Identifiers that are one of the words, whatever their case and the underscores around them."""
    return [(line, name) for line, name in identifiers(tree) if name.strip("_").lower() in words]


@pytest.mark.parametrize("folder", SOURCES)
def test_identifiers_are_the_words_of_the_glossary(folder: str) -> None:
    words = replaced_words(GLOSSARY.read_text(encoding="utf-8"))
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in paths
        for line, name in named_by(words, ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not wrong, "docs/glossary.md has other words for these:\n" + "\n".join(wrong)


def test_the_words_are_those_of_the_table() -> None:
    words = replaced_words(GLOSSARY.read_text(encoding="utf-8"))
    assert {"found", "made", "given", "wanted", "kept", "trouble", "chance"} <= words
    # Fields of an address, the kind of a finding, a lane of a warp.
    assert not {"kind", "lane", "mesh", "pass", "title", "parts", "place", "narrow"} & words


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "self.found = 1",
        "_FOUND: int = 1",
        "def f(*found): ...",
        "def found(): ...",
        "class Found: ...",
        "import re as found",
        "for _, (found, _) in []: ...",
        "with open('x') as found: ...",
        "lambda found: 1",
        "[1 for found in ()]",
        "(found := 1)",
    ],
)
def test_every_way_to_name_something_is_seen(source: str) -> None:
    assert named_by(frozenset({"found"}), ast.parse(source))


def test_names_of_others_may_be_any() -> None:
    assert not named_by(frozenset({"found"}), ast.parse("a = b.found + found; c = f(found=1)"))
