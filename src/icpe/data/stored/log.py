"""A log in files: distinct pairs in canonical order, in pieces that fit into memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from icpe import columns as col
from icpe.data.content_hash import content_hash
from icpe.data.interactions import Interactions, Reading
from icpe.data.piece_files import write_pieces
from icpe.errors import ConfigError, DataError
from icpe.types import BoolArray, IntArray

_USER, _ITEM = "user", "item"


@dataclass(frozen=True, eq=False)
class StoredLog:
    """The content of an :class:`Interactions` whose pairs are in files.

    The log has the same pairs in the same order, hence the same content hash, as one that was read into memory. Ids and
    counts are in memory.

    Attributes:
        folder: folder of the pieces.
        users: external user ids, sorted.
        items: external item ids, sorted.
        columns: the columns of the pieces: ``user, item[, timestamp][, weight]``.
        sizes: number of pairs of each piece.
        item_info: as in :class:`Interactions`.
        reading: what was dropped while reading.
    """

    folder: Path
    users: pl.Series
    items: pl.Series
    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    item_info: pl.DataFrame | None = None
    reading: Reading = field(default_factory=Reading)

    def __len__(self) -> int:
        return sum(self.sizes)

    def __repr__(self) -> str:
        return f"StoredLog({len(self.users):,} users, {len(self.items):,} items, {len(self):,} interactions)"

    def pieces(self) -> Iterator[Interactions]:
        """Yield the pairs in their order, a few million at a time."""
        for number in range(len(self.sizes)):
            found = pl.read_parquet(self.path(number), glob=False)
            arrays = {name: found[name].to_numpy() for name in self.columns}
            yield Interactions(
                self.users,
                self.items,
                arrays[_USER],
                arrays[_ITEM],
                arrays.get(col.TIME),
                arrays.get(col.WEIGHT),
                self.item_info,
            )

    def column(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield one column of the pairs, piece by piece: ``user``, ``item``, ``timestamp`` or ``weight``."""
        for number in range(len(self.sizes)):
            yield pl.read_parquet(self.path(number), columns=[name], glob=False)[name].to_numpy()

    def path(self, number: int) -> Path:
        """File of a piece."""
        return self.folder / f"{number:05}.parquet"

    @cached_property
    def user_counts(self) -> IntArray:
        """Number of pairs of each user, int64 [users]."""
        return self._counts(_USER, len(self.users))

    @cached_property
    def item_counts(self) -> IntArray:
        """Popularity: number of pairs of each item, int64 [items]."""
        return self._counts(_ITEM, len(self.items))

    def _counts(self, name: str, size: int) -> IntArray:
        counts = np.zeros(size, np.int64)
        for piece in self.column(name):
            counts += np.bincount(piece, minlength=size)
        return counts

    @cached_property
    def time_span(self) -> tuple[int, int] | None:
        """The first and the last time in microseconds since 1970, or None without timestamps."""
        if col.TIME not in self.columns:
            return None
        spans = [(int(piece.min()), int(piece.max())) for piece in self.column(col.TIME) if len(piece)]
        return min(first for first, _ in spans), max(last for _, last in spans)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of ids, pairs, times and weights, equal to that of the same log in memory."""
        names = (_USER, _ITEM, col.TIME, col.WEIGHT)
        found = (self.column(name) if name in self.columns else None for name in names)
        return content_hash(self.users, self.items, *found)

    def k_core(self, k: int, folder: Path) -> Self:
        """The largest part in which every user and every item has at least ``k`` interactions.

        Args:
            k: smallest number of interactions.
            folder: new folder for its pieces.

        Raises:
            DataError: the k-core is empty or has a single user or item.
        """
        if k < 1:
            raise ConfigError(f"k of the k-core is {k!r}; expected a whole number from 1 up")
        users, items = self.user_counts >= k, self.item_counts >= k
        while True:
            kept = [users.sum(), items.sum()]
            of_user, of_item = np.zeros(len(users), np.int64), np.zeros(len(items), np.int64)
            for piece in self.pieces():
                inside = users[piece.user] & items[piece.item]
                of_user += np.bincount(piece.user[inside], minlength=len(users))
                of_item += np.bincount(piece.item[inside], minlength=len(items))
            users, items = of_user >= k, of_item >= k
            if [users.sum(), items.sum()] == kept:
                break
        if not users.any():
            raise DataError(f"the {k}-core of {self.reading.source} leaves nothing; choose a smaller k")
        log = self.keep(folder, lambda piece, _: users[piece.user] & items[piece.item], users, items)
        reading = replace(self.reading, k_core=k, removed_by_k_core=len(self) - len(log))
        return replace(log, reading=reading)

    def keep(
        self, folder: Path, mask: Callable[[Interactions, slice], BoolArray], users: BoolArray, items: BoolArray
    ) -> Self:
        """The log of some pairs, with the users and items for which the masks are true.

        Args:
            folder: new folder for its pieces.
            mask: function of a piece and of the places of its pairs in the log that returns the pairs to keep.
            users: mask [users]; it must be true for the users of all pairs that are kept.
            items: mask [items], likewise.
        """
        new_user, new_item = (np.cumsum(one, dtype=np.int32) - np.int32(1) for one in (users, items))
        info = None if self.item_info is None else self.item_info.filter(pl.Series(items))
        log = replace(
            self,
            folder=folder,
            users=self.users.filter(pl.Series(users)),
            items=self.items.filter(pl.Series(items)),
            item_info=info,
        )
        folder.mkdir(parents=True)
        sizes: list[int] = []
        start = 0
        for piece in self.pieces():
            kept = piece.keep(mask(piece, slice(start, start + len(piece))))
            start += len(piece)
            moved = replace(kept, users=log.users, items=log.items, user=new_user[kept.user], item=new_item[kept.item])
            write_piece(log.path(len(sizes)), moved)
            sizes.append(len(moved))
        return replace(log, sizes=tuple(sizes))

    def write_parquet(self, path: Path) -> None:
        """Write the log with external ids as one Parquet file."""
        write_pieces((piece.to_frame() for piece in self.pieces()), path)

    def pairs(self) -> Interactions:
        """The log in memory without times and weights, which takes 8 bytes per pair.

        Its content hash is that of the complete log.
        """
        user, item = (np.concatenate(list(self.column(name))) for name in (_USER, _ITEM))
        log = Interactions(self.users, self.items, user, item, item_info=self.item_info, reading=self.reading)
        log.__dict__.update(user_counts=self.user_counts, item_counts=self.item_counts, content_hash=self.content_hash)
        return log


def write_piece(path: Path, piece: Interactions) -> None:
    """Write the codes, times and weights of some pairs."""
    columns = {_USER: piece.user, _ITEM: piece.item, col.TIME: piece.timestamp, col.WEIGHT: piece.weight}
    frame = pl.DataFrame({name: values for name, values in columns.items() if values is not None})
    frame.write_parquet(path, compression="lz4", statistics=False)
