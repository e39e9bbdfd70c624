"""Exposure of groups of items, such as categories or suppliers."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from icpe.types import IntArray

LARGEST = 12  # groups with their own row; a reader cannot take in more of them
UNKNOWN, NEW = "unknown", "not in the log"


@dataclass(frozen=True)
class GroupExposure:
    """How much of the catalogue, of the log and of the lists a group of items has.

    Attributes:
        name: the value that the items of the group have in common.
        items: number of items of the log.
        of_catalogue: share of the items of the log.
        of_log: share of the interactions.
        of_lists: share of the list positions, for each set of lists.
    """

    name: str
    items: int
    of_catalogue: float
    of_log: float
    of_lists: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float | None, ...]:
        """Share of the positions over share of the interactions, for each set; None for groups without interactions."""
        return tuple(share / self.of_log if self.of_log else None for share in self.of_lists)

    def as_dict(self, labels: Sequence[str]) -> dict[str, Any]:
        """Return plain values, with shares and ratios by the names of the sets."""
        by_set = {"of_lists": self.of_lists, "ratios": self.ratios}
        return {**asdict(self), **{name: dict(zip(labels, one, strict=True)) for name, one in by_set.items()}}


def exposure_by_group(
    values: pl.Series, counts: IntArray, shown: Sequence[IntArray], largest: int = LARGEST
) -> list[GroupExposure]:
    """Return the exposure of the groups of items with the same value, the one with the most interactions first.

    Args:
        values: the value of each item of the log; null if it is unknown.
        counts: int [items], number of interactions of each item.
        shown: for each set of lists, how many of them contain each item, int [items or more]. Items beyond those of
            the log form a group of their own.
        largest: number of groups with their own row. All smaller ones together are "others".

    Example:
        >>> values, counts = pl.Series(["tea", "tea", "ham"]), np.array([3, 3, 2])
        >>> [(one.name, one.of_log, one.of_lists) for one in exposure_by_group(values, counts, [np.array([1, 0, 3])])]
        [('tea', 0.75, (0.25,)), ('ham', 0.25, (0.75,))]
    """
    known = values.cast(pl.String).fill_null(UNKNOWN)
    names = known.unique().sort()
    codes = known.replace_strict(names, np.arange(len(names)), return_dtype=pl.Int64).to_numpy()
    by_log = np.bincount(codes, counts, len(names))
    order = np.lexsort((np.arange(len(names)), -by_log))
    labels = names.gather(order).to_list()
    if len(names) > largest:
        labels = [*labels[:largest], f"others ({len(names) - largest:,})"]
    place = np.empty(len(names), np.int64)
    place[order] = np.minimum(np.arange(len(names)), len(labels) - 1)
    group = place[codes]
    items, in_log = np.bincount(group, minlength=len(labels)), np.bincount(group, counts, len(labels))
    totals = [max(int(one.sum()), 1) for one in shown]
    lists = [np.bincount(group, one[: len(group)], len(labels)) / all_ for one, all_ in zip(shown, totals, strict=True)]
    found = [
        GroupExposure(
            label,
            int(items[at]),
            float(items[at] / len(group)),
            float(in_log[at] / max(counts.sum(), 1)),
            tuple(float(one[at]) for one in lists),
        )
        for at, label in enumerate(labels)
    ]
    new = tuple(float(one[len(group) :].sum() / all_) for one, all_ in zip(shown, totals, strict=True))
    return [*found, GroupExposure(NEW, 0, 0.0, 0.0, new)] if any(new) else found
