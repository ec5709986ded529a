"""Modules in notebooks: a tree that opens and closes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn.parameter import is_lazy
from tensor.methods.notebook import size_text

if TYPE_CHECKING:
    from .module import Module


def html_of(module: Module, name: str = "") -> str:
    """The module, how many elements and bytes its parameters have, and the same of those inside it."""
    from html import escape  # has tables that only notebooks need

    children = [*module.named_children()]
    # Those that are not initialized have no size so far.
    parameters = [each for each in module.parameters() if not is_lazy(each)]
    count = sum(each.numel() for each in parameters)
    said = escape(module.extra_repr())
    line = f"{escape(name)}: " if name else ""
    line += f"<b>{escape(module._get_name())}</b>({said if not children else ''})"
    if count:
        frozen = sum(each.numel() for each in parameters if not each.requires_grad)
        line += f" · {count:,} parameters, {size_text(sum(each.nbytes for each in parameters))}"
        line += f", {frozen:,} of them frozen" if frozen else ""
    if not children:
        return f"<div>{line}</div>"
    inside = "".join(html_of(child, key) for key, child in children)
    opened = " open" if not name else ""
    return (
        f'<details{opened}><summary>{line}</summary><div style="margin-left: 1.5em">{inside}</div></details>'
    )
