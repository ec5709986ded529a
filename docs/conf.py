"""How Sphinx builds the documentation: ``python -m sphinx -W docs build/site``; needs no network, and nor does the site."""

from __future__ import annotations

import sys
from pathlib import Path

_DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(_DOCS.parent), str(_DOCS)]

from graphroot import __version__  # noqa: E402 - found by what stands before

project = "graphroot"
version = release = __version__
author = "the graphroot contributors"
# No year: a page that is built again next year is the same.
project_copyright = author
html_title = f"{project} {version}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "extensions.mermaid",
    "extensions.reference",
]
# The reference, from docstrings in NumPy's style. Signatures have the types.
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_ivar = True
# `Module` is a class of nn and one of drv. Tests see to it that references lead somewhere (tests/checks/test_documents.py).
suppress_warnings = ["ref.python"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# Markdown: as GitHub reads it, so that a page is the same page there.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

highlight_language = "none"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["graphroot.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {"navigation_with_keys": True}
