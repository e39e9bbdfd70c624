"""Diagnostics of ICPE: clusters, their gradients and their weights."""

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.report.figures.canvas import SIZE, legend_above, panels
from icpe.report.figures.style import GREY, HEAD, NICHE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Diagnostics = list[dict[str, Any]]
_WARM_TO_COLD = (HEAD, "#E69F00", "#009E73", NICHE)  # from the most popular cluster to the least
_MOST_NUMBERS = 10  # with more clusters, the numbers do not fit into the cells of the matrix


def cosines(noted: dict[str, Any]) -> "Figure":
    """Cosines between the gradients of the clusters as a heat map; clusters with a negative cosine are in conflict."""
    figure, (axes,) = panels(1, SIZE)
    matrix = np.array(noted["cosine"])
    axes.pcolormesh(matrix, cmap="RdBu", vmin=-1, vmax=1, edgecolors="none")
    if len(matrix) <= _MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(matrix):
            shade = "#ffffff" if abs(value) > 0.6 else "#000000"
            axes.text(column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", color=shade)
    names = [str(number) for number in range(1, len(matrix) + 1)]
    axes.set_xticks(np.arange(len(names)) + 0.5, names)
    axes.set_yticks(np.arange(len(names)) + 0.5, names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlabel="cluster, most popular first", ylabel="cluster", aspect="equal")
    axes.invert_yaxis()
    return figure


def sizes(noted: dict[str, Any]) -> "Figure":
    """Number of items of each cluster, with the mean number of interactions of its items above the bar."""
    axes, figure = _bars(noted["size"], [f"{value:,.1f}" for value in noted["popularity"]])
    axes.set(ylabel="items")
    return figure


def gradient_norms(noted: dict[str, Any]) -> "Figure":
    """Norm of each cluster's gradient with respect to the shared parameters."""
    axes, figure = _bars(noted["gradient_norm"], [f"{value:.2g}" for value in noted["gradient_norm"]])
    axes.set(ylabel="gradient norm")
    return figure


def weights(diagnostics: Diagnostics) -> "Figure":
    """Weight of each cluster during training."""
    figure, (axes,) = panels(1, SIZE)
    steps = [noted["step"] for noted in diagnostics]
    # The number of clusters can change: it is smaller when items are indistinguishable.
    lines = list(zip_longest(*(noted["weight"] for noted in diagnostics), fillvalue=np.nan))
    for number, (line, shade) in enumerate(zip(lines, _shades(len(lines)), strict=True), 1):
        axes.plot(steps, line, ".-", color=shade, linewidth=2, label=f"cluster {number}")
    axes.axhline(1, color=GREY, linestyle=":", linewidth=1)
    axes.set(xlabel="training steps", ylabel="weight")
    legend_above(axes)
    return figure


def over_training(diagnostics: Diagnostics, name: str, label: str, neutral: float) -> "Figure":
    """One diagnostic during training, with a line at its neutral value."""
    figure, (axes,) = panels(1, SIZE)
    values = np.array([noted.get(name) for noted in diagnostics], np.float64)
    axes.plot([noted["step"] for noted in diagnostics], values, ".-", color=NICHE, linewidth=2)
    axes.axhline(neutral, color=GREY, linestyle=":", linewidth=1)
    axes.set(xlabel="training steps", ylabel=label)
    return figure


def _bars(heights: list[float], notes: list[str]) -> tuple[Any, "Figure"]:
    figure, (axes,) = panels(1, SIZE)
    bars = axes.bar(range(1, len(heights) + 1), heights, color=_shades(len(heights)))
    axes.bar_label(bars, notes, padding=2)
    axes.set_xticks(range(1, len(heights) + 1))
    axes.set(xlabel="cluster, most popular first")
    axes.margins(y=0.12)
    return axes, figure


def _shades(count: int) -> list[str]:
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    if count == len(_WARM_TO_COLD):
        return list(_WARM_TO_COLD)
    scale = LinearSegmentedColormap.from_list("warm to cold", _WARM_TO_COLD)
    return [to_hex(scale(place)) for place in np.linspace(0, 1, count)]
