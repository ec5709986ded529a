"""The comparison as text, and as a page of the documentation."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from .comparison import Status
from .public_names import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .comparison import Name, Namespace

_INTRODUCTION = f"""\
# Coverage of PyTorch's names

Which public names of PyTorch {VERSION} are here. `python -m tools.coverage --markdown` writes this page from an installed
PyTorch, and `python -m tools.coverage` prints the same for whichever version is installed; a test checks that the page is
up to date.

A module's public names are those of its `__all__`; without one, what it defines and names without an underscore.
What programs see as `torch` is `tensor`, `torch.nn` is `nn`, `torch.optim` is `nn.optim` and `torch.distributed` is
`parallel`. *Here* means that the name is there and does what it does in PyTorch. *Planned* and *left out* are names that
raise an AttributeError with the words below. *Missing* are those that raise one without.
"""


def counts(namespaces: Sequence[Namespace]) -> list[tuple[str, int, int, int, int]]:
    """A row for each namespace, and one for the sum: name, how many are here, planned, left out, missing."""
    rows = [
        (
            each.name,
            len(each.of(Status.HERE)),
            len(each.of(Status.PLANNED)),
            len(each.of(Status.LEFT_OUT)),
            len(each.of(Status.MISSING)),
        )
        for each in namespaces
    ]
    totals = [sum(column) for column in list(zip(*rows, strict=True))[1:]] if rows else [0] * 4
    return [*rows, ("all", totals[0], totals[1], totals[2], totals[3])]


def as_text(namespaces: Sequence[Namespace]) -> str:
    """The counts as a table, then what is not here, with what is said of it."""
    rows = [("namespace", "here", "planned", "left out", "missing"), *counts(namespaces)]
    width = max(len(row[0]) for row in rows)
    lines = ["".join([f"{row[0]:<{width}}", *(f"{cell:>10}" for cell in row[1:])]) for row in rows]
    for each in namespaces:
        lines += _absent_text(each)
    return "\n".join(lines) + "\n"


def missing_text(namespaces: Sequence[Namespace]) -> str:
    """Names that are missing without a word, one in each line."""
    names = [f"{each.name}.{one.name}\n" for each in namespaces for one in each.of(Status.MISSING)]
    return "".join(names) or "nothing is missing without a word\n"


def as_markdown(namespaces: Sequence[Namespace]) -> str:
    """The page of the documentation."""
    lines = [
        _INTRODUCTION,
        "| namespace | here | planned | left out | missing |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, *numbers in counts(namespaces):
        first = f"[`{name}`](#{_anchor(name)})" if name != "all" else "all"
        lines.append(f"| {first} | {' | '.join(map(str, numbers))} |")
    for each in namespaces:
        lines += ["", f"## {each.name}", "", *_section(each)]
    return "\n".join(lines) + "\n"


def _anchor(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter in "-_")


def _section(each: Namespace) -> list[str]:
    if each.ours is None:
        heading = f"{_sentence(each.words) if each.words else 'Missing.'} Its names:"
        return [heading, "", *_listed(one.name for one in each.names)]
    lines = (
        [f"`{each.ours}` has these."]
        if each.names
        else [f"`{each.ours}`, which has no public names of its own."]
    )
    for status in (Status.MISSING, Status.PLANNED, Status.LEFT_OUT):
        chosen = each.of(status)
        if chosen and status is Status.MISSING:
            lines += ["", "Missing:", "", *_listed(one.name for one in chosen)]
        elif chosen:
            lines += ["", f"| {status.value} | |", "|---|---|"]
            lines += [
                f"| {', '.join(f'`{name}`' for name in names)} | {_escaped(words)} |"
                for words, names in _by_words(chosen)
            ]
    present = each.of(Status.HERE)
    if present:
        lines += ["", f"Here ({len(present)}):", "", *_listed(one.name for one in present)]
    return lines


def _absent_text(each: Namespace) -> list[str]:
    if each.ours is None:
        return ["", f"{each.name}: {each.words or 'missing'} ({len(each.names)} names)"]
    lines = []
    for status in (Status.MISSING, Status.PLANNED, Status.LEFT_OUT):
        for words, names in _by_words(each.of(status)):
            text = ", ".join(names) + (f": {words}" if words else "")
            lines += textwrap.wrap(text, 110, initial_indent=f"  {status.value}: ", subsequent_indent="    ")
    return ["", each.name, *lines] if lines else []


def _by_words(names: Iterable[Name]) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for each in names:
        groups.setdefault(each.words, []).append(each.name)
    return list(groups.items())


def _listed(names: Iterable[str]) -> list[str]:
    # Names have no break within: a line is as long as it has to be.
    return textwrap.wrap(
        ", ".join(f"`{name}`" for name in names), 120, break_long_words=False, break_on_hyphens=False
    )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _escaped(words: str) -> str:
    return words.replace("|", "\\|").replace("*", "\\*").replace("__", "\\_\\_")
