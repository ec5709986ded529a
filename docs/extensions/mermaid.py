"""Blocks of code in Mermaid's language become drawings, made at the build and without a script in the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from drawing import mermaid
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class Diagrams(SphinxTransform):
    """Puts the drawing in place of the block; its title is the section's."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        """Of one document."""
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") != "mermaid":
                continue
            section = block.parent
            while section is not None and not isinstance(section, nodes.section):
                section = section.parent
            title = "Diagram" if section is None else f"Diagram: {section[0].astext()}"
            svg = mermaid.draw(block.astext(), title).svg()
            block.replace_self(nodes.raw("", f'<div class="picture-frame">{svg}</div>', format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(Diagrams)
    return {"parallel_read_safe": True}
