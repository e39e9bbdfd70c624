"""Figures of the feedback loop: over rounds, across adoption, and the quality of items against their exposure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from icpe.report.figures.canvas import SIZE, legend_above, panels
from icpe.report.figures.style import GREY, method_styles
from icpe.simulate.arms import NONE, REFERENCES, arm_label
from icpe.simulate.results import band, quality_tenths
from icpe.simulate.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GINI, UTILITY = "Gini of the whole log", "true utility of what is consumed"


def over_rounds(found: Simulation, metric: str, name: str) -> "Figure":
    """A metric of all users in every round, one line per arm, with the range over the seeds."""
    figure, (axes,) = panels(1, SIZE)
    _draw_rounds(axes, found, found.arms, metric, name)
    legend_above(axes)
    return figure


def loop_picture(found: Simulation) -> "Figure":
    """Gini of the log and true utility over rounds for the methods and without a recommender, side by side."""
    arms = [arm for arm in found.arms if arm not in REFERENCES or arm == NONE]
    figure, (left, right) = panels(2, (9.6, 3.6))
    _draw_rounds(left, found, arms, "log_gini", GINI)
    _draw_rounds(right, found, arms, "consumed_utility", UTILITY)
    legend_above(left)
    return figure


def across_adoption(found: Simulation, metric: str, name: str) -> "Figure":
    """A metric of all users in the last round against adoption, one line per arm, with the range over the seeds."""
    figure, (axes,) = panels(1, SIZE)
    rows = band(found.across_adoption(), metric, ["arm", "adoption"])
    _draw_lines(axes, found.arms, found.arms, rows, "adoption", marker=True)
    axes.set(xlabel="adoption η: share of visits that follow the list", ylabel=name)
    legend_above(axes)
    return figure


def quality_tenth_shares(found: Simulation, column: str, name: str) -> "Figure":
    """Share of what was ``shown`` or ``consumed`` that each tenth of the niche items gets, by true quality."""
    figure, (axes,) = panels(1, SIZE)
    shares = quality_tenths(found.items.filter(pl.col("adoption") == found.adoption), column)
    rows = band(shares, "share", ["arm", "tenth"])
    arms = [arm for arm in found.arms if rows.filter(pl.col("arm") == arm)["mean"].is_finite().any()]
    _draw_lines(axes, found.arms, arms, rows, "tenth", marker=True)
    axes.set(xlabel="tenth of the niche items by true quality (10: best)", ylabel=name)
    axes.set_xticks(range(1, 11))
    axes.set_ylim(bottom=0)
    legend_above(axes)
    return figure


def _draw_rounds(axes: Any, found: Simulation, arms: Sequence[str], metric: str, name: str) -> None:
    rows = band(found.over_time(), metric, ["arm", "round"])
    _draw_lines(axes, found.arms, arms, rows, "round")
    for number in range(1 + found.settings.retrain, found.settings.rounds + 1, found.settings.retrain):
        axes.axvline(number, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
    axes.set(xlabel="round", ylabel=name)
    axes.locator_params(axis="x", integer=True)


def _draw_lines(
    axes: Any, every: Sequence[str], arms: Sequence[str], rows: pl.DataFrame, across: str, marker: bool = False
) -> None:
    """Draw the mean of each arm and the range over the seeds. An arm looks the same in all figures of a page."""
    styles = dict(zip(every, method_styles(every), strict=True))
    for arm in arms:
        of_arm, style = rows.filter(pl.col("arm") == arm), styles[arm]
        x, mean, low, high = (of_arm[name].to_numpy() for name in (across, "mean", "low", "high"))
        shape = style.marker if marker else ""
        axes.plot(x, mean, style.dashes + shape, color=style.colour, linewidth=1.8, label=arm_label(arm), markersize=5)
        if (high > low).any():
            axes.fill_between(x, low, high, color=style.colour, alpha=0.18, linewidth=0)
