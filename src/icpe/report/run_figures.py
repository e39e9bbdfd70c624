"""Figures of how training went, of one run or several."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.report.exposure_figures import SIZE, colour, legend
from icpe.report.figures import panels
from icpe.report.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    legend(axes)
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
    legend(axes)
    return figure


def validation(run: RunRecord, *names: str) -> list[Any]:
    """Steps and metrics of the validations, float64 [validations] each; NaN where there was nothing to average."""
    records = [record for record in run.curve if "valid" in record]
    steps = np.array([record["step"] for record in records], np.float64)
    return [steps, *(np.array([record["valid"].get(name) for record in records], np.float64) for name in names)]
