"""Figures of validations during training, for one run or several."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.report.figures.canvas import SIZE, legend_above, panels
from icpe.report.figures.style import Style, method_styles
from icpe.runs.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def head_against_niche(runs: Sequence[RunRecord]) -> "Figure":
    """Recall of head items against recall of niche items at each validation; the large point was kept."""
    figure, (axes,) = panels(1, SIZE)
    for style, run in zip(run_styles(runs), runs, strict=True):
        steps, head, niche = validation_values(run, "recall_head@20", "recall_niche@20")
        axes.plot(head, niche, ".-", color=style.colour, alpha=0.45, linewidth=1, markersize=4)
        axes.plot([], [], "o-", color=style.colour, label=run.label)
        best = steps == run.best_step
        axes.plot(head[best], niche[best], "o", color=style.colour, markersize=9)
    axes.set(xlabel="Recall@20 of head items", ylabel="Recall@20 of niche items")
    axes.locator_params(nbins=6)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    legend_above(axes)
    return figure


def validation_curve(runs: Sequence[RunRecord]) -> "Figure":
    """NDCG on the validation part during training; the state with the best value was kept."""
    figure, (axes,) = panels(1, SIZE)
    for style, run in zip(run_styles(runs), runs, strict=True):
        steps, ndcg = validation_values(run, "ndcg@20")
        axes.plot(steps, ndcg, color=style.colour, linewidth=2, label=run.label)
        best = steps == run.best_step
        axes.plot(steps[best], ndcg[best], "o", color=style.colour, markersize=8)
    axes.set(xlabel="training steps", ylabel="NDCG@20 on validation")
    axes.set_ylim(bottom=0)
    legend_above(axes)
    return figure


def run_styles(runs: Sequence[RunRecord]) -> list[Style]:
    """The styles of runs: those of their methods, none twice."""
    return method_styles([run.method for run in runs])


def validation_values(run: RunRecord, *names: str) -> list[Any]:
    """Steps and metrics of the validations, float64 [validations] each; NaN when there was nothing to average."""
    records = [record for record in run.curve if "valid" in record]
    steps = np.array([record["step"] for record in records], np.float64)
    return [steps, *(np.array([record["valid"].get(name) for record in records], np.float64) for name in names)]
