"""Who gets the places in lists: by tenth of the items, and along the long tail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.report.figures import GREY, panels, shares_along
from icpe.types import IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Told apart by colour-blind readers, and not the colours of head and niche items.
COLOURS = ("#CC79A7", "#009E73", "#E69F00", "#8C7AE6", "#A6761D", "#66A61E")
SIZE = (4.8, 3.3)  # inches; small enough that text stays readable on a phone
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True, eq=False)
class Exposure:
    """What somebody's lists show.

    Attributes:
        label: whose.
        shown: int64 [items of the log], in how many lists each is.
        new: places on items that are not in the log.
    """

    label: str
    shown: IntArray
    new: int = 0

    @property
    def places(self) -> int:
        """All of them."""
        return int(self.shown.sum()) + self.new

    @property
    def known(self) -> float:
        """Share of the places on items of the log."""
        return int(self.shown.sum()) / max(self.places, 1)


def colour(place: int) -> str:
    """Of the run or the lists at this place."""
    return COLOURS[place % len(COLOURS)]


def dashes(place: int) -> str:
    """Of the line at this place, so that lines are told apart in grey print too."""
    return _DASHES[place % len(_DASHES)]


def by_tenth(log_counts: IntArray, lists: Sequence[Exposure], log_name: str = "log") -> "Figure":
    """Share of the list places on each tenth of the items, beside the share of the log; new items come last."""
    figure, (axes,) = panels(1, SIZE)
    order = np.argsort(-log_counts, kind="stable")
    bars = [(log_name, GREY, Exposure(log_name, log_counts))]
    bars += [(one.label, colour(place), one) for place, one in enumerate(lists)]
    any_new = any(one.new for one in lists)
    width = 0.84 / len(bars)
    for place, (label, shade, one) in enumerate(bars):
        shares = 100 * one.known * np.diff(shares_along(one.shown, order, 10))
        shares = np.append(shares, 100 * (1 - one.known)) if any_new else shares
        at = np.arange(len(shares)) + (place + 0.5) * width - 0.42
        axes.bar(at, shares, width, color=shade, label=label)
    axes.axvline(1.5, color=GREY, linestyle=":", linewidth=1)
    top = axes.get_ylim()[1]
    axes.text(1.4, top, "head", ha="right", va="top", color=GREY)
    axes.text(1.6, top, "niche", ha="left", va="top", color=GREY)
    axes.set(xlabel="tenths of the items, most popular first", ylabel="% of list places")
    names = [str(tenth) for tenth in range(1, 11)] + ["new"] * any_new
    axes.set_xticks(range(len(names)), names)
    legend(axes, loc="center right")
    return figure


def cumulated(log_counts: IntArray, lists: Sequence[Exposure], log_name: str = "log") -> "Figure":
    """How much of the lists the most popular items take together."""
    figure, (axes,) = panels(1, SIZE)
    order = np.argsort(-log_counts, kind="stable")
    along = np.linspace(0, 100, 101)
    axes.plot([0, 100], [0, 100], color=GREY, linestyle=":", linewidth=1, label="all items alike")
    axes.plot(along, 100 * shares_along(log_counts, order, 100), color=GREY, label=log_name)
    for place, one in enumerate(lists):
        shares = 100 * one.known * shares_along(one.shown, order, 100)
        axes.plot(along, shares, color=colour(place), linestyle=dashes(place), linewidth=2, label=one.label)
    axes.set(xlabel="% of items, most popular first", ylabel="% of list places", xlim=(0, 100), ylim=(0, 102))
    legend(axes, loc="lower right")
    return figure


def legend(axes: Any, loc: str = "best") -> None:
    """Inside the axes while there is room, above them where there are many lines."""
    labels = axes.get_legend_handles_labels()[1]
    columns = 2 if max(map(len, labels)) <= 20 else 1
    above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": columns, "fontsize": 9}
    axes.legend(frameon=False, **(above if len(labels) > 4 else {"loc": loc}))
