"""Figures of Pareto fronts: losses of head and niche items, and dials."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from icpe.paper.analysis.fronts import dominated
from icpe.paper.figures.panels import MARKERS, ONE_PANEL, TWO_PANELS, plain_ticks
from icpe.report.figures import GREY, colour, panels
from icpe.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST = 0.01  # smallest loss that is drawn; differences below it do not matter


def front_figure(front: pl.DataFrame, points: pl.DataFrame | None = None, title: str = "") -> "Figure":
    """Head against niche loss of the end points of Pareto MTL and of other methods. Dominated points are hollow.

    The left panel shows the losses as trained. The right panel shows them after the shift of all scores that is best
    for Normal's loss. The shift changes no list and removes what a method gains by raising all scores.

    Args:
        front: frame of :func:`icpe.paper.analysis.loss_front.loss_front`.
        points: frame of :func:`icpe.paper.analysis.loss_front.reference_points`.
        title: title above the axes.
    """
    figure, axes = panels(2, TWO_PANELS)
    for panel, suffix, heading in zip(axes, ("loss", "levelled"), ("as trained", "all scores shifted"), strict=True):
        names = [f"head_{suffix}", f"niche_{suffix}"]
        losses = front.select(*names).to_numpy()
        _draw_front(panel, losses, front["feasible"].to_numpy())
        for place, row in enumerate([] if points is None else points.iter_rows(named=True)):
            marker = MARKERS[1 + place % (len(MARKERS) - 1)]
            label = str(row["label"]).replace("S^g", "Sᵍ")
            edge = {"markeredgecolor": "white", "markeredgewidth": 0.6}
            panel.plot(
                *(max(row[name], _LEAST) for name in names),
                marker,
                color=colour(place),
                markersize=8,
                label=label,
                **edge,
            )
        panel.loglog()
        plain_ticks(panel)
        less = [f" (≥ {_LEAST:g})" if (axis < _LEAST).any() else "" for axis in losses.T]
        panel.set(xlabel=f"loss of head items{less[0]}", ylabel=f"loss of niche items{less[1]}")
        panel.set_title(f"{title}, {heading}" if title else heading, loc="left", fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize=9, ncols=6, handletextpad=0.2)
    return figure


def _draw_front(axes: Any, losses: FloatArray, feasible: BoolArray) -> None:
    worse = dominated(-losses)
    losses = np.maximum(losses, _LEAST)
    best = losses[~worse][np.argsort(losses[~worse][:, 0])]
    axes.plot(*best.T, "-", color=GREY, linewidth=1, zorder=1)
    kinds = (
        (feasible & ~worse, "o", GREY, "Pareto MTL"),
        (feasible & worse, "o", "white", "dominated"),
        (~feasible, "X", GREY, "preference not reached"),
    )
    for chosen, marker, inside, label in kinds:
        if chosen.any():
            axes.scatter(*losses[chosen].T, 34, inside, marker=marker, edgecolors=GREY, zorder=2, label=label)


def dial_figure(dials: Mapping[str, pl.DataFrame], points: Mapping[str, tuple[float, float]] | None = None) -> "Figure":
    """NDCG against the share of niche items for all values of dials. The ends and the best point show their values.

    Args:
        dials: label → frame of :func:`icpe.paper.analysis.dial_front.dial_front`.
        points: label → (APT, NDCG) of models without a dial.
    """
    figure, (axes,) = panels(1, ONE_PANEL)
    for place, (label, frame) in enumerate(dials.items()):
        shade, marker = colour(place), MARKERS[place % len(MARKERS)]
        rows = frame.sort("value")
        axes.plot(rows["apt@20"], rows["ndcg@20"], "-", marker=marker, color=shade, markersize=5, label=label)
        for row in (rows.row(0, named=True), rows.row(-1, named=True), _best_row(rows)):
            axes.annotate(
                f"{row['value']:g}",
                (row["apt@20"], row["ndcg@20"]),
                (0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=shade,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.8},
            )
    for place, (label, (apt, ndcg)) in enumerate((points or {}).items(), len(dials)):
        axes.plot(apt, ndcg, MARKERS[place % len(MARKERS)], color=GREY, markersize=8)
        axes.annotate(label, (apt, ndcg), (7, -3), textcoords="offset points", color=GREY, fontsize=9)
    axes.set(xlabel="APT@20: share of niche items in lists", ylabel="NDCG@20")
    axes.margins(0.08, 0.12)
    axes.legend(frameon=False, loc="best", fontsize=9)
    return figure


def _best_row(frame: pl.DataFrame) -> dict[str, Any]:
    """Row with the largest NDCG."""
    return frame.sort("ndcg@20", descending=True).row(0, named=True)
