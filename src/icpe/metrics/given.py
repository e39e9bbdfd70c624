"""Recommendation lists from any source, translated to the codes of a log."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.ids import IdType, encode_ids
from icpe.data.interactions import Interactions
from icpe.data.lookup import positions
from icpe.data.popularity import head_mask
from icpe.data.readers import RECOMMENDATION, Columns, Table, parse_weights, read_table
from icpe.errors import DataError
from icpe.ranking import Lists
from icpe.types import BoolArray, IntArray

Order = Literal["rank", "score", "file"]


@dataclass(frozen=True, eq=False)
class GivenLists:
    """Recommendation lists from another system. Each item occurs once per list, the best item first.

    Users and items of the log keep their codes. Ids that are not in the log get the codes from ``len(log.users)`` and
    ``len(log.items)`` upwards, so that an unknown item occupies a position in its list like any other item.

    Attributes:
        source: name of the source in messages.
        users: user ids by code: the ids of the log, followed by unknown ids.
        items: item ids by code, in the same way.
        user: int32 [positions], user codes, ascending.
        item: int32 [positions], item codes, the best item of a user first.
        place: int32 [positions], position within the list, starting at 1.
        order: what determined the order: column ``rank``, column ``score``, or the order of the rows.
        rows: number of rows in the source.
        ties: number of rows with the same rank or score as the previous row of their list. They stay in file order.
        first_rank: smallest rank, or None without ranks.
        known: numbers of users and items in the log.
        content_hash: hash of ids and positions. Equal lists have equal hashes, whatever the file format.
    """

    source: str
    users: pl.Series
    items: pl.Series
    user: IntArray
    item: IntArray
    place: IntArray
    order: Order
    rows: int
    ties: int
    first_rank: float | None
    known: tuple[int, int]
    content_hash: str

    @property
    def duplicates(self) -> int:
        """Number of rows dropped because the item already occurs higher up in the list."""
        return self.rows - len(self.user)

    @cached_property
    def lengths(self) -> IntArray:
        """Number of items in each list, int64 [lists], in the order of user codes."""
        counts = np.bincount(self.user)
        return counts[counts > 0]

    def cut(self, n: int) -> Lists:
        """First n positions of every list, with -1 where a list is shorter."""
        chosen = self.place <= n
        users, row = np.unique(self.user[chosen], return_inverse=True)
        items = np.full((len(users), n), -1, np.int32)
        items[row, self.place[chosen] - 1] = self.item[chosen]
        scores = np.where(items >= 0, -np.arange(1, n + 1, dtype=np.float32), -np.inf)
        return Lists(users.astype(np.int32), items, scores.astype(np.float32))


def read_lists(
    source: Any, log: Interactions, columns: Columns | None = None, *, ids: IdType = "auto", header: bool = True
) -> GivenLists:
    """Read recommendations from a file or a frame and translate them to the codes of a log.

    Lists are sorted by ``rank``, smallest first. Without ranks they are sorted by ``score``, largest first, and without
    scores they keep the order of the rows. Equal ranks or scores keep the order of the rows. Ranks may start at any
    number and have gaps: they only define an order, and positions are counted from 1. If a pair of user and item occurs
    several times, only the highest position counts.

    Args:
        source: a path (Parquet, CSV, TSV, …), or a polars, pandas or Arrow frame, with the columns
            ``user_id, item_id`` and optionally ``rank`` or ``score``.
        log: log that defines the codes of users and items.
        columns: our column name → its name (or position) in the source, where they differ.
        ids: ``"text"`` or ``"int"`` to force the type of ids instead of detecting it.
        header: whether the first row of a text file contains the column names.

    Raises:
        DataError: the source cannot be read, its ids have another type than those of the log, or no item is in the log.

    Example:
        >>> log = Interactions.read(pl.DataFrame({"user_id": ["ann", "bob"], "item_id": ["ham", "jam"]}))
        >>> frame = pl.DataFrame({"user_id": ["bob", "bob"], "item_id": ["egg", "ham"], "score": [0.1, 0.7]})
        >>> lists = read_lists(frame, log)
        >>> lists.items.gather(lists.item).to_list(), lists.cut(3).items.tolist()
        (['ham', 'egg'], [[0, 2, -1]])
    """
    table = read_table(source, columns, header=header, expected=RECOMMENDATION)
    if len(table) == 0:
        raise DataError(f"{table.source} has no rows, only a header; expected one row per recommended item")
    users, user = _encode(table, col.USER, log.users, log.reading.source, ids)
    items, item = _encode(table, col.ITEM, log.items, log.reading.source, ids)
    order, keys = _order(table)
    rows = np.lexsort((keys, user))  # stable: rows with equal keys keep the order of the file
    user, item, keys = user[rows], item[rows], keys[rows]
    ties = int(((user[1:] == user[:-1]) & (keys[1:] == keys[:-1])).sum()) if order != "file" else 0
    first = np.sort(np.unique(user.astype(np.int64) * len(items) + item, return_index=True)[1])
    user, item = user[first], item[first]
    place = _places(user)
    own = Interactions.from_codes(users, items, user, item, weight=place.astype(np.float64))
    all_users, all_items = _append_missing(log.users, users), _append_missing(log.items, items)
    user, item = positions(users, all_users)[user], positions(items, all_items)[item]
    if item.min() >= len(log.items):
        raise DataError(
            f"no item of {table.source} is in {log.reading.source} (such as {items[0]!r} and {log.items[0]!r}); "
            "expected the same item ids in lists and log"
        )
    by_user = np.argsort(user, kind="stable")
    return GivenLists(
        source=table.source,
        users=all_users,
        items=all_items,
        user=user[by_user],
        item=item[by_user],
        place=place[by_user],
        order=order,
        rows=len(table),
        ties=ties,
        first_rank=float(keys.min()) if order == "rank" else None,
        known=(len(log.users), len(log.items)),
        content_hash=own.content_hash,
    )


def head_among(log: Interactions, items: int) -> BoolArray:
    """Mask [items] of the head items of a log, extended to more items. Items that are not in the log are niche."""
    head = head_mask(log.item_counts)
    return np.concatenate([head, np.zeros(items - len(head), bool)])


def widened(part: Interactions, users: pl.Series, items: pl.Series) -> Interactions:
    """Pairs of a part in the codes of the given ids. Its own users and items that are not among them come last.

    Raises:
        DataError: the ids have different types.
    """
    for ours, known in ((part.users, users), (part.items, items)):
        _refuse_other_type(ours, part.reading.source, known, "the log")
    users, items = _append_missing(users, part.users), _append_missing(items, part.items)
    user, item = positions(part.users, users)[part.user], positions(part.items, items)[part.item]
    return Interactions.from_codes(users, items, user, item, source=part.reading.source)


def without_pairs_of(part: Interactions, log: Interactions) -> Interactions:
    """Pairs of a part that are not in the log. Both must use the same codes."""
    ours, theirs = (one.user.astype(np.int64) * len(part.items) + one.item for one in (part, log))
    place = np.searchsorted(theirs, ours)  # pairs are sorted by user and item, and so are their keys
    return part.keep(np.append(theirs, -1)[place] != ours)


def _encode(table: Table, column: str, known: pl.Series, source: str, ids: IdType) -> tuple[pl.Series, IntArray]:
    """Ids and one code per row. If the types of ids differ from the log, the error says how to align them."""
    if ids == "auto" and table.untyped and known.dtype == pl.String:
        ids = "text"  # everything in a text file is text, so "17" there is the log's "17"
    found, codes = encode_ids(table, column, ids)
    _refuse_other_type(found.alias(column), table.source, known, source)
    return found, codes


def _refuse_other_type(found: pl.Series, where: str, known: pl.Series, source: str) -> None:
    if found.dtype == known.dtype:
        return
    kinds = ["text" if one.dtype == pl.String else "integers" for one in (known, found)]
    raise DataError(
        f"{found.name!r} is {kinds[0]} in {source} (such as {known[0]!r}) and {kinds[1]} in {where} (such as "
        f"{found[0]!r}). If the ids are the same when read as text, pass ids='text' (command line: --ids text); "
        "otherwise convert one of the files"
    )


def _order(table: Table) -> tuple[Order, Any]:
    """Name of what orders the rows, and sort keys float64 [rows], smallest first."""
    if col.RANK in table.frame.columns:
        return "rank", parse_weights(table, col.RANK)
    if col.SCORE in table.frame.columns:
        return "score", -parse_weights(table, col.SCORE)
    return "file", np.zeros(len(table))


def _places(user: IntArray) -> IntArray:
    """Positions, starting at 1, within each run of equal users, int32 [rows]."""
    starts = np.flatnonzero(np.diff(user, prepend=-1))
    lengths = np.diff(np.append(starts, len(user)))
    return (np.arange(len(user)) - np.repeat(starts, lengths) + 1).astype(np.int32)


def _append_missing(known: pl.Series, others: pl.Series) -> pl.Series:
    """Known ids, followed by the other ids that are not among them."""
    missing = others.filter(pl.Series(positions(others, known) < 0))
    return pl.concat([known, missing.alias(known.name)]) if len(missing) else known
