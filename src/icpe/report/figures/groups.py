"""Exposure of groups of items, such as categories."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from icpe.metrics.groups import GroupExposure
from icpe.report.figures.canvas import SIZE, legend_above, panels
from icpe.report.figures.style import GREY, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LONGEST = 22  # characters of a name beside its bar


def by_group(groups: Sequence[GroupExposure], labels: Sequence[str], styles: Sequence[Style], log: str) -> "Figure":
    """Share of the list positions of each group beside its share of the log; a diamond is its share of the catalogue.

    Args:
        groups: The groups, in the order of the rows.
        labels: Names of the sets of lists.
        styles: Their looks.
        log: Name of the log.
    """
    height = 0.9 + (0.16 + 0.13 * (len(labels) + 1)) * len(groups)
    figure, (axes,) = panels(1, (SIZE[0], max(SIZE[1], height)))
    rows = np.arange(len(groups))
    thick = 0.8 / (len(labels) + 1)
    bars = [(log, GREY, [one.of_log for one in groups])]
    bars += [
        (label, style.colour, [one.of_lists[at] for one in groups])
        for at, (label, style) in enumerate(zip(labels, styles, strict=True))
    ]
    for place, (label, colour, shares) in enumerate(bars):
        axes.barh(rows - 0.4 + (place + 0.5) * thick, 100 * np.array(shares), thick, color=colour, label=label)
    catalogue = 100 * np.array([one.of_catalogue for one in groups])
    axes.plot(catalogue, rows, "D", color="white", markeredgecolor=GREY, markersize=5, label="catalogue")
    axes.set_yticks(rows, [_short(one.name) for one in groups])
    axes.invert_yaxis()
    axes.set(xlabel="share, in percent")
    axes.set_xlim(left=0)
    legend_above(axes)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
