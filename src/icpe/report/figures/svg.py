"""Figures inside a page: self-contained SVG in the colours of the page."""

import io
import re
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from icpe.report.figures.style import GREY, HEAD, NICHE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1c1d1f"  # replaced with the text colour of the page
_THEME = {INK: "currentColor", HEAD: "var(--head)", NICHE: "var(--niche)", GREY: "var(--grey)"}
_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "icpe",
    "font.size": 11,
    "text.parse_math": False,  # a folder may be called $x$
    **dict.fromkeys(_INKED, INK),
}


def inline_svg(draw: Callable[[], "Figure"], description: str) -> Markup:
    """A figure as an ``<svg>`` element that follows the light or dark colours of the page.

    Args:
        draw: Draws the figure. The colours of text, head, niche and grey become those of the page.
        description: What the figure shows, for readers who cannot see it.
    """
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        file = io.StringIO()
        omitted = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure = draw()
        _fix_tick_count(figure)
        figure.savefig(file, format="svg", transparent=True, metadata=omitted)
    text = file.getvalue()
    text = re.sub(r"\s*\n\s*", "\n", text[text.index("<svg") :])
    for colour, variable in _THEME.items():
        text = re.sub(f"(?<=[ :]){colour}\\b", variable, text, flags=re.IGNORECASE)
    # The font of the page is used, and ids differ from those of other figures.
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    mark = f"f{zlib.crc32(text.encode()):x}-"
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{mark}", text)
    # matplotlib escapes the text inside; only the description is added here.
    return Markup(text.replace("<svg ", Markup('<svg role="img" aria-label="{}" ').format(description), 1))


def _fix_tick_count(figure: "Figure") -> None:
    """Give automatic ticks a fixed largest number.

    By default their number depends on the size of the axes, and the size on the width of their labels. The two can
    change in turns, and then the layout cuts off a label.
    """
    from matplotlib.ticker import AutoLocator

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            locator = axis.get_major_locator()
            if isinstance(locator, AutoLocator):
                locator.set_params(nbins=7)
