"""Lists of recommendations from anywhere, in the codes of a log."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.coding import positions
from icpe.data.encode import IdType, encode_ids
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.data.readers.read import read_table
from icpe.data.readers.table import RECOMMENDATION, Columns, Table
from icpe.data.readers.values import parse_weights
from icpe.errors import DataError
from icpe.ranking import Lists
from icpe.types import BoolArray, IntArray

Order = Literal["rank", "score", "file"]


@dataclass(frozen=True, eq=False)
class GivenLists:
    """Lists as somebody else made them, each item once, the best first.

    Users and items of the log have its codes. Those it does not know follow, with codes from ``len(log.users)`` and
    ``len(log.items)`` up, so that nothing is lost: an unknown item takes a place in a list as any other does.

    Attributes:
        source: the file, as messages call it.
        users: ids by code: those of the log, then the others.
        items: likewise.
        user: int32 [places], ascending.
        item: int32 [places], the best item of a user first.
        place: int32 [places], from 1 within each list.
        order: what put the items in order: column ``rank``, column ``score``, or the order in the file.
        rows: how many the source has.
        ties: how many rows have the rank or the score of the row before them in the list; they stay in file order.
        first_rank: the smallest rank; None where there are no ranks.
        known: numbers of users and items of the log.
        content_hash: of ids and places: equal for equal lists, whatever the file.
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
        """Rows dropped because the list has the item already, higher up."""
        return self.rows - len(self.user)

    @cached_property
    def lengths(self) -> IntArray:
        """Number of items of each list, int64 [lists], in the order of user codes."""
        counts = np.bincount(self.user)
        return counts[counts > 0]

    def cut(self, n: int) -> Lists:
        """The first n places of every list; -1 where a list is shorter."""
        chosen = self.place <= n
        users, row = np.unique(self.user[chosen], return_inverse=True)
        items = np.full((len(users), n), -1, np.int32)
        items[row, self.place[chosen] - 1] = self.item[chosen]
        scores = np.where(items >= 0, -np.arange(1, n + 1, dtype=np.float32), -np.inf)
        return Lists(users.astype(np.int32), items, scores.astype(np.float32))


def read_lists(
    source: Any, log: Interactions, columns: Columns | None = None, *, ids: IdType = "auto", header: bool = True
) -> GivenLists:
    """Read recommendations from a file or a frame and put them into the codes of a log.

    A list is in order of ``rank``, smallest first; without ranks in order of ``score``, largest first; without
    scores in the order of the rows. Equal ranks or scores stay in the order of the rows. Ranks may start anywhere and
    have gaps: they order, and places are counted from 1. Of several rows with the same user and item the one highest
    up counts.

    Args:
        source: a path (Parquet, CSV, TSV, …), or a frame of polars, pandas or Arrow, with ``user_id, item_id`` and
            ``rank`` or ``score`` if there are.
        log: what tells users and items.
        columns: our name → the name (or position) in the source, where they differ.
        ids: ``"text"`` or ``"int"`` where the type of ids should not be found out.
        header: whether a text file's first row names the columns.

    Raises:
        DataError: the source cannot be read, ids have another type than those of the log, or no item is in the log.

    Example:
        >>> log = Interactions.read(pl.DataFrame({"user_id": ["ann", "bob"], "item_id": ["ham", "jam"]}))
        >>> frame = pl.DataFrame({"user_id": ["bob", "bob"], "item_id": ["egg", "ham"], "score": [0.1, 0.7]})
        >>> lists = read_lists(frame, log)
        >>> lists.items.gather(lists.item).to_list(), lists.cut(3).items.tolist()
        (['ham', 'egg'], [[0, 2, -1]])
    """
    table = read_table(source, columns, header=header, wanted=RECOMMENDATION)
    if len(table) == 0:
        raise DataError(f"{table.source} has no rows, only a header; expected a row per recommended item")
    users, user = _encode(table, col.USER, log.users, log.reading.source, ids)
    items, item = _encode(table, col.ITEM, log.items, log.reading.source, ids)
    order, keys = _order(table)
    rows = np.lexsort((keys, user))  # stable: equal keys stay in file order
    user, item, keys = user[rows], item[rows], keys[rows]
    ties = int(((user[1:] == user[:-1]) & (keys[1:] == keys[:-1])).sum()) if order != "file" else 0
    fresh = np.sort(np.unique(user.astype(np.int64) * len(items) + item, return_index=True)[1])
    user, item = user[fresh], item[fresh]
    place = _places(user)
    own = Interactions.from_codes(users, items, user, item, weight=place.astype(np.float64))
    all_users, all_items = _and(log.users, users), _and(log.items, items)
    user, item = positions(users, all_users)[user], positions(items, all_items)[item]
    if item.min() >= len(log.items):
        raise DataError(
            f"no item of {table.source} is in {log.reading.source} (such as {items[0]!r} and {log.items[0]!r}); lists "
            "and log should name items by the same ids"
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
    """Mask [items] of the head of a log among more items than it has: those it does not know are niche."""
    head = head_mask(log.item_counts)
    return np.concatenate([head, np.zeros(items - len(head), bool)])


def widened(part: Interactions, users: pl.Series, items: pl.Series) -> Interactions:
    """The pairs of a part in the codes of these ids; its users and items that are not among them come last.

    Raises:
        DataError: ids have another type.
    """
    for ours, known in ((part.users, users), (part.items, items)):
        _refuse_other_type(ours, part.reading.source, known, "the log")
    users, items = _and(users, part.users), _and(items, part.items)
    user, item = positions(part.users, users)[part.user], positions(part.items, items)[part.item]
    return Interactions.from_codes(users, items, user, item, source=part.reading.source)


def without_pairs_of(part: Interactions, log: Interactions) -> Interactions:
    """The pairs of a part that the log does not hold; both know the same users and items."""
    ours, theirs = (one.user.astype(np.int64) * len(part.items) + one.item for one in (part, log))
    return part.keep(~np.isin(ours, theirs))


def _encode(table: Table, column: str, known: pl.Series, source: str, ids: IdType) -> tuple[pl.Series, IntArray]:
    """Ids and a code per row, or an error that says how to make the types agree."""
    if ids == "auto" and table.untyped and known.dtype == pl.String:
        ids = "text"  # what a text file has is text: "17" is the log's "17"
    found, codes = encode_ids(table, column, ids)
    _refuse_other_type(found.alias(column), table.source, known, source)
    return found, codes


def _refuse_other_type(found: pl.Series, where: str, known: pl.Series, source: str) -> None:
    if found.dtype == known.dtype:
        return
    kinds = ["text" if one.dtype == pl.String else "integers" for one in (known, found)]
    raise DataError(
        f"{found.name!r} is {kinds[0]} in {source} (such as {known[0]!r}) and {kinds[1]} in {where} (such as "
        f"{found[0]!r}). Read all files with ids='text' (command line: --ids text) if ids are the same when printed, "
        "else write them alike"
    )


def _order(table: Table) -> tuple[Order, Any]:
    """What orders the rows, and float64 [rows] that is smaller the higher up a row belongs."""
    if col.RANK in table.frame.columns:
        return "rank", parse_weights(table, col.RANK)
    if col.SCORE in table.frame.columns:
        return "score", -parse_weights(table, col.SCORE)
    return "file", np.zeros(len(table))


def _places(user: IntArray) -> IntArray:
    """Places from 1 within each run of equal users, int32 [rows]."""
    starts = np.flatnonzero(np.diff(user, prepend=-1))
    lengths = np.diff(np.append(starts, len(user)))
    return (np.arange(len(user)) - np.repeat(starts, lengths) + 1).astype(np.int32)


def _and(known: pl.Series, others: pl.Series) -> pl.Series:
    """The known ids, then the others that are not among them."""
    strangers = others.filter(pl.Series(positions(others, known) < 0))
    return pl.concat([known, strangers.alias(known.name)]) if len(strangers) else known
