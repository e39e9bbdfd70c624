"""Figures of fronts: accuracy against exposure, along the settings of the dial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from icpe.compare.names import BASELINES
from icpe.recommender.front import MEASURES, Front
from icpe.report.figures.canvas import SIZE, panels
from icpe.report.figures.labels import label_points
from icpe.report.figures.style import GREY, NICHE, Style, method_styles
from icpe.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

View = Literal["places", "balanced"]
_AXES: dict[View, tuple[str, str]] = {"places": ("apt", "ndcg"), "balanced": ("coverage", "balanced_ndcg")}
_ACROSS = {"apt": "places for niche items, in percent", "coverage": "items in some list, in percent"}
_UP = {"ndcg": "NDCG@{n} on test", "balanced_ndcg": "balanced NDCG@{n} on test"}
CAPTIONS = (  # of the two views
    "Each curve shows one trained model at every setting of its dial, on the test part. The large point is the setting "
    "that was chosen on the validation part. Up and right is better.",
    "The same settings. Balanced NDCG counts a hit on a rarely used item as much as a hit on a popular one, and across "
    "is the share of all items that are in some list.",
)
MEAN_CAPTIONS = (
    "Each curve shows one method at every setting of its dial, on the test part: the mean over seeds, as far as all "
    "seeds reach. The large point is the mean of the settings that were chosen on the validation part. Up and right is "
    "better.",
    CAPTIONS[1],
)
_LARGE = (4.8, 3.8)
_PANEL, _LEGEND = (3.3, 2.6), 0.5  # inches: a panel of several, and the height of their legend
_ROOM = 1.18  # height of the axes relative to the highest point, so that names fit above the curves
_STEPS = 80  # points of a mean curve


@dataclass(frozen=True, eq=False)
class Curve:
    """A front to draw.

    Attributes:
        label: Name next to the chosen point.
        style: Colour, marker and line style.
        values: Each measure by name, float64 [points], along the curve.
        chosen: Each measure at the chosen setting.
        n: Length of the lists.
        thin: Whether the curve is only for comparison.
    """

    label: str
    style: Style
    values: dict[str, FloatArray]
    chosen: dict[str, float]
    n: int
    thin: bool = False


def curve_of(label: str, style: Style, front: Front, beta: float, thin: bool = False) -> Curve:
    """The curve of one front, with the point at the setting ``beta``."""
    return Curve(label, style, {name: front[name] for name in MEASURES}, front.at(beta), front.n, thin)


def mean_curves(fronts: pl.DataFrame, backbone: str) -> list[Curve]:
    """The mean curve over seeds of every method on a backbone.

    The curves of the seeds are read at the same niche shares, as far as all seeds reach, and averaged there. The
    baselines are left out, because they have nothing to choose.

    Args:
        fronts: Frame as ``Grid.fronts`` returns it.
        backbone: Name of the backbone.
    """
    here = fronts.filter((pl.col("backbone") == backbone) & ~pl.col("method").is_in(BASELINES))
    labels = here.select("label", "method").unique(maintain_order=True)
    styles = method_styles(labels["method"].to_list())
    found = []
    for style, (label, method) in zip(styles, labels.iter_rows(), strict=True):
        tables = here.filter(label=label).partition_by("seed", maintain_order=True)
        seeds = [table.sort("apt") for table in tables]
        low, high = max(one["apt"].min() for one in seeds), min(one["apt"].max() for one in seeds)  # type: ignore[type-var]
        shares = np.linspace(low, high, _STEPS) if low <= high else np.zeros(0)  # type: ignore[arg-type,operator]
        mean = {
            name: np.mean([np.interp(shares, one["apt"].to_numpy(), one[name].to_numpy()) for one in seeds], axis=0)
            for name in MEASURES
        }
        points = [Front.from_frame(table).at(table["chosen"][0]) for table in tables]
        chosen = {name: float(np.mean([point[name] for point in points])) for name in MEASURES}
        found.append(Curve(label, style, mean, chosen, int(tables[0]["n"][0]), thin=method == "normal"))
    return found


def front_curves(curves: Sequence[Curve], view: View = "places") -> "Figure":
    """Curves of accuracy against exposure; the large points are the chosen settings.

    Args:
        curves: What to draw.
        view: ``places`` for NDCG against the share of places for niche items, ``balanced`` for NDCG with all items
            counted alike against the share of items that are in some list.
    """
    across, up = _AXES[view]
    figure, (axes,) = panels(1, _LARGE)
    _draw(axes, curves, view)
    axes.set(xlabel=_ACROSS[across], ylabel=_UP[up].format(n=curves[0].n))
    highest = max(max([*curve.values[up], curve.chosen[up]]) for curve in curves)
    axes.set_ylim(0, _ROOM * highest or 1.0)
    points = np.array([[100 * curve.chosen[across], curve.chosen[up]] for curve in curves])
    label_points(axes, points, [curve.label for curve in curves], _pieces(curves, across, up))
    return figure


def front_panels(groups: Mapping[str, Sequence[Curve]], columns: int = 3) -> "Figure":
    """NDCG against niche share for several data sets at a glance: one panel for each, one legend for all.

    Args:
        groups: The curves of each panel, by its title. Methods with the same label share a line of the legend.
        columns: Largest number of panels side by side.
    """
    columns = min(columns, len(groups))
    rows = -(-len(groups) // columns)
    figure, made = panels(len(groups), (_PANEL[0] * columns, _PANEL[1] * rows + _LEGEND), columns)
    lines: dict[str, Any] = {}
    for place, (axes, (title, curves)) in enumerate(zip(made, groups.items(), strict=True)):
        _draw(axes, curves, "places")
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.set_title(title, loc="left", fontsize=10)
        for curve in curves:
            style = curve.style
            looks = {"color": style.colour, "marker": style.marker, "linestyle": style.dashes}
            lines.setdefault(curve.label, axes.plot([], [], **looks)[0])
        if place % columns == 0:
            axes.set_ylabel(_UP["ndcg"].format(n=curves[0].n))
        if place >= len(groups) - columns:
            axes.set_xlabel(_ACROSS["apt"])
    figure.legend(
        lines.values(), lines.keys(), loc="outside upper center", frameon=False, ncols=columns + 1, fontsize=9.5
    )
    return figure


def _draw(axes: Any, curves: Sequence[Curve], view: View) -> None:
    """Draw curves and their chosen points."""
    across, up = _AXES[view]
    for curve in curves:
        style, width = curve.style, 1.0 if curve.thin else 2.2
        x, y = 100 * curve.values[across], curve.values[up]
        axes.plot(x, y, style.dashes, color=style.colour, linewidth=width, alpha=0.9)
        size = 15 if style.marker == "*" else 9  # stars look smaller than other markers of the same size
        # A point on an axis is not cut off.
        here = (100 * curve.chosen[across], curve.chosen[up])
        axes.plot(*here, style.marker, color=style.colour, markersize=size, clip_on=False, zorder=3)
    axes.margins(0.04)
    axes.set_xlim(left=0)


def _pieces(curves: Sequence[Curve], across: str, up: str) -> FloatArray:
    """The pieces of all curves as boxes [pieces, 4], which names should not cover."""
    boxes: list[Any] = []
    for curve in curves:
        points = np.column_stack([100 * curve.values[across], curve.values[up]])
        ends = np.stack([points[:-1], points[1:]])
        boxes.append(np.hstack([ends.min(0), ends.max(0)]))
    return np.vstack(boxes)


def front_of_model(front: Front, chosen: float) -> "Figure":
    """NDCG against niche share at every setting of one model, with the chosen setting marked."""
    figure, (axes,) = panels(1, SIZE)
    share = 100 * front["apt"]
    axes.plot(share, front["ndcg"], ".-", color=NICHE, linewidth=2, label="validation part as it is")
    axes.plot(share, front["balanced_ndcg"], "--", color=GREY, linewidth=1.5, label="all items counted alike")
    here = front.at(chosen)
    axes.plot(100 * here["apt"], here["ndcg"], "o", color=NICHE, markersize=10, zorder=3)
    axes.annotate(
        f"beta {chosen:g}", (100 * here["apt"], here["ndcg"]), xytext=(8, 8), textcoords="offset points", color=NICHE
    )
    axes.set(xlabel="places for niche items, in percent", ylabel=f"NDCG@{front.n} on validation")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize="small")
    return figure
