"""The documents speak of files that are there, and link each other."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.tensor.operations.definition.test_contributions import PIECES

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = (
    r"\.ci",
    "docs",
    "drv",
    "examples",
    "graphroot",
    "nn",
    "nvrtc_kernels",
    "parallel",
    "tensor",
    "tests",
    "tools",
)
PACKAGES = ("drv", "graphroot", "nn", "nvrtc_kernels", "parallel", "tensor", "tools")
#: A path from the root, as far as it is one: `tensor/core/base.py`, `nn/optim/`, `tests/drv`.
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]*")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ROLE = re.compile(r":(attr|class|data|exc|func|meth|mod):`([^`]+)`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: Statements of diagrams that need no arrow.
_STATEMENTS = re.compile(r"^(participant \w+ as .+|Note over [\w,]+: .+|loop .+|end|\w+\[\"[^\"]+\"\])$")
_FLOW = re.compile(
    r"^\w+(\[\"[^\"]*\"\]|\{\"[^\"]*\"\})?( (-->|-- .+? -->) \w+(\[\"[^\"]*\"\]|\{\"[^\"]*\"\})?)+$"
)
_MESSAGE = re.compile(r"^\w+-?->>\w+: [^;#]+$")

by_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


@by_document
def test_paths_are_there(document: Path) -> None:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    missing = set()
    for quoted in re.findall(r"`([^`\n]+)`", text):
        for path in PATH.findall(quoted):
            path = path.rstrip(".")
            if not (any(ROOT.glob(path)) if "*" in path else (ROOT / path).exists()):
                missing.add(path)
    assert not missing


def test_names_of_the_architecture_are_in_the_code() -> None:
    text = FENCE.sub("", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    words, files = set(), set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            files.add(path.name)
            words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    missing = set()
    for quoted in re.findall(r"`@?([A-Za-z_][\w.]*)(?:\([^`]*\))?`", text):
        if quoted.endswith((".toml", ".md")):
            continue
        if not (
            quoted in files if quoted.endswith(".py") else set(quoted.split(".")) <= words | set(PACKAGES)
        ):
            missing.add(quoted)
    assert not missing


def test_references_of_docstrings_are_in_the_code() -> None:
    sources = {
        path: path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    words = {word for text in sources.values() for word in re.findall(r"\w+", ROLE.sub("", text))}
    words |= {name for path in sources for name in (path.stem, *path.parts)} | set(sys.stdlib_module_names)
    missing = []
    for path, text in sources.items():
        for role, target in ROLE.findall(text):
            # Templates of docstrings, which are filled in when the module is loaded.
            if "$" in target or "{" in target:
                continue
            name = re.sub(r".*<(.*)>$", r"\1", target).removeprefix("~")
            dots = len(name) - len(name.lstrip("."))
            parts = name.strip(".").split(".")
            folder = path.parents[dots - 1] if dots else None
            is_module = folder is None or (folder / parts[0]).is_dir() or (folder / f"{parts[0]}.py").exists()
            if not (set(parts) <= words and (is_module or role != "mod")):
                missing.append(f"{path.relative_to(ROOT)}: {target}")
    assert not missing


@by_document
def test_links_lead_somewhere(document: Path) -> None:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        if heading:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {_anchor(each) for each in headings}, link


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@by_document
def test_diagrams_are_well_formed(document: Path) -> None:
    """The few forms of mermaid's language that are used here; a browser shows an error in place of a wrong diagram."""
    for language, code in FENCE.findall(document.read_text(encoding="utf-8")):
        if language != "mermaid":
            continue
        first, *lines = [line.strip() for line in code.splitlines() if line.strip()]
        assert first in ("flowchart TD", "sequenceDiagram")
        statement = _FLOW if first == "flowchart TD" else _MESSAGE
        for line in lines:
            assert statement.match(line) or _STATEMENTS.match(line), line
        if first == "sequenceDiagram":
            participants = {line.split()[1] for line in lines if line.startswith("participant")}
            named = {name for line in lines if ">>" in line for name in re.split(r"-?->>|:", line)[:2]}
            assert named == participants
            assert sum(line.startswith("loop ") for line in lines) == lines.count("end")


def test_the_documents_are_linked() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for document in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{document.name})" in readme
    for document in (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"):
        assert "glossary.md)" in document.read_text(encoding="utf-8")


def test_the_glossary_is_alphabetical() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = [word.lower() for word in re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE)]
    assert words == sorted(words)
    assert len(set(words)) == len(words)


def test_examples_for_contributors_are_code_that_tests_run() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tried = [*PIECES.values(), (ROOT / "tensor/operations/pointwise/glu.py").read_text(encoding="utf-8")]
    blocks = [code for language, code in FENCE.findall(text) if language == "py"]
    assert len(blocks) == len(tried)
    # Compared without regard to line breaks, which depend on the file.
    programs = [ast.unparse(ast.parse(each)) for each in tried]
    assert all(any(ast.unparse(ast.parse(code)) in each for each in programs) for code in blocks)
