"""What the kinds of findings mean: the page that the documentation has of each."""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


@cache
def pages() -> dict[str, str]:
    """The text on each kind of finding, in Markdown, by the kind's name."""
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    sections = text.removeprefix("## ").split("\n## ")
    return {name: body.strip() for name, _, body in (section.partition("\n") for section in sections)}


def link(kind: str) -> str:
    """Where the documentation has the page on ``kind``: a file of its folder, and the place in it."""
    return f"findings.html#{kind.replace(' ', '-')}"


class Explain(argparse.Action):
    """An option that prints the page on a kind, or all of them, and ends the program."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """See :class:`argparse.Action`."""
        known = pages()
        kind = str(values).lower()
        if kind != "all" and kind not in known:
            parser.error(f"there is no kind of finding {kind!r}; there are {', '.join(known)}, and all")
        chosen = known if kind == "all" else {kind: known[kind]}
        print("\n\n".join(f"{name}\n{'-' * len(name)}\n\n{text}" for name, text in chosen.items()))
        parser.exit()
