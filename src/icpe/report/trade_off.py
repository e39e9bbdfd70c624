"""What head items lose and niche items gain: methods as points, with error bars over seeds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from icpe.compare.tables import FLOORS, backbone_name, metric_name
from icpe.errors import DataError
from icpe.methods import METHODS
from icpe.report.exposure_figures import COLOURS
from icpe.report.figures import GREY, NICHE, panels
from icpe.report.labels import label_points

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (4.8, 3.8)
_MARKERS = "sD^vP<>XphHd"  # besides colours, for grey print and colour-blind readers


def trade_off_figure(
    results: pl.DataFrame, backbone: str, metric: Literal["recall", "ndcg"] = "recall", n: int | None = None
) -> "Figure":
    """A metric of head items against the same of niche items, a point per method: Figs. 5 and 6 of the paper.

    Args:
        results: a row per run, with ``label, backbone, method`` and metrics, as ``Grid.results`` has them.
        backbone: whose runs are drawn.
        metric: which.
        n: list length; the first the results have by default.

    Raises:
        DataError: there is no run of the backbone, or no such metric.
    """
    length = _length(results, f"{metric}_head") if n is None else n
    return scatter_figure(results, backbone, f"{metric}_head@{length}", f"{metric}_niche@{length}")


def scatter_figure(results: pl.DataFrame, backbone: str, across: str, up: str) -> "Figure":
    """Two metrics against each other, a point per method with the standard deviation over seeds as bars.

    ``popularity`` and ``random`` are left out: they stretch the axes until nothing else can be told apart.

    Raises:
        DataError: there is no run of the backbone, or no such metric.
    """
    missing = [name for name in (across, up) if name not in results.columns]
    if missing:
        raise DataError(f"the results have no column {missing[0]!r}; they have {', '.join(results.columns)}")
    runs = results.filter((pl.col("backbone") == backbone) & ~pl.col("method").is_in(FLOORS))
    found = (
        runs.group_by("label", "method", maintain_order=True)
        .agg(
            *(pl.col(name).mean().alias(f"mean {place}") for place, name in enumerate((across, up))),
            *(pl.col(name).std().fill_null(0).alias(f"std {place}") for place, name in enumerate((across, up))),
        )
        .drop_nulls()
    )
    if found.height == 0:
        known = ", ".join(map(repr, results["backbone"].unique(maintain_order=True))) or "none"
        raise DataError(f"there is no run on {backbone!r} to draw; the results have {known}")
    figure, (axes,) = panels(1, SIZE)
    points, spreads = (found.select(f"{what} 0", f"{what} 1").to_numpy() for what in ("mean", "std"))
    places = looks(found["method"].to_list())
    for method, place, point, spread in zip(found["method"], places, points, spreads, strict=True):
        marker, shade, size = {"icpe": ("*", NICHE, 15), "normal": ("o", GREY, 8)}.get(
            method, (_MARKERS[place % len(_MARKERS)], COLOURS[place % len(COLOURS)], 7)
        )
        bars = {"xerr": spread[0], "yerr": spread[1]} if spread.any() else {}
        axes.errorbar(*point, **bars, fmt=marker, color=shade, markersize=size, elinewidth=1, capsize=2, alpha=0.9)
    axes.set(xlabel=metric_name(across), ylabel=metric_name(up))
    axes.set_title(backbone_name(backbone), loc="left")
    axes.margins(0.16)
    axes.locator_params(nbins=6)
    zero = np.zeros_like(spreads[:, :1])
    across_bars = np.hstack([points - np.hstack([spreads[:, :1], zero]), points + np.hstack([spreads[:, :1], zero])])
    up_bars = np.hstack([points - np.hstack([zero, spreads[:, 1:]]), points + np.hstack([zero, spreads[:, 1:]])])
    label_points(axes, points, found["label"].to_list(), np.vstack([across_bars, up_bars]))
    return figure


def looks(methods: Sequence[str]) -> list[int]:
    """A number for each point's marker and colour: the same for a method in all figures, and in a figure none twice.

    Example:
        >>> looks(["dice", "cpr"]) == looks(["dice", "macr", "cpr"])[::2]
        True
    """
    known = [name for name in METHODS if name not in ("normal", "icpe")]
    taken: list[int] = []
    for name in methods:
        own = known.index(name) if name in known else len(known)
        taken.append(own if own not in taken else max(len(known), *(place + 1 for place in taken)))
    return taken


def _length(results: pl.DataFrame, metric: str) -> int:
    """The first list length the metric has."""
    lengths = [name.partition("@")[2] for name in results.columns if name.startswith(f"{metric}@")]
    if not lengths:
        raise DataError(f"the results have no {metric!r} at any length; they have {', '.join(results.columns)}")
    return int(lengths[0])
