"""Axes and labels that several figures share."""

from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.report.figures import HEAD, NICHE, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {"recall": "Recall@20", "ndcg": "NDCG@20", "coverage": "Coverage@20", "apt": "APT@20"}
SHADES = (NICHE, HEAD, "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P")
ONE_PANEL, TWO_PANELS = (4.8, 3.6), (8.6, 3.6)  # inches


def metric_name(metric: str) -> str:
    """Readable name of a metric.

    Example:
        >>> metric_name("ndcg_niche@20")
        'NDCG@20 of niche items'
    """
    kind, _, group = metric.removesuffix("@20").partition("_")
    return _NAMES[kind] + (f" of {group} items" if group else "")


def grid_of_panels(rows: int, columns: int, size: tuple[float, float]) -> tuple["Figure", Any]:
    """Figure with a grid of axes. ``size`` is the total width and the height of one row, in inches."""
    figure, _ = panels(1, (size[0], size[1] * rows))
    figure.clear()
    made = figure.subplots(rows, columns, squeeze=False)
    for axes in made.ravel():
        axes.spines[["top", "right"]].set_visible(False)
    return figure, made


def plain_ticks(axes: Any) -> None:
    """Label logarithmic axes with plain numbers at 1, 2 and 5, or at powers of ten if the range is wide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        wide = np.log10(high / low) > 2
        axis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
