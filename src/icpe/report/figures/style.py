"""Colours, markers and line styles of all figures: the same method looks the same everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass

# From the palette of Okabe and Ito, which colour-blind readers can distinguish.
HEAD, NICHE, GREY = "#D55E00", "#0072B2", "#6b6b6b"
# Chosen as far apart as possible in OKLab, also from the three above, and readable on light and dark pages. The order
# gives methods that are often compared with each other the colours that differ most.
PALETTE = (
    "#CC79A7", "#009E73", "#3cc3ff", "#c3b400", "#2d4bd2", "#a53c1e", "#2d6900", "#8787ff", "#ff9669", "#a5b4a5",
    "#c34bc3", "#784bb4", "#e196ff", "#00d2c3", "#968700", "#0096f0", "#ff69c3", "#1ea500", "#a5a5e1", "#6996b4",
    "#785a00", "#a58778", "#ff6978", "#a52d78", "#d24b69", "#4bc369",
)  # fmt: skip
# Besides colours, for grey print and colour-blind readers; alike only where methods rarely meet in a figure.
_MARKERS = "o*sD^vP<>X" + "hpPvX8>^v^<><" + "dH>"
_DASHES = ("-", "-", "--", "-.", ":")
_FIRST = ("normal", "icpe", "in_batch", "logit_adjustment", "popdcl", "psl", "bsl", "resn", "paac", "popgo")


@dataclass(frozen=True)
class Style:
    """How a method, a run or a set of lists looks in figures.

    Attributes:
        colour: Colour in hexadecimal notation.
        marker: Marker of matplotlib.
        dashes: Line style of matplotlib.
    """

    colour: str
    marker: str
    dashes: str


def position_style(position: int) -> Style:
    """The style of the thing at this position of a figure, for things that are not methods."""
    return Style(PALETTE[position % len(PALETTE)], _MARKERS[position % len(_MARKERS)], _DASHES[position % len(_DASHES)])


def colour(position: int) -> str:
    """The colour at this position of the palette."""
    return position_style(position).colour


def method_styles(methods: Sequence[str]) -> list[Style]:
    """A style for each method of a figure: always the same for a built-in method, and none twice in a figure.

    Args:
        methods: Names of the methods. A name that occurs again, or that is not built in, gets a free style.

    Example:
        >>> method_styles(["dice", "cpr"]) == method_styles(["dice", "macr", "cpr"])[::2]
        True
    """
    from icpe.methods import METHODS  # late: figures of logs and audits do without the methods

    # Methods of plugins have no fixed place: there may be more of them than colours.
    built_in = [name for name, one in METHODS.items() if one.__module__.partition(".")[0] == "icpe"]
    known = [*_FIRST, *(name for name in built_in if name not in _FIRST)]
    reserved = {known.index(name) for name in methods if name in known}
    # Free are the colours of no built-in method, then those of built-in methods that this figure does not show.
    spare = [*range(len(known), len(PALETTE)), *(place for place in range(len(known)) if place not in reserved)]
    free = iter([*spare, *range(len(PALETTE), len(PALETTE) + len(methods))])
    taken: list[int] = []
    for name in methods:
        own = known.index(name) if name in known else None
        taken.append(next(free) if own is None or own in taken else own)
    return [position_style(position) for position in taken]
