"""Figures of logs and splits, drawn with matplotlib (extra ``plot``)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.data.description import describe
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask, lorenz
from icpe.errors import ConfigError
from icpe.files import write_atomically
from icpe.split.parts import Parts
from icpe.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by colour-blind readers and in grey print.
HEAD, NICHE, GREY = "#D55E00", "#0072B2", "#6b6b6b"
SUFFIXES = (".png", ".svg", ".pdf")


def long_tail(log: Interactions) -> "Figure":
    """Left: interactions of every item, most popular first. Right: how much the most popular items take together."""
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
    right.annotate("all items alike", (70, 66), color=GREY)
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
    """Share of each part that falls on each tenth of the items, the most popular in training first."""
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
    axes.annotate("every item the same", (9.45, 10), (9.45, 11), color=HEAD, ha="right")
    axes.set(xlabel="tenths of the items, most popular first", ylabel="% of the part's interactions")
    axes.set_xticks(range(10), [f"{10 * tenth}–{10 * tenth + 10}" for tenth in range(10)], fontsize=8)
    axes.legend(frameon=False)
    settings = parts.recipe.get("mode")
    name = parts.recipe["split"] + (f" ({settings})" if settings else "")
    axes.set_title(f"Split {name}: where training and test interactions fall", loc="left")
    return figure


def shares_along(counts: IntArray, order: IntArray, pieces: int) -> FloatArray:
    """Share of ``counts`` [items] on the items from the first of ``order`` up to each of ``pieces`` borders.

    Returns:
        float64 [pieces + 1], from 0 to 1.

    Example:
        >>> shares_along(np.array([1, 6, 3, 0]), np.array([1, 2, 0, 3]), 2).tolist()
        [0.0, 0.9, 1.0]
    """
    curve = np.concatenate([[0], np.cumsum(counts[order])]) / max(counts.sum(), 1)
    return np.asarray(np.interp(np.linspace(0, len(order), pieces + 1), np.arange(len(curve)), curve))


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure by its suffix; the same figure gives the same bytes."""
    check_suffix(path)
    import matplotlib as mpl

    metadata: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
    with mpl.rc_context({"svg.hashsalt": "icpe", "svg.fonttype": "none"}):
        write_atomically(path, lambda temporary: figure.savefig(temporary, metadata=metadata, dpi=150))


def check_suffix(path: Path) -> None:
    """Refuse a name no figure can be written to, before any work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path} cannot be drawn: the name should end in {', '.join(SUFFIXES)}")


def panels(count: int, size: tuple[float, float] | None = None) -> tuple["Figure", Any]:
    """A figure with axes side by side, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("figures need matplotlib, which is not installed: pip install 'icpe[plot]'") from error
    figure = Figure(figsize=size or (5.2 * count if count > 1 else 8.0, 4.2), layout="constrained")
    made = np.atleast_1d(figure.subplots(1, count))
    for axes in made:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, made
