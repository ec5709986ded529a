"""No identifier is one of the words that the glossary replaces by the field's own, and no comment or document uses them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
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
#: Words of the table that sentences need in their ordinary meaning; as names they say nothing.
ORDINARY = frozenset({"found", "made", "given", "wanted", "kept", "again", "exchanged"})


#: Nodes of which some name something.
_NAMING = (
    ast.Name,
    ast.Attribute,
    ast.arg,
    ast.alias,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.ExceptHandler,
    ast.MatchAs,
    ast.MatchStar,
    ast.Global,
    ast.Nonlocal,
)


def replaced_words(text: str) -> frozenset[str]:
    """Words of the glossary's column "not". Rows with a meaning in parentheses forbid that meaning, not the word."""
    table = text.split("| not | but |\n|---|---|\n")[1].split("\n\n")[0]
    cells = [line.split("|")[1].strip() for line in table.splitlines()]
    return frozenset(word for cell in cells if "(" not in cell for word in re.split(r",\s*", cell))


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a source names: variables, parameters, attributes, functions and classes."""
    for node in ast.walk(tree):
        # Most nodes are others, which the patterns would be tried on one after the other.
        if not isinstance(node, _NAMING):
            continue
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


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of comments and docstrings of Python, of comments of CUDA C++, and all lines of a document."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        for number, line in enumerate(text.splitlines(), start=1):
            if path.suffix == ".md":
                yield number, line
            elif "//" in line:
                yield number, line.partition("//")[2]
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.string.lstrip("rR").startswith('"""')
        ):
            for number, line in enumerate(token.string.splitlines(), start=token.start[0]):
                yield number, line


def prose_with(words: frozenset[str], path: Path) -> list[tuple[int, str]]:
    """Lines of prose that have one of the words."""
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(words)))})\b", re.IGNORECASE)
    return [(number, line.strip()) for number, line in prose_of(path) if pattern.search(line)]


@pytest.mark.parametrize("folder", [each for each in SOURCES if each != "tests/drv"])
def test_prose_has_the_words_of_the_glossary(folder: str) -> None:
    words = replaced_words(GLOSSARY.read_text(encoding="utf-8")) - ORDINARY
    paths = sorted(
        path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".cuh", ".cu", ".md")
    )
    assert paths
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in paths
        if path != GLOSSARY
        for number, line in prose_with(words, path)
    ]
    assert not wrong, "docs/glossary.md has other words for these:\n" + "\n".join(wrong)


def test_prose_is_seen_in_every_language(tmp_path: Path) -> None:
    words = frozenset({"taps"})
    for name, text in {
        "a.py": '"""A.\n\n    Its taps."""\n',
        "b.py": "x = 1  # Taps.\n",
        "c.cuh": "int k;  // of the taps\n",
        "d.md": "All taps\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert prose_with(words, tmp_path / name), name
    (tmp_path / "e.py").write_text('taps = "taps"\n', encoding="utf-8")
    assert not prose_with(words, tmp_path / "e.py")


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
