"""Figures inside a page: small, without anything from elsewhere, in the colours of the page."""

import io
import re
import zlib
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from icpe.report.figures import GREY, HEAD, NICHE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1c1d1f"  # stands for the colour of the page's text
_THEME = {INK: "currentColor", HEAD: "var(--head)", NICHE: "var(--niche)", GREY: "var(--grey)"}
_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "icpe",
    "font.size": 11,
    "text.parse_math": False,  # a folder may be called $x$
    **dict.fromkeys(_INKED, INK),
}


def inline_svg(draw: Callable[[], "Figure"], said: str) -> str:
    """A figure as an ``<svg>`` element that follows the page's light or dark colours.

    Args:
        draw: makes the figure; colours of text, head, niche and grey become those of the page.
        said: what it shows, for readers who cannot see it.
    """
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        file = io.StringIO()
        unsaid = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        draw().savefig(file, format="svg", transparent=True, metadata=unsaid)
    text = file.getvalue()
    text = re.sub(r"\s*\n\s*", "\n", text[text.index("<svg") :])
    for colour, variable in _THEME.items():
        text = re.sub(f"(?<=[ :]){colour}\\b", variable, text, flags=re.IGNORECASE)
    # The page's font takes over, and ids stay apart from those of other figures.
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    mark = f"f{zlib.crc32(text.encode()):x}-"
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{mark}", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(said)}" ', 1)
