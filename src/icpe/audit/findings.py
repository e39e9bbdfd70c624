"""What an audit found, as numbers and as sentences."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from icpe.data.interactions import Interactions
from icpe.data.item_info import item_column
from icpe.metrics.bias import Interval
from icpe.metrics.bias.concentration import lorenz_curve
from icpe.metrics.exposure import exposure
from icpe.metrics.given import GivenLists, head_among
from icpe.metrics.groups import GroupExposure, exposure_by_group
from icpe.ranking import Lists
from icpe.tables import percent
from icpe.types import FloatArray, IntArray


@dataclass(frozen=True)
class ItemShare:
    """How much of the log and of the list positions an item has.

    Attributes:
        name: Name of the item, or its id.
        niche: Whether it is a niche item.
        of_log: Share of the interactions of the log.
        of_lists: Share of the list positions.
    """

    name: str
    niche: bool
    of_log: float
    of_lists: float


@dataclass(frozen=True, eq=False)
class AuditedLists:
    """One set of recommendations and its metrics.

    Attributes:
        label: Name of the set.
        given: The lists as they were read.
        lists: Their first n positions.
        values: Metrics by name; None when nothing could be averaged. Exposure metrics are over all lists, accuracy
            metrics are over ``users``: the users who have a list and test items.
        seen: Number of positions with an item that the user already has in the log.
        intervals: Bounds of a 95 % bootstrap interval over users, by name of the metric.
        group_sizes: Number of lists of niche, mixed and blockbuster users, by name of the group.
    """

    label: str
    given: GivenLists
    lists: Lists
    values: dict[str, float | None]
    seen: int
    intervals: dict[str, Interval]
    group_sizes: dict[str, int]

    @cached_property
    def shown(self) -> IntArray:
        """Number of lists that contain each item, int64 [items]. Items of the log come first, then unknown items."""
        return exposure(self.lists.items, len(self.given.items))

    @cached_property
    def lorenz(self) -> FloatArray:
        """Share of the positions on the least shown 0, 1, …, 100 % of the items, float64 [101]."""
        return lorenz_curve(self.shown)

    @property
    def places(self) -> int:
        """Number of filled positions in all lists."""
        return int(self.shown.sum())

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of rows, lists and positions, and how many of them are unusual."""
        users, items = self.given.known
        return {
            "rows": self.given.rows,
            "duplicates": self.given.duplicates,
            "ties": self.given.ties,
            "lists": len(self.lists),
            "places": self.places,
            "short_lists": int((self.lists.items[:, -1] < 0).sum()),
            "unknown_users": int((self.lists.users >= users).sum()),
            "users_without_list": users - int((self.lists.users < users).sum()),
            "unknown_items": int(np.count_nonzero(self.shown[items:])),
            "places_on_unknown_items": int(self.shown[items:].sum()),
            "places_on_used_items": self.seen,
        }

    @property
    def notes(self) -> list[str]:
        """The counts in sentences, without those that are as expected."""
        found, n = self.counts, self.lists.items.shape[1]
        unknown = percent(found["places_on_unknown_items"] / self.places)
        sentences = {
            "ties": f"Rows with the same rank or score as the row before: {found['ties']:,}; they keep their order.",
            "duplicates": f"Rows that repeat an item of their list: {found['duplicates']:,}; the highest one counts.",
            "unknown_items": (
                f"{unknown} of the list positions show items that are not in the log (number of these items: "
                f"{found['unknown_items']:,}); they count as niche."
            ),
            "unknown_users": (
                f"Users with a list who are not in the log: {found['unknown_users']:,} of {len(self.lists):,}."
            ),
            "users_without_list": f"Users of the log without a list: {found['users_without_list']:,}.",
            "short_lists": f"Lists shorter than {n}: {found['short_lists']:,} of {len(self.lists):,}.",
        }
        used = f"{percent(self.seen / self.places)} of the list positions show items that the user has already used."
        return [self._order_note(), *(text for name, text in sentences.items() if found[name]), used]

    def _order_note(self) -> str:
        start = self.given.first_rank
        if self.given.order == "rank":
            return "Lists are ordered by rank" + (
                "." if start in (1, None) else f"; the ranks start at {start:g}, which is fine."
            )
        if self.given.order == "score":
            return "Lists are ordered by score, the largest first, because there are no ranks."
        return "Lists keep the order of the rows, because there are neither ranks nor scores."

    def share_changes(self, log: Interactions, count: int) -> tuple[list[ItemShare], list[ItemShare]]:
        """The items whose share of the list positions is furthest above and furthest below their share of the log.

        Args:
            log: The log of the audit.
            count: Largest number of items in each of the two lists.
        """
        size = len(self.given.items)
        of_log = np.pad(log.item_counts, (0, size - len(log.items))) / len(log)
        of_lists = self.shown / self.places
        niche = ~head_among(log, size)
        order = np.argsort(of_log - of_lists, kind="stable")
        above, below = order[:count], order[::-1][:count]

        def shares(items: IntArray) -> list[ItemShare]:
            names = log.item_names(self.given.items.gather(items))
            return [
                ItemShare(str(name), bool(niche[item]), float(of_log[item]), float(of_lists[item]))
                for item, name in zip(items.tolist(), names, strict=True)
            ]

        return shares(above[(of_lists > of_log)[above]]), shares(below[(of_lists < of_log)[below]])


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of :func:`icpe.audit.audit`.

    Attributes:
        log: What people had used when the lists were made.
        test: What people wanted later, without the pairs of the log; None if no test part was given.
        n: Length at which the lists are judged.
        sets: The sets of recommendations. All others are compared with the first.
        remarks: Sentences about the list length and the test part.
    """

    log: Interactions
    test: Interactions | None
    n: int
    sets: list[AuditedLists]
    remarks: list[str]

    def exposure_by(self, column: str) -> list[GroupExposure]:
        """Exposure of the groups of items with the same value in a column, such as a category.

        Args:
            column: Name of a column of the items' information.

        Raises:
            ConfigError: There is no such column.
        """
        values = item_column(self.log.item_info, column)
        return exposure_by_group(values, self.log.item_counts, [one.shown for one in self.sets])

    @property
    def values(self) -> dict[str, dict[str, float | None]]:
        """Metrics of each set by its label."""
        return {one.label: one.values for one in self.sets}
