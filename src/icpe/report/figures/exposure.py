"""Which items fill the list positions: by tenths of the items, and cumulated over the long tail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from icpe.report.figures.canvas import SIZE, legend_above, panels
from icpe.report.figures.style import GREY, Style
from icpe.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CUMULATED = (
    "Share of the list positions that the most popular items fill together. The higher the curve, the fewer items "
    "fill the lists."
)


@dataclass(frozen=True, eq=False)
class Exposure:
    """How often a set of lists shows each item.

    Attributes:
        label: Name of the set.
        style: Its look in figures.
        shown: int64 [items of the log], number of lists that contain each item.
        new: Number of list positions with items that are not in the log.
    """

    label: str
    style: Style
    shown: IntArray
    new: int = 0

    @property
    def known(self) -> float:
        """Share of the list positions with items of the log."""
        shown = int(self.shown.sum())
        return shown / max(shown + self.new, 1)


def by_tenth(log_counts: IntArray, lists: Sequence[Exposure], log_name: str = "log") -> "Figure":
    """Share of the list positions on each tenth of the items, next to the share of the log; new items come last."""
    figure, (axes,) = panels(1, SIZE)
    order = np.argsort(-log_counts, kind="stable")
    bars = [Exposure(log_name, Style(GREY, "", "-"), log_counts), *lists]
    any_new = any(one.new for one in lists)
    width = 0.84 / len(bars)
    for place, one in enumerate(bars):
        shares = 100 * one.known * np.diff(shares_along(one.shown, order, 10))
        shares = np.append(shares, 100 * (1 - one.known)) if any_new else shares
        at = np.arange(len(shares)) + (place + 0.5) * width - 0.42
        axes.bar(at, shares, width, color=one.style.colour, label=one.label)
    axes.axvline(1.5, color=GREY, linestyle=":", linewidth=1)
    top = 1.12 * axes.get_ylim()[1]  # the words head and niche are above the bars
    axes.set_ylim(top=top)
    axes.text(1.4, top, "head", ha="right", va="top", color=GREY)
    axes.text(1.6, top, "niche", ha="left", va="top", color=GREY)
    axes.set(xlabel="tenths of the items, most popular first", ylabel="% of list positions")
    names = [str(tenth) for tenth in range(1, 11)] + ["new"] * any_new
    axes.set_xticks(range(len(names)), names)
    legend_above(axes)
    return figure


def cumulated(log_counts: IntArray, lists: Sequence[Exposure], log_name: str = "log") -> "Figure":
    """Share of the list positions that the most popular items fill together."""
    figure, (axes,) = panels(1, SIZE)
    order = np.argsort(-log_counts, kind="stable")
    along = np.linspace(0, 100, 101)
    axes.plot([0, 100], [0, 100], color=GREY, linestyle=":", linewidth=1, label="all items equal")
    axes.plot(along, 100 * shares_along(log_counts, order, 100), color=GREY, label=log_name)
    for one in lists:
        shares = 100 * one.known * shares_along(one.shown, order, 100)
        axes.plot(along, shares, color=one.style.colour, linestyle=one.style.dashes, linewidth=2, label=one.label)
    axes.set(xlabel="% of items, most popular first", ylabel="% of list positions", xlim=(0, 100), ylim=(0, 102))
    legend_above(axes)
    return figure


def shares_along(counts: IntArray, order: IntArray, pieces: int) -> FloatArray:
    """Cumulated share of ``counts`` [items] over the items in this order, at the borders of equal pieces.

    Returns:
        float64 [pieces + 1], from 0 to 1.

    Example:
        >>> shares_along(np.array([1, 6, 3, 0]), np.array([1, 2, 0, 3]), 2).tolist()
        [0.0, 0.9, 1.0]
    """
    curve = np.concatenate([[0], np.cumsum(counts[order])]) / max(counts.sum(), 1)
    return np.asarray(np.interp(np.linspace(0, len(order), pieces + 1), np.arange(len(curve)), curve))
