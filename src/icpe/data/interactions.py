"""The log: distinct pairs of users and items in one canonical order."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.content_hash import content_hash
from icpe.data.ids import IdType, encode_ids
from icpe.data.item_info import align_item_info
from icpe.data.k_core import k_core_mask, largest_k
from icpe.data.lookup import IdIndex
from icpe.data.pair_order import in_order, order_pairs
from icpe.data.readers import Columns, Format, Table, TimeUnit, parse_times, parse_weights, read_table
from icpe.errors import ConfigError, DataError
from icpe.files import write_atomically
from icpe.spreadsheet import safe_frame
from icpe.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Reading:
    """What happened while a log was read.

    Attributes:
        source: the file or data set, as messages call it.
        rows: number of rows in the source.
        duplicates: number of rows dropped because the same pair occurred earlier.
        below_min_weight: number of rows dropped because of their weight.
        ignored_columns: columns of the source that are not used.
        k_core: the k of the k-core, or None if none was taken.
        removed_by_k_core: number of pairs outside the k-core.
    """

    source: str = "memory"
    rows: int = 0
    duplicates: int = 0
    below_min_weight: int = 0
    ignored_columns: tuple[str, ...] = ()
    k_core: int | None = None
    removed_by_k_core: int = 0


@dataclass(frozen=True, eq=False)
class Interactions:
    """Distinct pairs of users and items. Users and items have external ids and internal codes 0, 1, 2, ….

    Ids are sorted and pairs are ordered by user and item, so the same pairs give the same object regardless of the
    order of rows in the file. Create a log with :meth:`read` or :meth:`from_codes`.

    Attributes:
        users: external user ids; the id of code ``c`` is ``users[c]``.
        items: external item ids; the id of code ``c`` is ``items[c]``.
        user: int32 [pairs], user code of each pair.
        item: int32 [pairs], item code of each pair.
        timestamp: int64 [pairs], microseconds since 1970, or None.
        weight: float64 [pairs], or None.
        item_info: one row per item in code order: ``item_id``, and ``name`` and other columns if known; or None.
        reading: what was dropped while reading.
    """

    users: pl.Series
    items: pl.Series
    user: IntArray
    item: IntArray
    timestamp: IntArray | None = None
    weight: FloatArray | None = None
    item_info: pl.DataFrame | None = None
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def read(
        cls,
        source: Any,
        columns: Columns | None = None,
        *,
        min_weight: float | None = None,
        format: Format = "auto",
        header: bool = True,
        separator: str | None = None,
        ids: IdType = "auto",
        time_unit: TimeUnit = "auto",
        item_info: Any = None,
        item_columns: Columns | None = None,
        at_least: int = 2,
    ) -> Self:
        """The log in a file, a folder of Parquet files, several files, or a frame.

        Args:
            source: a path (Parquet, CSV, TSV, RecBole ``.inter``, LightGCN lists, HetRec ``.dat``; text may be
                ``.gz`` or ``.zst``), a list of paths that form one log, or a frame of polars, pandas or Arrow.
            columns: our name → the name (or position) in the source, for those of ``user_id``, ``item_id``,
                ``timestamp`` and ``weight`` that have other names there.
            min_weight: keep only rows with at least this weight. This turns ratings or play counts into positives.
            format: force the reader instead of detecting it from the file's suffix.
            header: whether the first row of a text file names the columns.
            separator: force the separator of a text file instead of taking the most frequent of ``, ; | tab`` in its
                first row.
            ids: ``"text"`` or ``"int"`` forces the type of ids instead of detecting it.
            time_unit: force the unit of numeric timestamps instead of deriving it from their size.
            item_info: a frame or file with ``item_id``, ``name`` and other columns for display.
            item_columns: our name → the name in ``item_info``, as ``columns``, for ``item_id``, ``name``, ``genre``
                and ``tags``.
            at_least: refuse a log with fewer users or items. Use 1 for parts of a log.

        Raises:
            DataError: the source cannot be read; the message names the place and the remedy.
            ConfigError: an argument is wrong, or two arguments contradict each other.

        Example:
            >>> import polars as pl
            >>> frame = pl.DataFrame({"uid": ["ann", "bob", "ann"], "item_id": [7, 7, 9]})
            >>> Interactions.read(frame, columns={"user_id": "uid"})
            Interactions(2 users, 2 items, 3 interactions)
        """
        if item_columns and item_info is None:
            raise ConfigError(
                "there are names for the columns of items, but no items; pass item_info (command line: --items FILE)"
            )
        table = read_table(source, columns, format, header, separator)
        if len(table) == 0:
            raise DataError(f"{table.source or source} has no rows, only a header")
        reading = Reading(source=table.source, rows=len(table), ignored_columns=table.ignored)
        table, weight, below = _apply_min_weight(table, min_weight)
        (users, user), (items, item), timestamp = _encode(table, ids, time_unit)
        del table  # the text of ten million ids takes more memory than everything that follows
        info = align_item_info(item_info, items, item_columns) if item_info is not None else None
        log = cls._ordered(users, items, user, item, timestamp, weight, info, replace(reading, below_min_weight=below))
        log._check_size(reading.source, at_least)
        return log

    @classmethod
    def from_codes(
        cls,
        users: pl.Series,
        items: pl.Series,
        user: IntArray,
        item: IntArray,
        timestamp: IntArray | None = None,
        weight: FloatArray | None = None,
        item_info: pl.DataFrame | None = None,
        source: str = "memory",
    ) -> Self:
        """The log of pairs given as codes into sorted, distinct ids. Pairs may be in any order and may repeat."""
        reading = Reading(source=source, rows=len(user))
        return cls._ordered(users, items, user, item, timestamp, weight, item_info, reading)

    @classmethod
    def _ordered(
        cls,
        users: pl.Series,
        items: pl.Series,
        user: IntArray,
        item: IntArray,
        timestamp: IntArray | None,
        weight: FloatArray | None,
        item_info: pl.DataFrame | None,
        reading: Reading,
    ) -> Self:
        given = len(user)
        if in_order(user, item):
            # Compiled loops would be compiled again for arrays that are read-only.
            user, item = (np.require(one, np.int32, ["C", "W"]) for one in (user, item))
        else:
            user, item, rows = order_pairs(user, item, len(users), len(items), timestamp)
            timestamp = None if timestamp is None else timestamp[rows]
            weight = None if weight is None else weight[rows]
        return cls(
            users=users.alias(col.USER),
            items=items.alias(col.ITEM),
            user=user,
            item=item,
            timestamp=timestamp,
            weight=weight,
            item_info=item_info,
            reading=replace(reading, duplicates=given - len(user)),
        )

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        return f"Interactions({len(self.users):,} users, {len(self.items):,} items, {len(self):,} interactions)"

    @cached_property
    def user_counts(self) -> IntArray:
        """Number of pairs of each user, int64 [users]."""
        return np.bincount(self.user, minlength=len(self.users))

    @cached_property
    def item_counts(self) -> IntArray:
        """Popularity: number of pairs of each item, int64 [items]."""
        return np.bincount(self.item, minlength=len(self.items))

    @cached_property
    def user_index(self) -> IdIndex:
        """Index that finds the codes of user ids. It is built at the first request."""
        return IdIndex(self.users)

    @cached_property
    def item_index(self) -> IdIndex:
        """Index that finds the codes of item ids. It is built at the first request."""
        return IdIndex(self.items)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of ids, pairs, times and weights. It is equal for equal content on every machine and file format."""
        columns = (self.user, self.item, self.timestamp, self.weight)
        return content_hash(self.users, self.items, *(None if one is None else [one] for one in columns))

    @cached_property
    def time_span(self) -> tuple[int, int] | None:
        """The first and the last time in microseconds since 1970, or None without timestamps."""
        return None if self.timestamp is None else (int(self.timestamp.min()), int(self.timestamp.max()))

    def k_core(self, k: int) -> Self:
        """The largest part in which every user and every item has at least ``k`` interactions.

        Raises:
            DataError: the k-core is empty; the message names the largest ``k`` for which it is not.
        """
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise ConfigError(f"k of the k-core is {k!r}; expected a whole number from 1 up")
        keep = k_core_mask(self.user, self.item, k, len(self.users), len(self.items))
        if not keep.any():
            largest = largest_k(self.user, self.item, k, len(self.users), len(self.items))
            raise DataError(
                f"the {k}-core of {self.reading.source} leaves nothing; "
                f"the largest k that leaves something is {largest}"
            )
        before = self.reading.removed_by_k_core
        reading = replace(self.reading, k_core=k, removed_by_k_core=before + len(self) - int(keep.sum()))
        log = replace(self if keep.all() else self.keep(keep).compact(), reading=reading)
        log._check_size(f"the {k}-core of {self.reading.source}")
        return log

    def keep(self, mask: BoolArray) -> Self:
        """The log of the pairs where ``mask`` [pairs] is true, with the same users and items."""
        return replace(
            self,
            user=self.user[mask],
            item=self.item[mask],
            timestamp=None if self.timestamp is None else self.timestamp[mask],
            weight=None if self.weight is None else self.weight[mask],
        )

    def compact(self) -> Self:
        """The same pairs without the users and items that have no pair."""
        has_user, has_item = self.user_counts > 0, self.item_counts > 0
        new_user = np.cumsum(has_user, dtype=np.int32) - np.int32(1)
        new_item = np.cumsum(has_item, dtype=np.int32) - np.int32(1)
        log = replace(
            self,
            users=self.users.filter(pl.Series(has_user)),
            items=self.items.filter(pl.Series(has_item)),
            user=self.user if has_user.all() else new_user[self.user],
            item=self.item if has_item.all() else new_item[self.item],
            item_info=None if self.item_info is None else self.item_info.filter(pl.Series(has_item)),
        )
        # Counting ten million pairs again would take long, so the counts are carried over.
        log.__dict__.update(user_counts=self.user_counts[has_user], item_counts=self.item_counts[has_item])
        return log

    def to_frame(self) -> pl.DataFrame:
        """A polars frame with external ids: ``user_id, item_id[, timestamp][, weight]``."""
        frame = {col.USER: self.users.gather(self.user), col.ITEM: self.items.gather(self.item)}
        if self.timestamp is not None:
            frame[col.TIME] = pl.Series(self.timestamp).cast(pl.Datetime("us", "UTC"))
        if self.weight is not None:
            frame[col.WEIGHT] = pl.Series(self.weight)
        return pl.DataFrame(frame)

    def write(self, path: Path | str, raw: bool = False) -> None:
        """Write the log as Parquet or CSV, chosen by the suffix. A crash leaves an existing file as it was.

        In a CSV file, ids that a spreadsheet would run as formulas get an apostrophe, which :meth:`read` takes away
        again. With ``raw`` they are written as they are.
        """
        path = Path(path)
        if path.suffix not in (".parquet", ".csv"):
            raise ConfigError(f"{path} should end in .parquet or .csv")
        frame = self.to_frame()
        if path.suffix == ".parquet":
            write_atomically(path, frame.write_parquet)
        else:
            write_atomically(path, (frame if raw else safe_frame(frame)).write_csv)

    def write_parquet(self, path: Path) -> None:
        """Write the log with external ids as a Parquet file, directly; :meth:`write` leaves no half of a file."""
        self.to_frame().write_parquet(path)

    def item_names(self, items: Sequence[Any] | pl.Series | None = None) -> pl.Series:
        """Display names of the given item ids, by default of all items. An item without a name is shown by its id."""
        ids = self.items if items is None else pl.Series(col.ITEM, items)
        if self.item_info is None or col.NAME not in self.item_info.columns:
            return ids.cast(pl.String).alias(col.NAME)
        known = self.item_info.select(col.ITEM, col.NAME)
        found = ids.to_frame(col.ITEM).join(known, on=col.ITEM, how="left", maintain_order="left")[col.NAME]
        return found.fill_null(ids.cast(pl.String)).alias(col.NAME)

    def _check_size(self, source: str, at_least: int = 2) -> None:
        if min(len(self.users), len(self.items)) < at_least:
            counted = f"{len(self.users)} user(s) and {len(self.items)} item(s)"
            raise DataError(f"{source} has {counted}; at least {at_least} of each are needed")


def _encode(
    table: Table, ids: IdType, time_unit: TimeUnit
) -> tuple[tuple[pl.Series, IntArray], tuple[pl.Series, IntArray], IntArray | None]:
    """The codes of users and items and the times, computed in parallel. The first of them that fails raises."""
    with ThreadPoolExecutor(2) as pool:
        users, items = (pool.submit(encode_ids, table, column, ids) for column in (col.USER, col.ITEM))
        times = pool.submit(parse_times, table, col.TIME, time_unit) if col.TIME in table.frame.columns else None
        return users.result(), items.result(), None if times is None else times.result()


def _apply_min_weight(table: Table, min_weight: float | None) -> tuple[Table, FloatArray | None, int]:
    """The table without rows below the threshold, the remaining weights, and the number of rows removed."""
    if col.WEIGHT not in table.frame.columns:
        if min_weight is not None:
            raise ConfigError(
                f"min_weight={min_weight} needs weights, but {table.source} has no column 'weight'. "
                "Pass columns={'weight': NAME} (command line: --column weight=NAME)"
            )
        return table, None, 0
    weight = parse_weights(table, col.WEIGHT)
    if min_weight is None:
        return table, weight, 0
    keep = weight >= min_weight
    if not keep.any():
        raise DataError(
            f"no row of {table.source} has a weight of at least {min_weight}; the largest is {weight.max():g}"
        )
    return table.keep(keep), weight[keep], int((~keep).sum())
