"""The documentation as a site: every page is in its navigation, every diagram is drawn, and it builds without warnings."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from docs.drawing import mermaid

DOCS = Path(__file__).resolve().parents[2] / "docs"
DIAGRAMS = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in sorted(DOCS.glob("*.md"))
    for number, code in enumerate(
        re.findall(r"```mermaid\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
]


def test_every_page_is_in_the_navigation() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    (tree,) = re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL)
    listed = [line for line in tree.splitlines() if line and not line.startswith(":")]
    pages = (
        page.relative_to(DOCS).with_suffix("").as_posix()
        for suffix in ("md", "rst")
        for page in DOCS.rglob(f"*.{suffix}")
    )
    assert sorted(listed) == sorted(page for page in pages if page != "index")


@pytest.mark.parametrize("code", DIAGRAMS)
def test_diagram_is_drawn(code: str) -> None:
    drawing = mermaid.draw(code)
    root = ElementTree.fromstring(drawing.svg())
    words = " ".join(
        "".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")
    ).split()
    labels = re.findall(r'"([^"]*)"', code) + re.findall(r"^ *participant \w+ as (.+)$", code, re.MULTILINE)
    assert labels
    assert {word for label in labels for word in label.split()} <= set(words)


def test_unknown_diagrams_are_refused() -> None:
    with pytest.raises(ValueError, match="begins with"):
        mermaid.draw("pie\n a: 1")
    with pytest.raises(ValueError, match="expected an arrow"):
        mermaid.draw("flowchart TD\n a ==> b")
    with pytest.raises(ValueError, match="not known"):
        mermaid.draw("sequenceDiagram\n par a")


@pytest.mark.parametrize(
    "modules",
    [
        "drv.allocators,tensor.fft,tensor.utils.data,nn.optim.swa_utils",
        pytest.param("", marks=pytest.mark.nightly),
    ],
    ids=["little of the reference", "all"],
)
def test_the_site_builds_without_warnings_and_loads_nothing_from_elsewhere(
    tmp_path: Path, modules: str
) -> None:
    for package in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(package)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-d",
        str(tmp_path / "trees"),
        *([f"-Dreference_only={modules}"] if modules else []),
        str(DOCS),
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len([*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")])
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img)[^>]+src="(?:https?:)?//', text)
        assert not re.findall(r'<link[^>]+rel="(?:stylesheet|preload)"[^>]+href="(?:https?:)?//', text)
        assert "language-mermaid" not in text
    reference = (tmp_path / "site" / "reference" / "namespaces.html").read_text(encoding="utf-8")
    # Its parameters and what it raises, and not as the source has them.
    text = reference[reference.index('id="tensor.fft.rfft"') : reference.index('id="tensor.fft.rfft2"')]
    assert "Parameters" in text
    assert "Raises" in text
    assert "----" not in text
    # Classes that look for misspelt keywords have the parameters of their own __init__; protocols are not called.
    reference = (tmp_path / "site" / "reference" / "optim.html").read_text(encoding="utf-8")
    text = re.sub("<[^>]+>", "", reference[reference.index('id="nn.optim.swa_utils.AveragedModel"') :])
    assert re.search(r"AveragedModel\(\s*model: [^,]+,\s*device", text)
    reference = (tmp_path / "site" / "reference" / "drv.html").read_text(encoding="utf-8")
    assert re.search(r'id="drv\.allocators\.Observer"', reference)
    assert "*args" not in re.sub("<[^>]+>", "", reference)


def test_classes_have_the_parameters_that_python_shows() -> None:
    pytest.importorskip("sphinx")
    from docs.extensions import reference

    for module in ("nn", "nn.optim", "tensor.utils.data"):
        for name, value in reference.published(module):
            if inspect.isclass(value) and (function := reference.constructor(value)) is not None:
                shown = [*inspect.signature(function).parameters][1:]
                assert shown == [*inspect.signature(value).parameters], f"{module}.{name}"
