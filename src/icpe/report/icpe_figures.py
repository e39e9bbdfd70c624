"""What happens inside ICPE: clusters, their gradients, their weights."""

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.report.exposure_figures import SIZE
from icpe.report.figures import GREY, HEAD, NICHE, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Diagnostics = list[dict[str, Any]]
_WARM_TO_COLD = (HEAD, "#E69F00", "#009E73", NICHE)  # from the most popular cluster to the least
_MOST_NUMBERS = 10  # clusters up to which a cell of the matrix has room for its number


def cosines(noted: dict[str, Any]) -> "Figure":
    """Cosines between the clusters' gradients as a heat map with numbers; below zero they are in conflict."""
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
    """Items of each cluster, with the mean number of interactions of one above the bar."""
    axes, figure = _bars(noted["size"], [f"{value:,.1f}" for value in noted["popularity"]])
    axes.set(ylabel="items")
    return figure


def gradient_norms(noted: dict[str, Any]) -> "Figure":
    """Length of each cluster's gradient: how hard it pulls at what all share."""
    axes, figure = _bars(noted["gradient_norm"], [f"{value:.2g}" for value in noted["gradient_norm"]])
    axes.set(ylabel="gradient norm")
    return figure


def weights(diagnostics: Diagnostics) -> "Figure":
    """Weight of each cluster over training."""
    figure, (axes,) = panels(1, SIZE)
    steps = [noted["step"] for noted in diagnostics]
    # Where items could not be told apart there are fewer clusters than elsewhere.
    lines = list(zip_longest(*(noted["weight"] for noted in diagnostics), fillvalue=np.nan))
    for number, (line, shade) in enumerate(zip(lines, _shades(len(lines)), strict=True), 1):
        axes.plot(steps, line, ".-", color=shade, linewidth=2, label=f"cluster {number}")
    axes.axhline(1, color=GREY, linestyle=":", linewidth=1)
    axes.set(xlabel="training steps", ylabel="weight")
    above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}  # lines may be anywhere below
    axes.legend(frameon=False, ncols=4, fontsize=9, columnspacing=1, handlelength=1.2, **above)
    return figure


def over_training(diagnostics: Diagnostics, name: str, label: str, neutral: float) -> "Figure":
    """One number over training, with a line where it would say nothing."""
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
