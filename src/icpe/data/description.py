"""Description of a log: counts, density, time span and skew."""

import textwrap
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.data.popularity import decile_shares, gini, head_mask
from icpe.data.stored.log import StoredLog
from icpe.shown import shortened, visible
from icpe.types import IntArray

_NOTE, _BLANK = "  note          ", " " * 16  # what begins the lines of a note
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class Description:
    """The figures of one log, as ``icpe data describe`` prints them."""

    source: str
    users: int
    items: int
    interactions: int
    density: float
    rows_read: int
    duplicates: int
    below_min_weight: int
    ignored_columns: tuple[str, ...]
    k_core: int | None
    first: str | None
    last: str | None
    gini: float
    top20_share: float
    decile_shares: tuple[float, ...]
    item_quantiles: dict[str, float]
    user_quantiles: dict[str, float]
    content_hash: str

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        return asdict(self)

    def as_text(self) -> str:
        """The figures as text for the terminal, with bars that show the skew."""
        span = f"{self.first} … {self.last}" if self.first else "no timestamps"
        lines = [
            f"{self.source}" + (f", {self.k_core}-core" if self.k_core else ""),
            "",
            f"  users         {self.users:>12,}   interactions per user   {_quantile_text(self.user_quantiles)}",
            f"  items         {self.items:>12,}   interactions per item   {_quantile_text(self.item_quantiles)}",
            f"  interactions  {self.interactions:>12,}   density {self.density:.3%}",
            f"  time          {span}",
            *self._notes(),
            "",
            f"  The top 20% of items take {self.top20_share:.1%} of all interactions (Gini {self.gini:.3f}).",
            "",
            *_bars(self.decile_shares),
        ]
        return "\n".join(lines)

    def _notes(self) -> list[str]:
        notes = []
        if self.duplicates:
            notes.append(f"{self.duplicates:,} repeated pairs dropped; the earliest row of each pair is kept")
        if self.below_min_weight:
            notes.append(f"{self.below_min_weight:,} rows below min_weight dropped")
        if self.ignored_columns:
            notes.append(f"unused columns: {', '.join(shortened(visible(name)) for name in self.ignored_columns[:6])}")
        return [textwrap.fill(note, 80, initial_indent=_NOTE, subsequent_indent=_BLANK) for note in notes]


def describe(log: Interactions | StoredLog) -> Description:
    """The figures that describe a log.

    Example:
        >>> log = Interactions.read({"user_id": [1, 1, 2], "item_id": [10, 11, 10]})
        >>> figures = describe(log)
        >>> figures.users, figures.interactions, figures.density
        (2, 3, 0.75)
    """
    counts = log.item_counts
    return Description(
        source=log.reading.source,
        users=len(log.users),
        items=len(log.items),
        interactions=len(log),
        density=len(log) / (len(log.users) * len(log.items)),
        rows_read=log.reading.rows,
        duplicates=log.reading.duplicates,
        below_min_weight=log.reading.below_min_weight,
        ignored_columns=log.reading.ignored_columns,
        k_core=log.reading.k_core,
        first=None if log.time_span is None else _iso(log.time_span[0]),
        last=None if log.time_span is None else _iso(log.time_span[1]),
        gini=gini(counts),
        top20_share=float(counts[head_mask(counts)].sum() / len(log)),
        decile_shares=tuple(float(share) for share in decile_shares(counts)),
        item_quantiles=_quantiles(counts),
        user_quantiles=_quantiles(log.user_counts),
        content_hash=log.content_hash,
    )


def _quantiles(counts: IntArray) -> dict[str, float]:
    values = np.quantile(counts, _QUANTILES)
    return {f"{share:.0%}": float(value) for share, value in zip(_QUANTILES, values, strict=True)}


def _quantile_text(quantiles: dict[str, float]) -> str:
    return f"min {quantiles['0%']:g}, median {quantiles['50%']:g}, max {quantiles['100%']:g}"


def _iso(microseconds: int) -> str:
    return datetime.fromtimestamp(int(microseconds) // 10**6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bars(shares: tuple[float, ...], width: int = 40) -> list[str]:
    """One line per tenth of the items. Bars have a resolution of an eighth of a character."""
    lines = ["  items by popularity   share of interactions"]
    for tenth, share in enumerate(shares):
        eighths = round(share / max(shares) * width * 8)
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        mark = "head " if tenth < 2 else "niche"
        lines.append(f"  {tenth * 10:>3}–{tenth * 10 + 10:>3}%  {mark}     {bar or '▏'} {share:.1%}")
    return lines
