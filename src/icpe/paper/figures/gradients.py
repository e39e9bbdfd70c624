"""Figures of gradients: norms by popularity, and conflicts between items."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from icpe.paper.analysis.gradients import Conflicts
from icpe.paper.figures.panels import ONE_PANEL, TWO_PANELS, plain_ticks
from icpe.report.figures import GREY, HEAD, NICHE, colour, panels
from icpe.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 12
_COLOURS = {"head": HEAD, "niche, most against": NICHE, "niche, median": colour(1), "sum": "black"}


def gradient_figure(gradients: pl.DataFrame) -> "Figure":
    """Gradient norm of each item against its popularity on logarithmic axes, with the median of each bin.

    Args:
        gradients: frame of :func:`icpe.paper.analysis.gradients.item_gradients`.
    """
    figure, (axes,) = panels(1, ONE_PANEL)
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
    plain_ticks(axes)
    axes.legend(frameon=False, loc="upper left", fontsize=9)
    return figure


def conflict_figure(found: Conflicts) -> "Figure":
    """Cosines between the gradient of a head item and those of niche items, and four of the gradients as arrows.

    The right panel shows the plane of the two principal directions. Its inset enlarges the arrows of the niche items.
    """
    figure, (left, right) = panels(2, TWO_PANELS)
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
    right.set(xlabel="first principal direction", ylabel="second principal direction")
    right.set_title(_share_text(sum(found.explained)), loc="left", fontsize=10)
    niche = [one for one in arrows if "niche" in one["name"]]
    inset = right.inset_axes((0.56, 0.62, 0.42, 0.36))
    _draw_arrows(inset, niche, (-1.2, 1.2, -1.2, 1.2), max(np.hypot(one["x"], one["y"]) for one in niche))
    inset.set_xlabel("niche, enlarged", fontsize=8)
    for one in arrows:
        name, shade = one["name"], _COLOURS[one["name"]]
        right.plot([], [], ":" if name == "sum" else "-", color=shade, label=f"{name}: length {one['length']:.2g}")
    right.legend(frameon=False, fontsize=8.5, loc="lower left", handlelength=1.5)
    return figure


def binned_median(popularity: FloatArray, values: FloatArray, bins: int = _BINS) -> tuple[FloatArray, FloatArray]:
    """Geometric centres of bins of equal width in log popularity, and the median in each bin. Empty bins are omitted.

    Example:
        >>> centres, medians = binned_median(np.array([1.0, 1.0, 100.0]), np.array([2.0, 4.0, 7.0]), bins=2)
        >>> centres.round(2).tolist(), medians.tolist()
        ([3.16, 31.62], [3.0, 7.0])
    """
    edges = np.geomspace(popularity.min(), popularity.max(), bins + 1)
    place = np.clip(np.searchsorted(edges, popularity, side="right") - 1, 0, bins - 1)
    filled = np.unique(place)
    centres = np.sqrt(edges[filled] * edges[filled + 1])
    return centres, np.array([np.median(values[place == one]) for one in filled])


def _share_text(share: float) -> str:
    shown = "over 99.9 %" if share > 0.999 else f"{share:.1%}".replace("%", " %")
    return f"Along the principal directions ({shown})"


def _draw_arrows(axes: Any, arrows: Sequence[dict[str, Any]], window: Sequence[float], unit: float) -> None:
    """Draw arrows from the origin. The window (left, right, bottom, top) is in multiples of ``unit``."""
    unit = unit if unit > 0 else 1.0
    for one in arrows:
        if np.hypot(one["x"], one["y"]) < 0.08 * unit:  # shorter than an arrow head
            axes.plot(one["x"], one["y"], "o", color=_COLOURS[one["name"]], markersize=4)
            continue
        style = {"arrowstyle": "-|>", "color": _COLOURS[one["name"]], "shrinkA": 0, "shrinkB": 0, "linewidth": 1.6}
        if one["name"] == "sum":
            style["linestyle"] = ":"
        axes.annotate("", (one["x"], one["y"]), (0, 0), arrowprops=style)
    axes.axhline(0, color=GREY, linewidth=0.5, zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.5, zorder=0)
    left, right, bottom, top = (unit * end for end in window)
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])
