"""Figures of the paper that come from many runs: tables as dots, curves over a setting, weights, lists."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from icpe.report.figures import GREY, HEAD, NICHE, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {"recall": "Recall@20", "ndcg": "NDCG@20", "coverage": "Coverage@20", "apt": "APT@20"}
_BACKBONES = {"mf": "MF", "neumf": "NeuMF", "lightgcn": "LightGCN"}
_SHADES = (NICHE, HEAD, "#009E73", "#CC79A7")
_MARKS = ("o", "s", "^", "D")


def dots(found: pl.DataFrame, metrics: Sequence[str]) -> "Figure":
    """A row per method, a panel per metric and backbone; bars are the standard deviation over seeds."""
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
            panel.set_xlabel(named(metric))
            if down == 0:
                panel.set_title(_BACKBONES.get(backbone, backbone), loc="left")
    return figure


def curves(found: pl.DataFrame, name: str, usual: float) -> "Figure":
    """Overall and niche NDCG, Coverage and APT over the values of a setting."""
    metrics = ("ndcg@20", "ndcg_niche@20", "coverage@20", "apt@20")
    figure, axes = grid_of_panels(2, 2, (7.6, 2.4))
    values = sorted(found["value"].unique().to_list())
    for number, metric in enumerate(metrics):
        panel = axes[number // 2][number % 2]
        for place, variant in enumerate(found["variant"].unique(maintain_order=True).to_list()):
            rows = found.filter(variant=variant).sort("value")
            at = [values.index(one) for one in rows["value"]]
            spread = rows[f"{metric} std"].fill_null(0.0).to_numpy()
            style = {"color": _SHADES[place], "marker": _MARKS[place], "capsize": 2, "linewidth": 1.6}
            panel.errorbar(at, rows[metric].to_numpy(), yerr=spread, label=variant, **style)
        panel.axvline(values.index(usual) if usual in values else 0, color=GREY, linestyle=":", linewidth=1)
        panel.set_xticks(range(len(values)), [f"{one:g}" for one in values])
        panel.set(xlabel=name, ylabel=named(metric))
    if found["variant"].n_unique() > 1:
        axes[0][0].legend(frameon=False, fontsize=9)
    return figure


def parts_left_out(found: pl.DataFrame) -> "Figure":
    """Change of each metric against the whole, for each variant."""
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
            panel.bar(at, change, width, color=_SHADES[place], label=label.removeprefix(f"{whole} "))
        panel.axhline(0, color=GREY, linewidth=1)
        panel.set_xticks(
            range(len(metrics)), [named(one).replace("@20", "") for one in metrics], rotation=30, ha="right"
        )
        panel.set(ylabel="change in %" if down == 0 else "")
        panel.set_title(whole, loc="left")
    axes[0][0].legend(frameon=False, fontsize=9)
    return figure


def niche_weights(found: pl.DataFrame) -> "Figure":
    """Mean weight of niche items over training, a thin line per seed and a thick one for their mean."""
    figure, (axes,) = panels(1)
    for place, label in enumerate(found["label"].unique(maintain_order=True).to_list()):
        runs = found.filter(label=label)
        for _, run in runs.group_by("seed", maintain_order=True):
            axes.plot(run["step"], run["niche_weight"], color=_SHADES[place], linewidth=0.7, alpha=0.5)
        mean = runs.group_by("step").agg(pl.col("niche_weight").mean()).sort("step")
        axes.plot(
            mean["step"],
            mean["niche_weight"],
            color=_SHADES[place],
            marker=_MARKS[place],
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


def two_lists(found: pl.DataFrame) -> "Figure":
    """A user's lists side by side: H for head, N for niche, a star for what is in the test part."""
    labels = found["label"].unique(maintain_order=True).to_list()
    figure, axes = grid_of_panels(1, len(labels), (4.4 * len(labels), 2.9))
    for down, label in enumerate(labels):
        panel = axes[0][down]
        for place, row in enumerate(found.filter(label=label).iter_rows(named=True)):
            mark, shade = ("H", HEAD) if row["head"] else ("N", NICHE)
            panel.text(
                0.04,
                -place,
                mark,
                color="white",
                va="center",
                ha="center",
                fontweight="bold",
                bbox={"boxstyle": "circle,pad=0.25", "color": shade},
            )
            star = " ★" if row["in_test"] else ""
            panel.text(0.11, -place + 0.14, f"{_cut(row['name'] or str(row['item_id']))}{star}", va="center")
            shared = f", shares {_cut(row['shared_tags'], 34)}" if row["shared_tags"] else ""
            panel.text(
                0.11, -place - 0.24, f"{row['popularity']} interactions{shared}", va="center", fontsize=8, color=GREY
            )
        panel.set(xlim=(0, 1), ylim=(-4.7, 0.6))
        panel.set_title(label, loc="left")
        panel.axis("off")
    return figure


def cluster_popularity(sizes: pl.DataFrame) -> "Figure":
    """Mean interactions of an item in each cluster, over seeds."""
    figure, (axes,) = panels(1, (4.8, 3.3))
    found = (
        sizes.group_by("cluster")
        .agg(pl.col("interactions").mean(), pl.col("interactions").std().alias("std"))
        .sort("cluster")
    )
    bars = axes.bar(found["cluster"], found["interactions"], yerr=found["std"].fill_null(0.0), color=NICHE, capsize=3)
    axes.bar_label(bars, [f"{one:.1f}" for one in found["interactions"]], padding=3)
    axes.set(xlabel="cluster, most popular first", ylabel="mean interactions of an item")
    axes.set_xticks(found["cluster"].to_list())
    axes.margins(y=0.15)
    return figure


def named(metric: str) -> str:
    """A metric's name for people.

    Example:
        >>> named("ndcg_niche@20")
        'NDCG@20 of niche items'
    """
    kind, _, group = metric.removesuffix("@20").partition("_")
    return _NAMES[kind] + (f" of {group} items" if group else "")


def grid_of_panels(rows: int, columns: int, size: tuple[float, float]) -> tuple["Figure", Any]:
    """A figure with rows of axes; ``size`` is the width in all and the height of a row, in inches."""
    figure, _ = panels(1, (size[0], size[1] * rows))
    figure.clear()
    made = figure.subplots(rows, columns, squeeze=False)
    for axes in made.ravel():
        axes.spines[["top", "right"]].set_visible(False)
    return figure, made


def _cut(text: str, most: int = 28) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
