"""What all figures share: empty axes, a legend that hides nothing, and files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.errors import ConfigError
from icpe.extras import require
from icpe.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
SIZE = (4.8, 3.3)  # inches; small enough that text stays readable on a phone


def panels(count: int, size: tuple[float, float] | None = None, columns: int | None = None) -> tuple["Figure", Any]:
    """A figure and its axes, side by side or in rows.

    Args:
        count: Number of axes.
        size: Width and height in inches.
        columns: Number of axes in a row. Default: all.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    inches = size or (5.2 * count if count > 1 else 8.0, 4.2)
    figure = require("matplotlib.figure", "plot", "a figure").Figure(figsize=inches, layout="constrained")
    across = columns or count
    places = [figure.add_subplot(-(-count // across), across, place + 1) for place in range(count)]
    made = np.array(places, dtype=object)
    for axes in made:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, made


def legend_above(axes: Any) -> None:
    """Add a legend above the axes, where it cannot hide a point or a line."""
    labels = axes.get_legend_handles_labels()[1]
    columns = max(1, min(3, 60 // (max(map(len, labels), default=0) + 6)))
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        frameon=False,
        fontsize=9,
        ncols=columns,
        columnspacing=1,
        handlelength=1.6,
    )


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure in the format of the suffix. The same figure gives the same bytes.

    Raises:
        ConfigError: The suffix is unknown.
    """
    check_suffix(path)
    import matplotlib as mpl

    metadata: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
    with mpl.rc_context({"svg.hashsalt": "icpe", "svg.fonttype": "none"}):
        write_atomically(path, lambda temporary: figure.savefig(temporary, metadata=metadata, dpi=150))


def check_suffix(path: Path) -> None:
    """Refuse a file name without a known suffix, before any work is done.

    Raises:
        ConfigError: The suffix is unknown.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path} is not a file name for a figure; it should end in {', '.join(SUFFIXES)}")
