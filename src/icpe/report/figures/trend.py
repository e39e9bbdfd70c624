"""Metrics of audits over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from icpe.audit.history import DATE, LISTS
from icpe.report.figures.canvas import SIZE, legend_above, panels
from icpe.report.figures.style import GREY, position_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def over_time(table: pl.DataFrame, metric: str, title: str, limits: Sequence[float] = ()) -> "Figure":
    """A metric on every night, with a line for each set of lists.

    Args:
        table: Frame of a :class:`~icpe.audit.history.History`.
        metric: Name of the metric.
        title: Name beside the axis.
        limits: Limits of rules, drawn as dotted lines.
    """
    import matplotlib.dates

    figure, (axes,) = panels(1, SIZE)
    for place, name in enumerate(table[LISTS].unique(maintain_order=True)):
        rows, style = table.filter(pl.col(LISTS) == name), position_style(place)
        values = rows[metric].to_numpy()
        axes.plot(
            rows[DATE].to_numpy(), values, color=style.colour, marker=style.marker, linestyle=style.dashes, label=name
        )
    for limit in dict.fromkeys(limits):
        axes.axhline(limit, color=GREY, linestyle=":", linewidth=1.5)
        axes.annotate(
            "limit", (1, limit), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=GREY, fontsize=9
        )
    dates: Any = matplotlib.dates  # matplotlib does not declare its types
    axes.xaxis.set_major_locator(locator := dates.AutoDateLocator(minticks=2, maxticks=6))
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.set(ylabel=title)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])  # the word limit is above its line
    legend_above(axes)
    return figure
