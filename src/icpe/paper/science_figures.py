"""Figures of the paper's own questions: fronts, gradients, power laws, the bound."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from icpe.paper.frontier import dominated
from icpe.paper.gradients import Conflicts
from icpe.paper.theory import Influence
from icpe.report.exposure_figures import colour
from icpe.report.figures import GREY, HEAD, NICHE, panels
from icpe.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P")
_ONE, _TWO = (4.8, 3.6), (8.6, 3.6)  # inches
_BINS = 12
_LEAST = 0.01  # a loss that is drawn; what is below is learnt, and orders of magnitude there mean nothing


def front_figure(front: pl.DataFrame, points: pl.DataFrame | None = None, title: str = "") -> "Figure":
    """Head against niche loss: end points of Pareto MTL, dominated ones hollow, and other methods beside them.

    Left as trained. Right after the shift of all scores that is best for Normal's loss: it changes no list, and takes
    away what a method wins by scoring everything higher.

    Args:
        front: as of :func:`icpe.paper.frontier.loss_front`.
        points: as of :func:`icpe.paper.frontier.reference_points`.
        title: above the axes.
    """
    figure, axes = panels(2, _TWO)
    for panel, suffix, heading in zip(axes, ("loss", "levelled"), ("as trained", "all scores shifted"), strict=True):
        names = [f"head_{suffix}", f"niche_{suffix}"]
        losses = front.select(*names).to_numpy()
        _draw_front(panel, losses, front["feasible"].to_numpy())
        for place, row in enumerate([] if points is None else points.iter_rows(named=True)):
            marker = _MARKERS[1 + place % (len(_MARKERS) - 1)]
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
        _plain_ticks(panel)
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
    """NDCG against the share of niche items in lists, as dials are turned; the ends carry the dial's values.

    Args:
        dials: label → frame as of :func:`icpe.paper.frontier.dial_front`.
        points: label → (APT, NDCG) of models without a dial.
    """
    figure, (axes,) = panels(1, _ONE)
    for place, (label, frame) in enumerate(dials.items()):
        shade, marker = colour(place), _MARKERS[place % len(_MARKERS)]
        rows = frame.sort("value")
        axes.plot(rows["apt@20"], rows["ndcg@20"], "-", marker=marker, color=shade, markersize=5, label=label)
        for row in (rows.row(0, named=True), rows.row(-1, named=True), _best(rows)):
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
        axes.plot(apt, ndcg, _MARKERS[place % len(_MARKERS)], color=GREY, markersize=8)
        axes.annotate(label, (apt, ndcg), (7, -3), textcoords="offset points", color=GREY, fontsize=9)
    axes.set(xlabel="APT@20: share of niche items in lists", ylabel="NDCG@20")
    axes.margins(0.08, 0.12)
    axes.legend(frameon=False, loc="best", fontsize=9)
    return figure


def gradient_figure(gradients: pl.DataFrame) -> "Figure":
    """Gradient norm of each item against its popularity on logarithmic axes, with the median of each bin.

    Args:
        gradients: as of :func:`icpe.paper.gradients.item_gradients`.
    """
    figure, (axes,) = panels(1, _ONE)
    for head, shade, marker, label in ((True, HEAD, "^", "head"), (False, NICHE, "o", "niche")):
        some = gradients.filter(pl.col("head") == head)
        axes.scatter(some["popularity"], some["gradient_norm"], 10, shade, marker=marker, alpha=0.35, linewidths=0)
        if len(some):
            middle = float(np.median(some["gradient_norm"].to_numpy()))
            axes.scatter([], [], 28, shade, marker=marker, label=f"{label} items, median {middle:.2g}")
    axes.loglog()
    centres, medians = binned_median(*gradients.select("popularity", "gradient_norm").to_numpy().T)
    axes.plot(centres, medians, "k-", linewidth=1.6, label="median of a bin")
    axes.set(xlabel="interactions of the item", ylabel="gradient norm on shared parameters")
    _plain_ticks(axes)
    axes.legend(frameon=False, loc="upper left", fontsize=9)
    return figure


def conflict_figure(found: Conflicts) -> "Figure":
    """Left: cosines between a head item's gradient and those of niche items. Right: four gradients as arrows.

    The right half shows the plane of the two main directions; its inset is the same plane, enlarged until the niche
    items' arrows can be seen.
    """
    figure, (left, right) = panels(2, _TWO)
    cosines = found.niche["cosine"].to_numpy()
    edges = np.histogram_bin_edges(cosines, 30)
    step = edges[1] - edges[0]
    edges = np.arange(np.floor(edges[0] / step), np.ceil(edges[-1] / step) + 1) * step  # with a border at 0
    counts, _, bars = left.hist(cosines, edges, color=NICHE, edgecolor="white", linewidth=0.4)
    for bar, edge in zip(bars, edges, strict=False):
        if edge < -step / 2:
            bar.set(facecolor=HEAD, hatch="///")
    left.axvline(0, color="black", linewidth=1)
    left.set(xlabel=f"cosine with the gradient of head item {found.head_item}", ylabel="niche items")
    left.set_title(f"{found.share_below_zero:.0%} of {len(cosines)} point against it", loc="left", fontsize=10)
    left.set_ylim(0, counts.max() * 1.05)

    arrows = found.arrows.to_dicts()
    _draw_arrows(right, arrows, (-0.25, 1.15, -0.75, 0.65), max(np.hypot(one["x"], one["y"]) for one in arrows))
    right.set(xlabel="first main direction", ylabel="second main direction")
    right.set_title(_share_text(sum(found.explained)), loc="left", fontsize=10)
    niche = [one for one in arrows if "niche" in one["name"]]
    inset = right.inset_axes((0.56, 0.62, 0.42, 0.36))
    _draw_arrows(inset, niche, (-1.2, 1.2, -1.2, 1.2), max(np.hypot(one["x"], one["y"]) for one in niche))
    inset.set_xlabel("niche, enlarged", fontsize=8)
    for one in arrows:
        name, shade = one["name"], _SHADES[one["name"]]
        right.plot([], [], ":" if name == "sum" else "-", color=shade, label=f"{name}: length {one['length']:.2g}")
    right.legend(frameon=False, fontsize=8.5, loc="lower left", handlelength=1.5)
    return figure


def _share_text(share: float) -> str:
    shown = "over 99.9 %" if share > 0.999 else f"{share:.1%}".replace("%", " %")
    return f"Along the main directions ({shown})"


def exponent_figure(found: Mapping[str, Influence], place: str = "rows", also: str = "common") -> "Figure":
    """Gradient norm against popularity before training with the fitted power law, a panel for each backbone.

    Args:
        found: label of the backbone → as of :func:`icpe.paper.theory.influence_exponent`.
        place: where gradients are taken, see there.
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
        _plain_ticks(panel)
        panel.set(xlabel="interactions of the item")
        panel.set_title(label, loc="left")
        panel.legend(frameon=False, fontsize=8, loc="upper left", handletextpad=0.2, borderaxespad=0)
        low, high = panel.get_ylim()
        panel.set_ylim(low, high * (high / low) ** 0.22)  # room for the legend
    axes[0].set_ylabel("gradient norm before training")
    return figure


def bound_figure(terms: pl.DataFrame) -> "Figure":
    """Left: the estimated terms of the bound against the number of clusters. Right: the two small ones alone."""
    figure, (left, right) = panels(2, _TWO)
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


def binned_median(popularity: FloatArray, values: FloatArray, bins: int = _BINS) -> tuple[FloatArray, FloatArray]:
    """Geometric centres of bins of equal width in log popularity, and the median in each; empty bins are left out.

    Example:
        >>> centres, medians = binned_median(np.array([1.0, 1.0, 100.0]), np.array([2.0, 4.0, 7.0]), bins=2)
        >>> centres.round(2).tolist(), medians.tolist()
        ([3.16, 31.62], [3.0, 7.0])
    """
    edges = np.geomspace(popularity.min(), popularity.max(), bins + 1)
    place = np.clip(np.searchsorted(edges, popularity, side="right") - 1, 0, bins - 1)
    there = np.unique(place)
    centres = np.sqrt(edges[there] * edges[there + 1])
    return centres, np.array([np.median(values[place == one]) for one in there])


_PLACES = {"rows": "users' rows", "common": "common to all users", "shared": "shared parameters"}
_SHADES = {"head": HEAD, "niche, most against": NICHE, "niche, median": colour(1), "sum": "black"}


def _draw_arrows(axes: Any, arrows: Sequence[dict[str, Any]], window: Sequence[float], unit: float) -> None:
    """Arrows from the origin; the window (left, right, bottom, top) is in units of ``unit``."""
    unit = unit if unit > 0 else 1.0
    for one in arrows:
        if np.hypot(one["x"], one["y"]) < 0.08 * unit:  # shorter than its head
            axes.plot(one["x"], one["y"], "o", color=_SHADES[one["name"]], markersize=4)
            continue
        style = {"arrowstyle": "-|>", "color": _SHADES[one["name"]], "shrinkA": 0, "shrinkB": 0, "linewidth": 1.6}
        if one["name"] == "sum":
            style["linestyle"] = ":"
        axes.annotate("", (one["x"], one["y"]), (0, 0), arrowprops=style)
    axes.axhline(0, color=GREY, linewidth=0.5, zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.5, zorder=0)
    left, right, bottom, top = (unit * end for end in window)
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])


def _best(frame: pl.DataFrame) -> dict[str, Any]:
    """The row of the largest NDCG."""
    return frame.sort("ndcg@20", descending=True).row(0, named=True)


def _plain_ticks(axes: Any) -> None:
    """Numbers as people write them, at 1, 2 and 5, on logarithmic axes."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        wide = np.log10(high / low) > 2
        axis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
