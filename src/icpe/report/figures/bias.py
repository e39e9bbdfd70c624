"""Figures about bias: the Lorenz curve of exposure, and the popularity lift of groups of users."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from icpe.report.figures.canvas import SIZE, legend_above, panels
from icpe.report.figures.style import GREY, Style
from icpe.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Lift:
    """Popularity lift of each group of users under one set of lists.

    Attributes:
        label: Name of the set.
        style: Its look in figures.
        values: Lift of each group; None for groups without lists.
        intervals: Bounds of each; None where they are unknown.
    """

    label: str
    style: Style
    values: list[float | None]
    intervals: list[tuple[float, float] | None]


def lorenz(log: FloatArray, curves: Sequence[tuple[str, Style, FloatArray]], log_name: str = "log") -> "Figure":
    """Share of the exposure on the least shown items, for each set of lists and for the log.

    Args:
        log: The curve of the log, float64 [points].
        curves: Label, look and curve of each set.
        log_name: Name of the log.
    """
    figure, (axes,) = panels(1, SIZE)
    axes.plot([0, 100], [0, 100], color=GREY, linestyle=":", linewidth=1, label="all items equal")
    axes.plot(np.linspace(0, 100, len(log)), 100 * log, color=GREY, label=log_name)
    for label, style, curve in curves:
        along = np.linspace(0, 100, len(curve))
        axes.plot(along, 100 * curve, color=style.colour, linestyle=style.dashes, linewidth=2, label=label)
    axes.set(xlabel="% of items, least shown first", ylabel="% of list positions", xlim=(0, 100), ylim=(0, 102))
    legend_above(axes)
    return figure


def lift_by_group(groups: Sequence[str], lifts: Sequence[Lift]) -> "Figure":
    """Popularity lift of each group of users as bars with intervals; 0 means as popular as what these users chose."""
    figure, (axes,) = panels(1, SIZE)
    places, thick = np.arange(len(groups)), 0.8 / max(len(lifts), 1)
    for at, one in enumerate(lifts):
        values = 100 * np.array([np.nan if value is None else value for value in one.values])
        bounds = 100 * np.array([(np.nan, np.nan) if both is None else both for both in one.intervals])
        # An interval that is not known has no whisker; bars of groups without lists are empty.
        spread = np.nan_to_num(np.abs(bounds.T - values))
        axes.bar(
            places - 0.4 + (at + 0.5) * thick, values, thick, yerr=spread, color=one.style.colour, ecolor=GREY,
            capsize=3, label=one.label,
        )  # fmt: skip
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set_xticks(places, list(groups))
    axes.set(ylabel="% more popular than the profile")
    legend_above(axes)
    return figure
