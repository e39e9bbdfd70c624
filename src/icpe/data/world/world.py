"""A generated log together with the true preferences behind it.

Users like a few genres, items differ in quality, and the true preference is known for every pair. The log shows
something else: which items users see follows a power law that is independent of preference, and items that were used
are shown more often (herding). A method that removes popularity bias should come closer to the truth than the log.

The log grows in rounds. Each visit of a user shows items until one is accepted, with probability sigmoid(preference).
So the activity of a user determines how much they consume, and exposure and preference determine what they consume.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.data.lookup import positions
from icpe.data.readers import Piece, Table, parse_times
from icpe.data.world.checks import check_whole
from icpe.data.world.preference import products, top_columns
from icpe.errors import DataError
from icpe.files import write_atomically
from icpe.types import FloatArray, IntArray

TRAITS = 16  # more than the number of genres, so that genres are related but none is a mixture of others
_DISPLAYED = (col.NAME, "genre")  # columns about items that a world may have
_IDS = (pl.String, pl.Int64)
_Types = dict[str, tuple[Any, ...]]  # allowed types of columns


@dataclass(frozen=True, eq=False)
class World:
    """A biased log and the true preferences behind it.

    :func:`make_world` generates one, and :func:`icpe.simulate.fit_world` fits one to a real log.

    The preference of user u for item i is ``user_tastes[u] · item_traits[i] + item_appeal[i]``; an item that is shown
    is taken with probability sigmoid(preference). Arrays have one row per user or item, in the order of ``log.users``
    and ``log.items``.

    Attributes:
        log: the interactions. A generated world has timestamps, and ``item_id, name, genre`` of each item.
        user_tastes: float32 [users, traits].
        item_traits: float32 [items, traits].
        item_appeal: float32 [items], quality: the part of preference that all users share.
        exposure: float64 [items], the share of exposure of each item before herding; independent of preference.
    """

    log: Interactions
    user_tastes: FloatArray
    item_traits: FloatArray
    item_appeal: FloatArray
    exposure: FloatArray

    def preference(self, users: pl.Series | Sequence[str]) -> FloatArray:
        """True preference of the given users for all items, float32 [len(users), items], in the order of ``log.items``.

        Raises:
            DataError: an id is unknown or not text.
        """
        tastes = self.user_tastes[_user_codes(users, self.log.users)]
        return products(tastes, self.item_traits, self.item_appeal)

    def wanted(self, n: int = 20, cells: int = 1 << 21) -> pl.DataFrame:
        """The ``n`` items that each user truly prefers most among those that are not in the log.

        Args:
            n: number of items per user. A user with fewer items left gets those.
            cells: number of preferences to hold in memory at once; at least those of one user are held.

        Returns:
            ``user_id, item_id, preference, rank`` with ranks from 1; among equally preferred items the smaller id comes
            first.

        Raises:
            ConfigError: ``n`` or ``cells`` is not a whole number from 1 up.
        """
        log, items = self.log, len(self.log.items)
        n = min(check_whole("n", n, least=1), items)
        chunk = max(1, check_whole("cells", cells, least=1) // items)
        bounds = np.concatenate([[0], np.cumsum(log.user_counts)])
        best = np.empty((len(log.users), n), np.int32)
        value = np.empty((len(log.users), n), np.float32)
        for start in range(0, len(log.users), chunk):
            part = slice(start, start + chunk)
            preference = products(self.user_tastes[part], self.item_traits, self.item_appeal)
            rows = slice(bounds[start], bounds[min(start + chunk, len(log.users))])
            preference[log.user[rows] - start, log.item[rows]] = -np.inf
            best[part] = top_columns(preference, n)
            value[part] = np.take_along_axis(preference, best[part], axis=1)
        user = np.repeat(np.arange(len(log.users), dtype=np.int32), n)
        frame = {
            col.USER: log.users.gather(user),
            col.ITEM: log.items.gather(best.ravel()),
            "preference": pl.Series(value.ravel()),
            col.RANK: pl.Series(np.tile(np.arange(1, n + 1, dtype=np.int32), len(log.users))),
        }
        return pl.DataFrame(frame).filter(pl.col("preference").is_finite())

    def save(self, folder: Path) -> None:
        """Write ``log.parquet``, ``items.parquet`` and ``users.parquet`` into the folder, replacing older ones."""
        info = self.log.items.to_frame() if self.log.item_info is None else self.log.item_info
        items = info.select(col.ITEM, *(name for name in _DISPLAYED if name in info.columns)).with_columns(
            pl.Series("appeal", self.item_appeal),
            pl.Series("exposure", self.exposure),
            pl.Series("traits", self.item_traits),
        )
        users = self.log.users.to_frame().with_columns(pl.Series("tastes", self.user_tastes))
        frames = {"log": self.log.to_frame(), "items": items, "users": users}
        for name, frame in frames.items():
            write_atomically(Path(folder) / f"{name}.parquet", frame.write_parquet)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The world that :meth:`save` wrote. Names of items and times are optional.

        Raises:
            DataError: a file is missing or broken, or the files do not belong together.
        """
        users = _read(Path(folder) / "users.parquet", {col.USER: _IDS, "tastes": (pl.Array,)})
        numbers = {"appeal": (pl.Float32,), "exposure": (pl.Float64,), "traits": (users["tastes"].dtype,)}
        names = dict.fromkeys(_DISPLAYED, (pl.String,))
        items = _read(Path(folder) / "items.parquet", {col.ITEM: _IDS, **numbers}, names)
        path = Path(folder) / "log.parquet"
        ids = {col.USER: (users[col.USER].dtype,), col.ITEM: (items[col.ITEM].dtype,)}
        rows = _read(path, ids, {col.TIME: (pl.Datetime("us", "UTC"),)})
        timed, info = col.TIME in rows.columns, items.drop(*numbers)
        log = Interactions.from_codes(
            users=users[col.USER],
            items=items[col.ITEM],
            user=_row_codes(rows, users, col.USER, path),
            item=_row_codes(rows, items, col.ITEM, path),
            timestamp=parse_times(Table(rows, (Piece(str(path), rows.height),)), col.TIME) if timed else None,
            item_info=info if info.width > 1 else None,
        )
        return cls(
            log=log,
            user_tastes=users["tastes"].to_numpy().astype(np.float32, copy=False),
            item_traits=items["traits"].to_numpy().astype(np.float32, copy=False),
            item_appeal=items["appeal"].to_numpy(),
            exposure=items["exposure"].to_numpy(),
        )


def _user_codes(requested: pl.Series | Sequence[str], known: pl.Series) -> IntArray:
    hint = f"expected a list of user ids such as [{known[0]!r}]"
    if isinstance(requested, str):
        raise DataError(f"users is the single text {requested!r}; {hint}")
    try:
        ids = (
            requested if isinstance(requested, pl.Series) else pl.Series(list(requested), dtype=pl.String, strict=True)
        )
    except TypeError as error:
        raise DataError(f"users holds ids that are not text; {hint}") from error
    if ids.dtype != pl.String:
        raise DataError(f"users holds ids of type {ids.dtype}; {hint}")
    codes = positions(ids, known)
    if (codes < 0).any():
        raise DataError(f"user {ids[int(np.argmin(codes))]!r} is not in this world; {hint}")
    return codes


def _read(path: Path, expected: _Types, optional: _Types | None = None) -> pl.DataFrame:
    """Some columns of a Parquet file, after checking that their types are allowed and that no value is missing.

    Args:
        path: the file.
        expected: allowed types of the columns that it must have.
        optional: the same for columns that it may have.
    """
    remedy = "Create the world again: `icpe data make`, or make_world(...).save(folder)"
    if not path.is_file():
        raise DataError(f"{path} does not exist; a world has log.parquet, items.parquet and users.parquet. {remedy}")
    try:
        frame = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} cannot be read because it seems damaged: {reason}. {remedy}") from error
    expected = expected | {name: types for name, types in (optional or {}).items() if name in frame.columns}
    for name, types in expected.items():
        found = frame.schema.get(name)
        if found is None or found not in types:
            allowed = " or ".join(map(str, types))
            raise DataError(f"{path}: column {name!r} should be {allowed}; found {found or 'no such column'}. {remedy}")
    frame = frame.select(*expected)
    if any(frame.null_count().row(0)):
        raise DataError(f"{path} has missing values; a world has none. {remedy}")
    return frame


def _row_codes(rows: pl.DataFrame, table: pl.DataFrame, column: str, path: Path) -> IntArray:
    if not (table[column].is_sorted() and table[column].is_unique().all()):
        raise DataError(f"{path.parent}: the table of {column!r} should be sorted and without duplicates")
    codes = positions(rows[column], table[column])
    if (codes < 0).any():
        unknown = rows[column][int(np.argmin(codes))]
        raise DataError(f"{path}: {column} {unknown!r} is missing in its table; the files belong to different worlds")
    return codes
