"""Figures of the theory: power laws of gradient influence, and the terms of the bound."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from icpe.paper.analysis.influence import Influence
from icpe.paper.figures.panels import TWO_PANELS, plain_ticks
from icpe.report.figures import HEAD, NICHE, colour, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PLACES = {"rows": "users' rows", "common": "common to all users", "shared": "shared parameters"}


def exponent_figure(found: Mapping[str, Influence], place: str = "rows", also: str = "common") -> "Figure":
    """Gradient norm against popularity before training with the fitted power law, one panel per backbone.

    Args:
        found: label of the backbone → result of :func:`icpe.paper.analysis.influence.influence_exponent`.
        place: where gradients are taken, as explained there.
        also: a second place, drawn as hollow points.
    """
    figure, axes = panels(len(found), (3.1 * len(found) + 0.6, 3.4))
    for panel, (label, influence) in zip(axes, found.items(), strict=True):
        for where, shade, marker, filled in ((place, NICHE, "o", True), (also, HEAD, "^", False)):
            points = influence.points.filter(pl.col("place") == where)
            fit = influence.fits.filter(pl.col("place") == where).row(0, named=True)
            inside = shade if filled else "none"
            panel.scatter(
                points["popularity"], points["gradient_norm"], 14, inside, marker=marker, edgecolors=shade, alpha=0.7
            )
            ends = np.array([points["popularity"].min(), points["popularity"].max()], float)
            panel.plot(ends, np.exp(fit["intercept"]) * ends ** fit["slope"], "-", color=shade, linewidth=1.4)
            text = f"{_PLACES[where]}: {fit['slope']:.2f} [{fit['low']:.2f}, {fit['high']:.2f}]"
            panel.plot([], [], marker, color=shade, markerfacecolor=inside, label=text)
        panel.loglog()
        plain_ticks(panel)
        panel.set(xlabel="interactions of the item")
        panel.set_title(label, loc="left")
        panel.legend(frameon=False, fontsize=8, loc="upper left", handletextpad=0.2, borderaxespad=0)
        low, high = panel.get_ylim()
        panel.set_ylim(low, high * (high / low) ** 0.22)  # space for the legend
    axes[0].set_ylabel("gradient norm before training")
    return figure


def bound_figure(terms: pl.DataFrame) -> "Figure":
    """Estimated terms of the bound against the number of clusters. The right panel shows only the two small terms."""
    figure, (left, right) = panels(2, TWO_PANELS)
    shown = (
        ("bound", "sum of the three", "black", "D"),
        ("risk", "empirical weighted risk", NICHE, "o"),
        ("rademacher", "Rademacher term", HEAD, "^"),
        ("cover_term", "third term", colour(1), "s"),
    )
    for axes, kept in ((left, shown), (right, shown[2:])):
        for name, label, shade, marker in kept:
            axes.plot(terms["clusters"], terms[name], "-", marker=marker, color=shade, label=label)
        axes.set(xlabel="clusters K", ylim=(0, None), xticks=terms["clusters"].to_list())
        axes.margins(y=0.1)
        axes.set_ylim(bottom=0)
    left.set_ylabel("estimate")
    left.legend(frameon=False, fontsize=9, loc="center right")
    right.legend(frameon=False, fontsize=9, loc="best")
    left.set_title("Terms of the bound", loc="left", fontsize=10)
    right.set_title("The two small terms", loc="left", fontsize=10)
    return figure
