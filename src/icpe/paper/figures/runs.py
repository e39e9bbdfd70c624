"""Figures of many runs: tables as dots, curves over a setting, ablations, and weights over training."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from icpe.paper.figures.panels import MARKERS, SHADES, grid_of_panels, metric_name
from icpe.paper.reproduction import BACKBONES
from icpe.report.figures import GREY, NICHE, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def dots(found: pl.DataFrame, metrics: Sequence[str]) -> "Figure":
    """Metrics of each method as dots, one panel per backbone and metric. Bars are standard deviations over seeds."""
    backbones = found["backbone"].unique(maintain_order=True).to_list()
    labels = found["label"].unique(maintain_order=True).to_list()
    figure, axes = grid_of_panels(len(backbones), len(metrics), (3.6 * len(metrics) + 1, 0.32 * len(labels) + 1.1))
    for across, backbone in enumerate(backbones):
        rows = {row["label"]: row for row in found.filter(backbone=backbone).iter_rows(named=True)}
        for down, metric in enumerate(metrics):
            panel = axes[across][down]
            for place, label in enumerate(labels):
                if label not in rows:
                    continue
                ours = label.startswith("ICPE")
                spread = rows[label].get(f"{metric} std") or 0.0
                style = {"color": NICHE if ours else GREY, "fmt": "s" if ours else "o", "capsize": 2}
                panel.errorbar(rows[label][metric], place, xerr=spread, markersize=6, **style)
            panel.set_yticks(range(len(labels)), labels if down == 0 else [""] * len(labels))
            panel.invert_yaxis()
            panel.grid(axis="x", linewidth=0.4, alpha=0.5)
            panel.locator_params(axis="x", nbins=5)
            panel.set_xlabel(metric_name(metric))
            if down == 0:
                panel.set_title(BACKBONES.get(backbone, backbone), loc="left")
    return figure


def curves(found: pl.DataFrame, name: str, default: float) -> "Figure":
    """Overall and niche NDCG, Coverage and APT over the values of a setting, with a line at the default."""
    metrics = ("ndcg@20", "ndcg_niche@20", "coverage@20", "apt@20")
    figure, axes = grid_of_panels(2, 2, (7.6, 2.4))
    values = sorted(found["value"].unique().to_list())
    for number, metric in enumerate(metrics):
        panel = axes[number // 2][number % 2]
        for place, variant in enumerate(found["variant"].unique(maintain_order=True).to_list()):
            rows = found.filter(variant=variant).sort("value")
            at = [values.index(one) for one in rows["value"]]
            spread = rows[f"{metric} std"].fill_null(0.0).to_numpy()
            style = {"color": SHADES[place], "marker": MARKERS[place], "capsize": 2, "linewidth": 1.6}
            panel.errorbar(at, rows[metric].to_numpy(), yerr=spread, label=variant, **style)
        panel.axvline(values.index(default) if default in values else 0, color=GREY, linestyle=":", linewidth=1)
        panel.set_xticks(range(len(values)), [f"{one:g}" for one in values])
        panel.set(xlabel=name, ylabel=metric_name(metric))
    if found["variant"].n_unique() > 1:
        axes[0][0].legend(frameon=False, fontsize=9)
    return figure


def parts_left_out(found: pl.DataFrame) -> "Figure":
    """Relative change of each metric without a component of ICPE."""
    metrics = ("recall_niche@20", "ndcg_niche@20", "coverage@20", "apt@20", "recall@20", "ndcg@20")
    rows = {row["label"]: row for row in found.iter_rows(named=True)}
    wholes = [label for label in rows if "w/o" not in label]
    figure, axes = grid_of_panels(1, len(wholes), (4.6 * len(wholes), 3.6))
    for down, whole in enumerate(wholes):
        panel, variants = axes[0][down], [label for label in rows if label.startswith(f"{whole} w/o")]
        width = 0.8 / max(len(variants), 1)
        for place, label in enumerate(variants):
            change = [100 * (rows[label][one] / rows[whole][one] - 1) if rows[whole][one] else 0.0 for one in metrics]
            at = np.arange(len(metrics)) + (place + 0.5) * width - 0.4
            panel.bar(at, change, width, color=SHADES[place], label=label.removeprefix(f"{whole} "))
        panel.axhline(0, color=GREY, linewidth=1)
        panel.set_xticks(
            range(len(metrics)), [metric_name(one).replace("@20", "") for one in metrics], rotation=30, ha="right"
        )
        panel.set(ylabel="change in %" if down == 0 else "")
        panel.set_title(whole, loc="left")
    axes[0][0].legend(frameon=False, fontsize=9)
    return figure


def niche_weights(found: pl.DataFrame) -> "Figure":
    """Mean weight of niche items over training: a thin line per seed and a thick line for their mean."""
    figure, (axes,) = panels(1)
    for place, label in enumerate(found["label"].unique(maintain_order=True).to_list()):
        runs = found.filter(label=label)
        for _, run in runs.group_by("seed", maintain_order=True):
            axes.plot(run["step"], run["niche_weight"], color=SHADES[place], linewidth=0.7, alpha=0.5)
        mean = runs.group_by("step").agg(pl.col("niche_weight").mean()).sort("step")
        axes.plot(
            mean["step"],
            mean["niche_weight"],
            color=SHADES[place],
            marker=MARKERS[place],
            markevery=0.1,
            linewidth=2.2,
            label=label,
        )
    axes.axhspan(1.04, 1.12, color=GREY, alpha=0.18, linewidth=0)
    axes.annotate(
        "where the paper's curves end",
        (0.99, 1.08),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="center",
        color=GREY,
        fontsize=9,
    )
    axes.axhline(1, color=GREY, linestyle=":", linewidth=1)
    axes.set(xlabel="training steps", ylabel="mean weight of niche items")
    axes.legend(frameon=False)
    return figure
