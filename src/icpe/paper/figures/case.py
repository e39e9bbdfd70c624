"""Figures of the case study: two lists of one user, and the popularity of clusters."""

from typing import TYPE_CHECKING

import polars as pl

from icpe.paper.figures.panels import grid_of_panels
from icpe.report.figures import GREY, HEAD, NICHE, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def two_lists(found: pl.DataFrame) -> "Figure":
    """Lists of one user side by side. H marks head items, N niche items, and a star items of the test part."""
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
            panel.text(0.11, -place + 0.14, f"{_shortened(row['name'] or str(row['item_id']))}{star}", va="center")
            shared = f", shares {_shortened(row['shared_tags'], 34)}" if row["shared_tags"] else ""
            panel.text(
                0.11, -place - 0.24, f"{row['popularity']} interactions{shared}", va="center", fontsize=8, color=GREY
            )
        panel.set(xlim=(0, 1), ylim=(-4.7, 0.6))
        panel.set_title(label, loc="left")
        panel.axis("off")
    return figure


def cluster_popularity(sizes: pl.DataFrame) -> "Figure":
    """Mean number of interactions per item in each cluster, over seeds."""
    figure, (axes,) = panels(1, (4.8, 3.3))
    found = (
        sizes.group_by("cluster")
        .agg(pl.col("interactions").mean(), pl.col("interactions").std().alias("std"))
        .sort("cluster")
    )
    bars = axes.bar(found["cluster"], found["interactions"], yerr=found["std"].fill_null(0.0), color=NICHE, capsize=3)
    axes.bar_label(bars, [f"{one:.1f}" for one in found["interactions"]], padding=3)
    axes.set(xlabel="cluster, most popular first", ylabel="mean interactions per item")
    axes.set_xticks(found["cluster"].to_list())
    axes.margins(y=0.15)
    return figure


def _shortened(text: str, most: int = 28) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
