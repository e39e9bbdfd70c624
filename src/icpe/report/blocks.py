"""What every page is built of: sections, figures, folded tables, and the file itself."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from icpe.errors import ConfigError
from icpe.files import write_atomically
from icpe.report.svg import inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def header(title: str, about: str, said: Sequence[tuple[str, str]]) -> str:
    """The title, a line about the data, and the headline: pairs of a sentence in large and one in ordinary letters."""
    lead = "".join(
        f'<p class="lead">{escape(large)}</p>' + (f"<p>{escape(small)}</p>" if small else "") for large, small in said
    )
    return f'<header><h1>{escape(title)}</h1><p class="about">{escape(about)}</p>{lead}</header>'


def section(heading: str, content: str) -> str:
    """A part of a page; ``content`` is HTML."""
    return f"<section><h2>{escape(heading)}</h2>{content}</section>"


def paragraphs(sentences: Sequence[str], kind: str = "") -> str:
    """Each in a paragraph of its own."""
    attribute = f' class="{kind}"' if kind else ""
    return "".join(f"<p{attribute}>{escape(sentence)}</p>" for sentence in sentences)


def figures(*entries: tuple[str, str, Callable[[], "Figure"]]) -> str:
    """Figures side by side: name, what is shown, and what draws it."""
    drawn = (
        f"<figure><figcaption><b>{escape(name)}</b>{escape(said)}</figcaption>{inline_svg(draw, name)}</figure>"
        for name, said, draw in entries
    )
    return f'<div class="figures">{"".join(drawn)}</div>'


def folded(title: str, content: str) -> str:
    """Something only some readers open; print shows it."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def pairs(values: Mapping[str, Any]) -> str:
    """A table of names and values."""
    return settings([], {name: [str(value)] for name, value in values.items()})


def settings(labels: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A table with a row for each name and a column for each label; rows whose values differ stand out."""
    lines = []
    for name, values in rows.items():
        differs = ' class="differs"' if len(set(values)) > 1 else ""
        cells = "".join(f"<td>{escape(value)}</td>" for value in values)
        lines.append(f'<tr{differs}><th scope="row">{escape(name)}</th>{cells}</tr>')
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in labels)
    heading = f"<thead><tr><td></td>{head}</tr></thead>" if labels else ""
    return f'<div class="wide"><table class="said">{heading}{"".join(lines)}</table></div>'


def commands(lines: Sequence[str]) -> str:
    """Commands to copy, a line each."""
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def mark(niche: bool) -> str:
    """A label that says whether an item is head or niche."""
    return '<span class="niche">niche</span>' if niche else '<span class="head">head</span>'


def check_page_name(path: Path) -> Path:
    """Refuse a name that browsers would not open, before any work is done."""
    if path.suffix != ".html":
        raise ConfigError(f"{path} should end in .html")
    return path


def write_page(title: str, body: str, path: Path) -> Path:
    """Write a page whose body is HTML; returns its path.

    Raises:
        ConfigError: the name does not end in .html.
    """
    check_page_name(path)
    template = Template(files("icpe.report").joinpath("page.html").read_text(encoding="utf-8"))
    text = template.substitute(title=escape(title), body=body)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
    return path
