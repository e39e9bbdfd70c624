"""Two metrics against each other, with one point per method and error bars over seeds."""

from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from icpe.compare.names import backbone_name, metric_name
from icpe.compare.tables import seed_statistics
from icpe.errors import DataError
from icpe.report.figures.canvas import panels
from icpe.report.figures.labels import label_points
from icpe.report.figures.style import method_styles
from icpe.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (4.8, 3.8)


def trade_off_figure(
    results: pl.DataFrame, backbone: str, metric: Literal["recall", "ndcg"] = "recall", n: int | None = None
) -> "Figure":
    """A metric of head items against the same metric of niche items, as in Figs. 5 and 6 of the paper.

    Args:
        results: One row per run, with ``label, backbone, method`` and metrics, as ``Grid.results`` has them.
        backbone: Name of the backbone whose runs are drawn.
        metric: Name of the metric without group and list length.
        n: List length; by default the first length that the results have.

    Raises:
        DataError: No run has the backbone, or the results do not have the metric.
    """
    length = _length(results, f"{metric}_head") if n is None else n
    return scatter_figure(results, backbone, f"{metric}_head@{length}", f"{metric}_niche@{length}")


def scatter_figure(results: pl.DataFrame, backbone: str, across: str, up: str) -> "Figure":
    """One metric against another, with a point per method and the standard deviation over seeds as bars.

    ``popularity`` and ``random`` are left out: they stretch the axes until the other points coincide.

    Args:
        results: One row per run, as ``Grid.results`` has them.
        backbone: Name of the backbone whose runs are drawn.
        across: Metric of the horizontal axis.
        up: Metric of the vertical axis.

    Raises:
        DataError: No run has the backbone, or the results do not have the metrics.
    """
    for name in (across, up):
        if name not in results.columns:
            raise DataError(f"the results have no column {name!r}; they have {', '.join(results.columns)}")
    found = seed_statistics(results, backbone, [across, up])
    if found.height == 0:
        known = ", ".join(map(repr, results["backbone"].unique(maintain_order=True))) or "none"
        raise DataError(f"the results have no run on {backbone!r} to draw; their backbones are {known}")
    figure, (axes,) = panels(1, SIZE)
    points = found.select(across, up).to_numpy()
    spreads = found.select(f"{across}_std", f"{up}_std").to_numpy()
    for style, point, spread in zip(method_styles(found["method"].to_list()), points, spreads, strict=True):
        bars = {"xerr": spread[0], "yerr": spread[1]} if spread.any() else {}
        size = 15 if style.marker == "*" else 8  # stars look smaller than other markers of the same size
        axes.errorbar(
            *point, **bars, fmt=style.marker, color=style.colour, markersize=size, elinewidth=1, capsize=2, alpha=0.9
        )
    axes.set(xlabel=metric_name(across), ylabel=metric_name(up))
    axes.set_title(backbone_name(backbone), loc="left")
    axes.margins(0.16)
    axes.locator_params(nbins=6)
    label_points(axes, points, found["label"].to_list(), _bars(points, spreads))
    return figure


def _bars(points: FloatArray, spreads: FloatArray) -> FloatArray:
    """The error bars as boxes [2 * points, 4] without area: first the horizontal ones, then the vertical ones."""
    boxes = [np.hstack([points - spreads * axis, points + spreads * axis]) for axis in ([1, 0], [0, 1])]
    return np.vstack(boxes)


def _length(results: pl.DataFrame, metric: str) -> int:
    """The first list length of the metric."""
    lengths = [name.partition("@")[2] for name in results.columns if name.startswith(f"{metric}@")]
    if not lengths:
        raise DataError(f"the results have no {metric!r} at any length; they have {', '.join(results.columns)}")
    return int(lengths[0])
