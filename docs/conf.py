"""How Sphinx builds the documentation site: ``make docs``."""

import os
import re
from pathlib import Path

import icpe

project = "icpe"
author = "the icpe team"
copyright = "the icpe team"
version = release = icpe.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3  # links such as metrics.md#fronts, as on code hosts

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = "icpe"
html_copy_source = False

DOCS = Path(__file__).parent
OUTSIDE = {
    "benchmarks": DOCS.parent / "bench" / "README.md",
    "changelog": DOCS.parent / "CHANGELOG.md",
    "contributing": DOCS.parent / "CONTRIBUTING.md",
    "security": DOCS.parent / "SECURITY.md",
}
"""Pages whose text lies elsewhere in the repository, where people look for it on code hosts."""

LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def read_source(app: object, docname: str, source: list[str]) -> None:
    """Take the text of a page from where it lies, and let links between files lead to pages."""
    file = OUTSIDE.get(docname, DOCS / f"{docname}.md")
    if docname in OUTSIDE:
        source[0] = file.read_text(encoding="utf-8")
    here = (DOCS / docname).parent
    pages = {target: DOCS / f"{name}.md" for name, target in OUTSIDE.items()}

    def relinked(link: re.Match[str]) -> str:
        target = (file.parent / link[2]).resolve()
        target = pages.get(target, target)
        if not target.is_file() or not target.is_relative_to(DOCS):
            return link[1]  # code and folders have no page
        return f"[{link[1]}]({os.path.relpath(target, here)}{link[3] or ''})"

    source[0] = LINK.sub(relinked, source[0])


def setup(app: object) -> None:
    """Connect what this file adds to Sphinx."""
    app.connect("source-read", read_source)  # type: ignore[attr-defined]
