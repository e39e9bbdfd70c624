"""How biased recommendations are, wherever they came from: the figures of an audit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from icpe.data.datasets.open import open_log
from icpe.data.encode import IdType
from icpe.data.interactions import Interactions
from icpe.data.readers.table import Columns
from icpe.errors import ConfigError, DataError
from icpe.metrics import evaluate_lists
from icpe.metrics.exposure import exposure, exposure_values
from icpe.metrics.given import GivenLists, head_among, read_lists, widened, without_pairs_of
from icpe.metrics.hits import Hits
from icpe.ranking import Lists
from icpe.report.words import percent
from icpe.types import IntArray

LENGTH = 20  # of the lists, where they are long enough and nothing else is asked for
_NOT_ACCURACY = ("coverage", "apt", "gini", "popularity", "novelty")  # of all lists, not of those with test items


@dataclass(frozen=True, eq=False)
class AuditedLists:
    """One set of recommendations and what was found.

    Attributes:
        label: the name of the set.
        given: the lists as they came.
        lists: their first n places.
        values: metrics by name. Exposure is that of all lists; accuracy is over ``users``, those with a list and test
            items. None where there was nothing to average.
        seen: places with an item that the user has in the log already.
    """

    label: str
    given: GivenLists
    lists: Lists
    values: dict[str, float | None]
    seen: int

    @cached_property
    def shown(self) -> IntArray:
        """In how many lists each item is, int64 [items]: those of the log first, then the others."""
        return exposure(self.lists.items, len(self.given.items))

    @property
    def places(self) -> int:
        """Filled places of all lists."""
        return int(self.shown.sum())

    @property
    def counts(self) -> dict[str, int]:
        """What was met on the way: rows, lists, and how many of them are odd."""
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
        """The same in sentences, without what is as expected."""
        found, n = self.counts, self.lists.items.shape[1]
        unknown = found["places_on_unknown_items"] / self.places
        start = self.given.first_rank
        by = {
            "rank": "Lists are in order of rank"
            + ("" if start in (1, None) else f"; they start at {start:g}, which is fine"),
            "score": "Lists are in order of score, the largest first, for there are no ranks",
            "file": "Lists are in the order of the rows, for there are neither ranks nor scores",
        }
        said = [
            (True, f"{by[self.given.order]}."),
            (
                found["ties"],
                f"Rows that tie with the one before: {found['ties']:,}; they stay in the order of the rows.",
            ),
            (
                found["duplicates"],
                f"Rows that repeat an item of a list: {found['duplicates']:,}; the highest place counts.",
            ),
            (
                found["unknown_items"],
                f"{percent(unknown)} of the places are on items that are not in the log, {found['unknown_items']:,} in "
                "all; they count as niche.",
            ),
            (
                found["unknown_users"],
                f"Users who are not in the log: {found['unknown_users']:,} of {len(self.lists):,}.",
            ),
            (found["users_without_list"], f"Users of the log without a list: {found['users_without_list']:,}."),
            (found["short_lists"], f"Lists shorter than {n}: {found['short_lists']:,} of {len(self.lists):,}."),
            (True, f"{percent(self.seen / self.places)} of the places are things people already used."),
        ]
        return [sentence for odd, sentence in said if odd]


@dataclass(frozen=True, eq=False)
class Audit:
    """What :func:`audit` found.

    Attributes:
        log: what people used.
        test: what they turned out to want, without what the log has; None where it was not given.
        n: length of the lists that are judged.
        sets: the recommendations; the others are compared with the first.
        remarks: sentences about the length and the test part.
    """

    log: Interactions
    test: Interactions | None
    n: int
    sets: list[AuditedLists]
    remarks: list[str]

    @property
    def values(self) -> dict[str, dict[str, float | None]]:
        """Metrics by name of the set."""
        return {one.label: one.values for one in self.sets}

    def write(self, path: Path | str, users: Sequence[str] = (), command: str | None = None) -> Path:
        """Write the page; returns its path.

        Args:
            path: ending in .html.
            users: whose lists to show, as typed; by default three typical users.
            command: that makes the page again.

        Raises:
            DataError: a user has no list.
            ConfigError: matplotlib is not installed, or the name does not end in .html.
        """
        from icpe.report.audit_page import write_audit

        return write_audit(self, Path(path), users, command)


def audit(
    log: Any,
    recs: Any,
    test: Any = None,
    *,
    n: int | None = None,
    columns: Columns | None = None,
    recs_columns: Columns | None = None,
    test_columns: Columns | None = None,
    recs_header: bool = True,
    ids: IdType = "auto",
    **reading: Any,
) -> Audit:
    """Measure how recommendations from anywhere treat head and niche items; nothing is trained.

    Args:
        log: what people used when the lists were made: :class:`Interactions`, or whatever
            :meth:`Interactions.read` takes; a catalogue name too.
        recs: ``user_id, item_id[, rank|score]`` as a path or a frame of polars, pandas or Arrow; or several such sets
            by name, the others to be compared with the first.
        test: what people turned out to want later, as a log. Pairs that the log has already are left out.
        n: length of the lists to judge; 20 by default, or the longest list if that is shorter.
        columns: our name → the file's, for the log and the test part.
        recs_columns: the same for the recommendations; the key ``"old:rank"`` is of the set ``old`` alone.
        test_columns: the same for the test part, where it differs from the log.
        recs_header: whether text files of recommendations begin with names of columns.
        ids: ``"text"`` or ``"int"`` where the type of ids should not be found out.
        reading: further options of :meth:`Interactions.read` for the log.

    Raises:
        DataError: something cannot be read, or does not fit together.
        ConfigError: n is below 1 or longer than all lists.

    Example:
        >>> import polars as pl
        >>> log = pl.DataFrame({"user_id": [1, 1, 2, 3], "item_id": [10, 11, 10, 10]})
        >>> lists = pl.DataFrame({"user_id": [1, 2, 3], "item_id": [12, 11, 11]})
        >>> found = audit(log, lists).values["recs"]
        >>> found["apt@1"], round(found["coverage@1"], 2)
        (1.0, 0.67)
    """
    if not isinstance(log, Interactions):
        log = _open(log, columns=columns, ids=ids, **reading)
    named = dict(recs) if isinstance(recs, Mapping) else {_name(recs): recs}
    if not named:
        raise ConfigError("there are no recommendations to audit; give at least one file or frame")
    mappings = _by_set(recs_columns or {}, list(named))
    sets = {name: read_lists(one, log, mappings[name], ids=ids, header=recs_header) for name, one in named.items()}
    longest = max(int(given.lengths.max()) for given in sets.values())
    length, remarks = _length(n, longest)
    wanted = None
    if test is not None:
        wanted, told = _wanted(test, log, test_columns or _of_pairs(columns), ids)
        remarks += told
    found = [_audited(name, given, log, wanted, length) for name, given in sets.items()]
    return Audit(log, wanted, length, found, remarks)


def _open(source: Any, **options: Any) -> Interactions:
    return open_log(source, **options) if isinstance(source, str | Path) else Interactions.read(source, **options)


def _name(recs: Any) -> str:
    return Path(recs).stem if isinstance(recs, str | Path) else "recs"


def _by_set(columns: Columns, names: Sequence[str]) -> dict[str, Columns]:
    """The columns of each set: those of all sets, then its own.

    Example:
        >>> _by_set({"user_id": "uid", "old:rank": "place"}, ["old", "new"])
        {'old': {'user_id': 'uid', 'rank': 'place'}, 'new': {'user_id': 'uid'}}
    """
    found: dict[str, dict[str, str | int]] = {name: {} for name in names}
    for key, theirs in sorted(columns.items(), key=lambda one: ":" in one[0]):
        name, colon, ours = key.rpartition(":")
        if colon and name not in found:
            known = ", ".join(map(repr, names))
            raise ConfigError(f"columns has the key {key!r}, but no set is called {name!r}; there are {known}")
        for one in [name] if colon else names:
            found[one][ours] = theirs
    return {**found}


def _of_pairs(columns: Columns | None) -> Columns | None:
    """The mapping without what a test part need not have."""
    return {ours: theirs for ours, theirs in (columns or {}).items() if ours.endswith("_id")} or None


def _length(n: int | None, longest: int) -> tuple[int, list[str]]:
    if n is None:
        length = min(LENGTH, longest)
        said = "" if length == LENGTH else f"Lists are judged at length {length}, for the longest has no more items."
        return length, [said] if said else []
    if n < 1:
        raise ConfigError(f"n is {n}; expected a whole number from 1 up")
    if n > longest:
        raise ConfigError(f"n is {n}, but the longest list has {longest} items; choose n up to {longest}")
    return n, []


def _wanted(test: Any, log: Interactions, columns: Columns | None, ids: IdType) -> tuple[Interactions, list[str]]:
    """The test part without what the log has, and sentences about what was left out or cannot be hit."""
    part = test if isinstance(test, Interactions) else Interactions.read(test, columns, ids=ids, at_least=1)
    wide = widened(part, log.users, log.items)
    fresh = without_pairs_of(wide, replace(log, users=wide.users, items=wide.items, item_info=None))
    if len(fresh) == 0:
        raise DataError(
            f"every pair of {part.reading.source} is in {log.reading.source} already; the log should be what people "
            "had used when the lists were made, without the test part"
        )
    remarks = []
    if len(fresh) < len(part):
        remarks.append(
            f"{len(part) - len(fresh):,} of {len(part):,} test pairs are in the log already and do not count."
        )
    cold = int((fresh.item >= len(log.items)).sum())
    if cold:
        share = percent(cold / len(fresh))
        remarks.append(f"{share} of the test pairs are of items that are not in the log; they count as niche.")
    return fresh, remarks


def _audited(label: str, given: GivenLists, log: Interactions, test: Interactions | None, n: int) -> AuditedLists:
    lists, size = given.cut(n), len(given.items)
    counts = np.pad(log.item_counts, (0, size - len(log.items)))
    head = head_among(log, size)
    values: dict[str, float | None] = {**exposure_values(lists.items, counts, len(log.users), ~head, n)}
    values["users"] = len(lists)
    wide = replace(log, users=given.users, items=given.items, item_info=None)
    seen = len(Hits.find(lists.users, lists.items, wide).row)
    if test is not None:
        values |= _accuracy(lists, widened(test, given.users, given.items), log, n)
    return AuditedLists(label, given, lists, values, seen)


def _accuracy(lists: Lists, test: Interactions, log: Interactions, n: int) -> dict[str, float | None]:
    train = replace(log, users=test.users, items=test.items, item_info=None)
    found = evaluate_lists(lists, test, train, [n], head=head_among(log, len(test.items))).values
    chosen = {name: value for name, value in found.items() if not name.startswith(_NOT_ACCURACY)}
    return {name: None if np.isnan(value) else value for name, value in chosen.items()}
