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
autodoc_default_options = {"members": True, "exclude-members": "model_config"}

smartquotes = False  # flags and quoted words are copied from pages into terminals
default_role = "code"  # `icpe demo` in help texts

html_theme = "furo"
html_title = "icpe"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

DOCS = Path(__file__).parent
OUTSIDE = {
    "benchmarks": DOCS.parent / "bench" / "README.md",
    "changelog": DOCS.parent / "CHANGELOG.md",
    "contributing": DOCS.parent / "CONTRIBUTING.md",
    "security": DOCS.parent / "SECURITY.md",
}
"""Pages whose text lies elsewhere in the repository, where people look for it on code hosts."""

BLOCK = re.compile(r"^(?:<!-- ([^>\n]+) -->\n)?```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = {"output": "output", "not run": "notrun"}
"""Marks of blocks that no test runs, and the classes for which ``_static/site.css`` has a label."""

LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")

COMMANDS = re.compile(r"highlight-(?:console|bash) .*?</pre>", re.DOTALL)
FLAG = re.compile(r"(?<=[\s>])(--?[a-z][\w.-]*)")


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
        text = "" if link[1].endswith(".md") else link[1]  # without a text, the link shows the title of the page
        return f"[{text}]({os.path.relpath(target, here)}{link[3] or ''})"

    text = BLOCK.sub(labelled, LINK.sub(relinked, source[0]))
    for together in (" ± ", " % (p "):
        text = text.replace(together, together.replace(" ", "\N{NO-BREAK SPACE}"))
    source[0] = text


def labelled(block: re.Match[str]) -> str:
    """Let a block of code say whether tests run it, by the comment above it."""
    mark, language, code = block.groups()
    if language.startswith("{"):
        return block[0]  # a directive
    if mark is None:  # tests read the options of such commands
        kind = "checked" if language == "console" and "$ icpe " in code else "notrun"
    else:
        kind = NOT_RUN.get(mark, "ran")
    return f"```{{code-block}} {language or 'text'}\n:class: {kind}\n\n{code}```"


def keep_flags(app: object, pagename: str, templatename: str, context: dict[str, object], doctree: object) -> None:
    """Let browsers break long commands between words only, and no flag after its hyphens."""
    if isinstance(body := context.get("body"), str):
        context["body"] = COMMANDS.sub(lambda block: FLAG.sub(r'<span class="flag">\1</span>', block[0]), body)


def setup(app: object) -> None:
    """Connect what this file adds to Sphinx."""
    app.connect("source-read", read_source)  # type: ignore[attr-defined]
    app.connect("html-page-context", keep_flags)  # type: ignore[attr-defined]
