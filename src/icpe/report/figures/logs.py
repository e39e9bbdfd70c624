"""Figures of logs and splits."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from icpe.data.description import describe
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask, lorenz
from icpe.data.stored import StoredLog
from icpe.report.figures.canvas import panels
from icpe.report.figures.exposure import shares_along
from icpe.report.figures.style import GREY, HEAD, NICHE
from icpe.split.parts import Parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def long_tail(log: Interactions | StoredLog) -> "Figure":
    """Left: interactions of every item, most popular first. Right: share that the most popular items have together."""
    figure, (left, right) = panels(2)
    counts = np.sort(log.item_counts)[::-1]
    head = int(head_mask(log.item_counts).sum())
    ranks = np.arange(1, len(counts) + 1)
    figures = describe(log)
    for colour, label, part in ((HEAD, "head", slice(0, head)), (NICHE, "niche", slice(head, None))):
        left.fill_between(ranks[part], counts[part], step="mid", color=colour, alpha=0.85, linewidth=0)
        share = counts[part].sum() / counts.sum()
        left.plot([], [], color=colour, linewidth=6, label=f"{label}: {share:.0%} of interactions")
    left.set(xlabel="items, most popular first", ylabel="interactions", xlim=(1, len(counts)), ylim=(0, None))
    left.legend(frameon=False)
    left.set_title("The long tail", loc="left")

    curve = lorenz(log.item_counts)
    along = np.linspace(0, 100, len(curve))
    right.plot(along, 100 * curve, color=NICHE)
    right.plot([0, 100], [0, 100], color=GREY, linestyle=":", linewidth=1)
    right.annotate("all items equal", (70, 66), color=GREY)
    right.plot([20], [100 * figures.top20_share], "o", color=HEAD)
    right.annotate(
        f"top 20% of items:\n{figures.top20_share:.0%}",
        (20, 100 * figures.top20_share),
        (12, -24),
        textcoords="offset points",
        color=HEAD,
    )
    right.set(xlabel="% of items, most popular first", ylabel="% of interactions", xlim=(0, 100), ylim=(0, 101))
    right.set_title(f"Concentration, Gini {figures.gini:.2f}", loc="left")
    core = f", {figures.k_core}-core" if figures.k_core else ""
    figure.suptitle(
        f"{Path(figures.source).name}{core}: {figures.users:,} users, {figures.items:,} items, "
        f"{figures.interactions:,} interactions",
        x=0.01,
        ha="left",
    )
    return figure


def split_balance(parts: Parts) -> "Figure":
    """Share of each part on each tenth of the items, with the items most popular in training first."""
    figure, (axes,) = panels(1)
    order = np.argsort(-parts.train.item_counts, kind="stable")
    width = 0.38
    for shift, part, colour, label in (
        (-width / 2, parts.train, GREY, "train"),
        (width / 2, parts.test, NICHE, "test"),
    ):
        shares = np.diff(shares_along(part.item_counts, order, 10))
        axes.bar(np.arange(10) + shift, 100 * shares, width, color=colour, label=label)
    axes.axhline(10, color=HEAD, linestyle=":", linewidth=1.2)
    axes.annotate("all items equal", (9.45, 10), (9.45, 11), color=HEAD, ha="right")
    axes.set(xlabel="tenths of the items, most popular first", ylabel="% of the part's interactions")
    axes.set_xticks(range(10), [f"{10 * tenth}–{10 * tenth + 10}" for tenth in range(10)], fontsize=8)
    axes.legend(frameon=False)
    settings = parts.recipe.get("mode")
    name = parts.recipe["split"] + (f" ({settings})" if settings else "")
    axes.set_title(f"Split {name}: where training and test interactions fall", loc="left")
    return figure
