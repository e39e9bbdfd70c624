"""Figures of one run or several: what they show people, and how training went."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.report.figures import GREY, panels, shares_along
from icpe.report.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Told apart by colour-blind readers, and not the colours of head and niche items.
COLOURS = ("#CC79A7", "#009E73", "#E69F00", "#8C7AE6", "#A6761D", "#66A61E")
SIZE = (4.8, 3.3)  # inches; small enough that text stays readable on a phone


def colour(place: int) -> str:
    """Of the run at this place."""
    return COLOURS[place % len(COLOURS)]


def by_tenth(runs: Sequence[RunRecord]) -> "Figure":
    """Share of the list places on each tenth of the items, beside the share of the log."""
    figure, (axes,) = panels(1, SIZE)
    order = popularity_order(runs[0])
    counts = [("training log", GREY, runs[0].model.log.item_counts)]
    counts += [(run.label, colour(place), run.shown) for place, run in enumerate(runs)]
    width = 0.84 / len(counts)
    for place, (label, shade, shown) in enumerate(counts):
        shares = 100 * np.diff(shares_along(shown, order, 10))
        axes.bar(np.arange(10) + (place + 0.5) * width - 0.42, shares, width, color=shade, label=label)
    axes.axvline(1.5, color=GREY, linestyle=":", linewidth=1)
    top = axes.get_ylim()[1]
    axes.text(1.4, top, "head", ha="right", va="top", color=GREY)
    axes.text(1.6, top, "niche", ha="left", va="top", color=GREY)
    axes.set(xlabel="tenths of the items, most popular first", ylabel="% of list places")
    axes.set_xticks(range(10), [str(tenth) for tenth in range(1, 11)])
    _legend(axes, loc="center right")
    return figure


def cumulated(runs: Sequence[RunRecord]) -> "Figure":
    """How much of the lists the most popular items take together."""
    figure, (axes,) = panels(1, SIZE)
    order = popularity_order(runs[0])
    along = np.linspace(0, 100, 101)
    axes.plot([0, 100], [0, 100], color=GREY, linestyle=":", linewidth=1, label="all items alike")
    axes.plot(along, 100 * shares_along(runs[0].model.log.item_counts, order, 100), color=GREY, label="training log")
    for place, run in enumerate(runs):
        axes.plot(along, 100 * shares_along(run.shown, order, 100), color=colour(place), linewidth=2, label=run.label)
    axes.set(xlabel="% of items, most popular first", ylabel="% of list places", xlim=(0, 100), ylim=(0, 102))
    _legend(axes, loc="lower right")
    return figure


def trade_off(runs: Sequence[RunRecord]) -> "Figure":
    """Recall of head against niche items at each validation; the large point is the state that was kept."""
    figure, (axes,) = panels(1, SIZE)
    for place, run in enumerate(runs):
        steps, head, niche = validation(run, "recall_head@20", "recall_niche@20")
        axes.plot(head, niche, ".-", color=colour(place), alpha=0.45, linewidth=1, markersize=4)
        axes.plot([], [], "o-", color=colour(place), label=run.label)
        kept = steps == run.kept
        axes.plot(head[kept], niche[kept], "o", color=colour(place), markersize=9)
    axes.set(xlabel="Recall@20 of head items", ylabel="Recall@20 of niche items")
    axes.locator_params(nbins=6)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    _legend(axes)
    return figure


def progress(runs: Sequence[RunRecord]) -> "Figure":
    """NDCG over training, by which the state to keep is chosen."""
    figure, (axes,) = panels(1, SIZE)
    for place, run in enumerate(runs):
        steps, ndcg = validation(run, "ndcg@20")
        axes.plot(steps, ndcg, color=colour(place), linewidth=2, label=run.label)
        kept = steps == run.kept
        axes.plot(steps[kept], ndcg[kept], "o", color=colour(place), markersize=8)
    axes.set(xlabel="training steps", ylabel="NDCG@20 on validation")
    axes.set_ylim(bottom=0)
    _legend(axes)
    return figure


def _legend(axes: Any, loc: str = "best") -> None:
    """Inside the axes while there is room, above them where there are many runs."""
    labels = axes.get_legend_handles_labels()[1]
    columns = 2 if max(map(len, labels)) <= 20 else 1
    above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": columns, "fontsize": 9}
    axes.legend(frameon=False, **(above if len(labels) > 4 else {"loc": loc}))


def popularity_order(run: RunRecord) -> Any:
    """Item codes, most popular in training first, int64 [items]."""
    return np.argsort(-run.model.log.item_counts, kind="stable")


def validation(run: RunRecord, *names: str) -> list[Any]:
    """Steps and metrics of the validations, float64 [validations] each; NaN where there was nothing to average."""
    records = [record for record in run.curve if "valid" in record]
    steps = np.array([record["step"] for record in records], np.float64)
    return [steps, *(np.array([record["valid"].get(name) for record in records], np.float64) for name in names)]
