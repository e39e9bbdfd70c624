"""Reading and measuring recommendation lists from any source."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from icpe.audit.findings import Audit, AuditedLists
from icpe.data.ids import IdType
from icpe.data.interactions import Interactions
from icpe.data.readers import Columns
from icpe.data.sources import open_log
from icpe.errors import ConfigError, DataError
from icpe.metrics import evaluate_lists
from icpe.metrics.bias import measure_bias, per_list_values
from icpe.metrics.exposure import apt, exposure_values, novelty, popularity
from icpe.metrics.given import GivenLists, head_among, read_lists, widened, without_pairs_of
from icpe.metrics.hits import Hits
from icpe.ranking import Lists
from icpe.tables import percent
from icpe.types import BoolArray, FloatArray, IntArray

LENGTH = 20  # default length at which lists are judged; shorter if all lists are shorter
_EXPOSURE = ("coverage", "apt", "gini", "popularity", "novelty")  # measured over all lists, with or without test items


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
    """Measure how recommendations from any source treat head and niche items. Nothing is trained.

    Args:
        log: What people had used when the lists were made: :class:`Interactions`, a source that
            :meth:`Interactions.read` accepts, or the name of a data set of the catalogue.
        recs: Recommendations with ``user_id, item_id`` and ``rank`` or ``score``: a path, a frame of polars, pandas
            or Arrow, or several of them by name. All others are compared with the first.
        test: What people wanted later, as a log. Pairs that are in the log already are left out.
        n: Length at which lists are judged. The default is 20, or the length of the longest list if that is shorter.
        columns: Column names of the log and the test part: our name → the name in the file.
        recs_columns: The same for the recommendations. The key ``"old:rank"`` applies to the set ``old`` only.
        test_columns: The same for the test part, if it differs from the log.
        recs_header: Whether text files with recommendations begin with column names.
        ids: ``"text"`` or ``"int"`` to force the type of ids instead of detecting it.
        reading: Further options of :meth:`Interactions.read` for the log.

    Raises:
        DataError: A source cannot be read, or the sources do not fit together.
        ConfigError: ``n`` is below 1 or longer than all lists.

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
        raise ConfigError(
            "there are no recommendations to audit; pass at least one file or frame (command line: --recs FILE)"
        )
    mappings = _by_set(recs_columns or {}, list(named))
    sets = {name: read_lists(one, log, mappings[name], ids=ids, header=recs_header) for name, one in named.items()}
    longest = max(int(given.lengths.max()) for given in sets.values())
    length, remarks = _length(n, longest)
    wanted = None
    if test is not None:
        wanted, notes = _wanted(test, log, test_columns or _of_pairs(columns), ids)
        remarks += notes
    found = [_audited(name, given, log, wanted, length) for name, given in sets.items()]
    return Audit(log, wanted, length, found, remarks)


def _open(source: Any, **options: Any) -> Interactions:
    return open_log(source, **options) if isinstance(source, str | Path) else Interactions.read(source, **options)


def _name(recs: Any) -> str:
    return Path(recs).stem if isinstance(recs, str | Path) else "recs"


def _by_set(columns: Columns, names: Sequence[str]) -> dict[str, Columns]:
    """The column names of each set: those for all sets, updated with its own.

    Example:
        >>> _by_set({"user_id": "uid", "old:rank": "place"}, ["old", "new"])
        {'old': {'user_id': 'uid', 'rank': 'place'}, 'new': {'user_id': 'uid'}}
    """
    found: dict[str, dict[str, str | int]] = {name: {} for name in names}
    for key, theirs in sorted(columns.items(), key=lambda one: ":" in one[0]):
        name, colon, ours = key.rpartition(":")
        if colon and name not in found:
            known = ", ".join(map(repr, names))
            raise ConfigError(f"columns has the key {key!r}, but no set is called {name!r}; the sets are {known}")
        for one in [name] if colon else names:
            found[one][ours] = theirs
    return {**found}


def _of_pairs(columns: Columns | None) -> Columns | None:
    """The mapping of the id columns only: a test part needs no other columns."""
    return {ours: theirs for ours, theirs in (columns or {}).items() if ours.endswith("_id")} or None


def _length(n: int | None, longest: int) -> tuple[int, list[str]]:
    if n is None:
        length = min(LENGTH, longest)
        if length == LENGTH:
            return length, []
        return length, [f"Lists are judged at length {length}, because the longest list has {length} items."]
    if n < 1:
        raise ConfigError(f"n is {n}; expected a whole number of at least 1")
    if n > longest:
        raise ConfigError(f"n is {n}, but the longest list has {longest} items; expected at most {longest}")
    return n, []


def _wanted(test: Any, log: Interactions, columns: Columns | None, ids: IdType) -> tuple[Interactions, list[str]]:
    """The test part without the pairs of the log, and sentences about pairs left out and about unknown items."""
    part = test if isinstance(test, Interactions) else Interactions.read(test, columns, ids=ids, at_least=1)
    wide = widened(part, log.users, log.items)
    fresh = without_pairs_of(wide, replace(log, users=wide.users, items=wide.items, item_info=None))
    if len(fresh) == 0:
        raise DataError(
            f"every pair of {part.reading.source} is already in {log.reading.source}; the log should contain what "
            "people had used when the lists were made, without the test part"
        )
    remarks = []
    if len(fresh) < len(part):
        remarks.append(
            f"{len(part) - len(fresh):,} of {len(part):,} test pairs are already in the log and do not count."
        )
    cold = int((fresh.item >= len(log.items)).sum())
    if cold:
        share = percent(cold / len(fresh))
        remarks.append(f"{share} of the test pairs have items that are not in the log; they count as niche.")
    return fresh, remarks


def _audited(label: str, given: GivenLists, log: Interactions, test: Interactions | None, n: int) -> AuditedLists:
    lists, size = given.cut(n), len(given.items)
    counts = np.pad(log.item_counts, (0, size - len(log.items)))
    head = head_among(log, size)
    values: dict[str, float] = {**exposure_values(lists.items, counts, len(log.users), ~head, n)}
    values["users"] = len(lists)
    wide = replace(log, users=given.users, items=given.items, item_info=None)
    seen = len(Hits.find(lists.users, lists.items, wide).row)
    further = _exposure_per_list(lists, counts, len(log.users), head)
    wanted = None if test is None else widened(test, given.users, given.items)
    if wanted is not None:
        accuracy, per_list = _accuracy(lists, wanted, log, n)
        values, further = values | accuracy, further | per_list
    bias = measure_bias(lists, wide, head, wanted, further)
    known = {name: None if np.isnan(value) else value for name, value in (values | bias.values).items()}
    return AuditedLists(label, given, lists, known, seen, bias.intervals, bias.group_sizes)


def _exposure_per_list(lists: Lists, counts: IntArray, users: int, head: BoolArray) -> dict[str, FloatArray]:
    """Exposure metrics of each list, by name, each float64 [lists]."""
    n = lists.items.shape[1]
    length = np.array([n])
    found = {
        "apt": apt(lists.items, ~head, length),
        "popularity": popularity(lists.items, counts, length),
        "novelty": novelty(lists.items, counts, users, length),
    }
    return {f"{name}@{n}": column[:, 0] for name, column in found.items()}


def _accuracy(
    lists: Lists, test: Interactions, log: Interactions, n: int
) -> tuple[dict[str, float], dict[str, FloatArray]]:
    """Accuracy metrics, and those of each list."""
    train = replace(log, users=test.users, items=test.items, item_info=None)
    found = evaluate_lists(lists, test, train, [n], per_user=True, head=head_among(log, len(test.items)))
    values = {name: value for name, value in found.values.items() if not name.startswith(_EXPOSURE)}
    per_list = per_list_values(found, lists, test)
    return values, {name: column for name, column in per_list.items() if name in values}
