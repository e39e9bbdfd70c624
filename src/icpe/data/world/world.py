"""A generated log with known truth: who would like what, and what exposure and herding made of it.

Users like a few genres, items differ in quality, and the true preference is known for every pair. What the log shows
is something else: which items people got to see follows a power law that knows nothing of preference, and items that
were used are shown more (herding). A method that removes popularity bias should come closer to the truth than the log.

The log grows in rounds. Each visit of a user shows an item and ends when one is accepted, with probability
sigmoid(preference), so how much a user consumes depends on activity and what they consume on exposure and preference.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.coding import positions
from icpe.data.interactions import Interactions
from icpe.data.world._growth import Growth, make_visits
from icpe.data.world._names import GENRES, make_ids, make_names
from icpe.errors import ConfigError, DataError
from icpe.files import write_atomically
from icpe.types import FloatArray, IntArray

_DIM = 16  # more than there are genres, so that genres are related but none is a mixture of the others
_GENRE_CONCENTRATION = 0.12  # of the Dirichlet mixture: one or two genres carry most of a user's taste
_GENRE_PULL = 10.0
_TASTE_SPREAD = 0.5
_TRAIT_SPREAD = 0.18
_APPEAL = (-3.0, 0.5)  # mean and spread; below zero, as most items are not for most people

_EXPOSURE_POWER = 1.2
_EXPOSURE_PLATEAU = 0.04  # flattens the top of the power law: no item reaches everybody at once

_FULLEST = 30  # percent of all pairs; beyond it users take nearly all they see, and there is no choice to learn
_CELLS = 1 << 21  # preferences held at once by ``wanted``

# A stream of random numbers for each purpose, so that a change to one does not shift the others. Append only.
_STREAMS = ("tastes", "traits", "exposure", "activity", "promotion", "shown", "accepted", "time", "names")


@dataclass(frozen=True, eq=False)
class World:
    """A biased log and the truth behind it. Make one with :func:`make_world`.

    The preference of user u for item i is ``user_tastes[u] · item_traits[i] + item_appeal[i]``; an item that is shown
    is taken with probability sigmoid(preference). Rows follow ``log.users`` and ``log.items``.

    Attributes:
        log: what happened, with timestamps and with ``item_id, name, genre`` of each item.
        user_tastes: float32 [users, dim].
        item_traits: float32 [items, dim].
        item_appeal: float32 [items], quality: the part of preference that all users share.
        exposure: float64 [items], each item's share of what was shown before herding; independent of preference.
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
        return _products(tastes, self.item_traits, self.item_appeal)

    def wanted(self, n: int = 20) -> pl.DataFrame:
        """Each user's ``n`` truly most preferred items that are not in the log.

        Returns:
            ``user_id, item_id, preference, rank`` with ranks from 1; of equally preferred items the smaller id comes
            first. A user with fewer than ``n`` items left gets those.

        Raises:
            ConfigError: ``n`` is not a whole number from 1 up.
        """
        _check_whole("n", n, least=1)
        return _wanted(self, min(int(n), len(self.log.items)), _CELLS)

    def save(self, folder: Path) -> None:
        """Write ``log.parquet``, ``items.parquet`` and ``users.parquet`` into the folder, replacing older ones."""
        info = self.log.item_info
        assert info is not None  # every world names its items
        items = info.select(col.ITEM, col.NAME, "genre").with_columns(
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
        """Read what :meth:`save` wrote.

        Raises:
            DataError: a file is missing or broken, or the three do not belong together.
        """
        vector = pl.Array(pl.Float32, _DIM)
        users = _read(Path(folder) / "users.parquet", {col.USER: pl.String, "tastes": vector})
        names = {col.ITEM: pl.String, col.NAME: pl.String, "genre": pl.String}
        numbers = {"appeal": pl.Float32, "exposure": pl.Float64, "traits": vector}
        items = _read(Path(folder) / "items.parquet", names | numbers)
        path = Path(folder) / "log.parquet"
        rows = _read(path, {col.USER: pl.String, col.ITEM: pl.String, col.TIME: pl.Datetime("us", "UTC")})
        log = Interactions.from_codes(
            users=users[col.USER],
            items=items[col.ITEM],
            user=_row_codes(rows, users, col.USER, path),
            item=_row_codes(rows, items, col.ITEM, path),
            timestamp=rows[col.TIME].to_physical().to_numpy(),
            item_info=items.select(*names),
        )
        return cls(
            log=log,
            user_tastes=users["tastes"].to_numpy(),
            item_traits=items["traits"].to_numpy(),
            item_appeal=items["appeal"].to_numpy(),
            exposure=items["exposure"].to_numpy(),
        )


def make_world(
    users: int = 2000,
    items: int = 1500,
    interactions: int = 60_000,
    rng: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> World:
    """Generate a world; the same arguments give the same world, bit for bit.

    Every user gets about 10 interactions or more and every item about 5, as far as there are enough of them. The skew
    is that of real logs where the log is sparse; in a small, dense world the popular items run out of new users.

    Args:
        users: how many, at least 2.
        items: how many, at least 2.
        interactions: distinct pairs in the log; from one per user to 30 % of all pairs.
        rng: seed, a whole number from 0 up.
        progress: called after each of the rounds with the interactions made so far and in all.

    Raises:
        ConfigError: a size is out of range.

    Example:
        >>> world = make_world(users=100, items=80, interactions=1000, rng=7)
        >>> world.log
        Interactions(100 users, 80 items, 1,000 interactions)
        >>> world.wanted(n=3).shape
        (300, 4)
    """
    _check_sizes(users, items, interactions)
    _check_whole("rng", rng, least=0, most=None)
    users, items, interactions = int(users), int(items), int(interactions)
    seeds = np.random.SeedSequence(int(rng)).spawn(len(_STREAMS))
    streams = {name: np.random.default_rng(seed) for name, seed in zip(_STREAMS, seeds, strict=True)}

    centroids = _make_centroids(streams["traits"])
    tastes = _make_tastes(users, centroids, streams["tastes"])
    genre = streams["traits"].integers(len(GENRES), size=items)
    traits = centroids[genre] + _normal(_TRAIT_SPREAD, (items, _DIM), streams["traits"])
    appeal = np.float32(_APPEAL[0]) + _normal(_APPEAL[1], (items,), streams["traits"])
    exposure = _make_exposure(items, streams["exposure"])

    growth = Growth(tastes, traits, appeal, exposure, interactions, streams)
    growth.run(make_visits(users, items, interactions, streams["activity"]), progress)

    item_ids = make_ids("i", items).alias(col.ITEM)
    info = [item_ids, make_names(items, streams["names"]), pl.Series("genre", GENRES).gather(genre)]
    log = Interactions.from_codes(
        users=make_ids("u", users),
        items=item_ids,
        user=growth.user,
        item=growth.item,
        timestamp=growth.timestamp,
        item_info=pl.DataFrame(info),
        source="a generated world",
    )
    return World(log, tastes, traits, appeal, exposure)


def _check_sizes(users: int, items: int, interactions: int) -> None:
    _check_whole("users", users, least=2)
    _check_whole("items", items, least=2)
    _check_whole("interactions", interactions, least=1)
    if interactions < users:
        raise ConfigError(
            f"interactions is {interactions:,}; expected at least {users:,}, one for each user. "
            "Ask for more interactions or fewer users"
        )
    most = int(users) * int(items) * _FULLEST // 100
    if interactions > most:
        raise ConfigError(
            f"interactions is {interactions:,}; expected at most {most:,}, which is {_FULLEST} % of "
            f"{users:,} users × {items:,} items. Ask for fewer interactions or more users and items"
        )


def _check_whole(name: str, value: Any, least: int, most: int | None = 2**31 - 1) -> None:
    """Refuse what is not a whole number in the range; by default it ends where codes, which are int32, end."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least or (most is not None and int(value) > most):
        upper = "up" if most is None else f"to {most:,}"
        raise ConfigError(f"{name} is {value!r}; expected a whole number from {least} {upper}. Pass another {name}")


def _normal(spread: float, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    return np.float32(spread) * rng.standard_normal(shape, dtype=np.float32)


def _products(left: FloatArray, right: FloatArray, start: FloatArray) -> FloatArray:
    """``left @ right.T + start``, summed column by column.

    A matrix product would be faster, but its last bits depend on the machine and on how many rows are asked for.
    """
    total = np.repeat(start[None, :], len(left), axis=0)
    part = np.empty_like(total)
    for one, other in zip(left.T, np.ascontiguousarray(right.T), strict=True):
        total += np.multiply(one[:, None], other[None, :], out=part)
    return total


def _make_centroids(rng: np.random.Generator) -> FloatArray:
    """The middle of each genre in the space of traits, float32 [genres, dim], of length 1."""
    centroids = rng.standard_normal((len(GENRES), _DIM))
    length = np.sqrt((centroids**2).sum(axis=1, keepdims=True))
    return np.asarray(centroids / length, dtype=np.float32)


def _make_tastes(users: int, centroids: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Tastes [users, dim]: a pull towards the genres a user likes, and something of their own."""
    # Genres differ in how many people like them, within a factor of two or so.
    liked = np.exp(0.3 * rng.standard_normal(len(GENRES)))
    share = rng.standard_gamma(_GENRE_CONCENTRATION * liked / liked.mean(), size=(users, len(GENRES)))
    share /= share.sum(axis=1, keepdims=True)
    pull = (_GENRE_PULL * share).astype(np.float32)
    own = _normal(_TASTE_SPREAD, (users, _DIM), rng)
    return own + _products(pull, centroids.T, np.zeros(_DIM, np.float32))


def _make_exposure(items: int, rng: np.random.Generator) -> FloatArray:
    rank = np.arange(1, items + 1) + _EXPOSURE_PLATEAU * items
    exposure = rank**-_EXPOSURE_POWER
    return rng.permutation(exposure / exposure.sum())


def _wanted(world: World, n: int, cells: int) -> pl.DataFrame:
    """:meth:`World.wanted` with at most ``cells`` preferences in memory, or one user's."""
    log, items = world.log, len(world.log.items)
    chunk = max(1, cells // items)
    bounds = np.concatenate([[0], np.cumsum(log.user_counts)])
    best = np.empty((len(log.users), n), np.int32)
    value = np.empty((len(log.users), n), np.float32)
    for start in range(0, len(log.users), chunk):
        part = slice(start, start + chunk)
        preference = _products(world.user_tastes[part], world.item_traits, world.item_appeal)
        rows = slice(bounds[start], bounds[min(start + chunk, len(log.users))])
        preference[log.user[rows] - start, log.item[rows]] = -np.inf
        best[part] = _top(preference, n)
        value[part] = np.take_along_axis(preference, best[part], axis=1)
    user = np.repeat(np.arange(len(log.users), dtype=np.int32), n)
    frame = {
        col.USER: log.users.gather(user),
        col.ITEM: log.items.gather(best.ravel()),
        "preference": pl.Series(value.ravel()),
        col.RANK: pl.Series(np.tile(np.arange(1, n + 1, dtype=np.int32), len(log.users))),
    }
    return pl.DataFrame(frame).filter(pl.col("preference").is_finite())


def _top(preference: FloatArray, n: int) -> IntArray:
    """Columns of the ``n`` largest float32 values of each row, best first, of equal ones the first column first."""
    items = preference.shape[1]
    bits = preference.view(np.int32)
    # Flipping the lower bits of negative floats makes their integers sort like the floats; with the column in the
    # lower half no two keys are equal, so the choice among equal preferences does not depend on the algorithm.
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) << 32
    keys |= np.arange(items - 1, -1, -1)
    keys.partition(items - n, axis=1)
    best = np.sort(keys[:, items - n :], axis=1)[:, ::-1]
    return np.asarray(items - 1 - (best & 0x7FFFFFFF))


def _user_codes(asked: pl.Series | Sequence[str], known: pl.Series) -> IntArray:
    hint = f"expected a list of user ids such as [{known[0]!r}]"
    if isinstance(asked, str):
        raise DataError(f"users is the single text {asked!r}; {hint}")
    try:
        ids = asked if isinstance(asked, pl.Series) else pl.Series(list(asked), dtype=pl.String, strict=True)
    except TypeError as error:
        raise DataError(f"users holds ids that are not text; {hint}") from error
    if ids.dtype != pl.String:
        raise DataError(f"users holds ids of type {ids.dtype}; {hint}")
    codes = positions(ids, known)
    if (codes < 0).any():
        raise DataError(f"user {ids[int(np.argmin(codes))]!r} is not in this world; {hint}")
    return codes


def _read(path: Path, expected: dict[str, Any]) -> pl.DataFrame:
    """The expected columns of a Parquet file, whole and of the expected types."""
    remedy = "Make the world again with make_world(...).save(folder)"
    if not path.is_file():
        raise DataError(f"{path} does not exist; a world has log.parquet, items.parquet and users.parquet. {remedy}")
    try:
        frame = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} cannot be read, it seems damaged: {reason}. {remedy}") from error
    for name, dtype in expected.items():
        found = frame.schema.get(name)
        if found != dtype:
            raise DataError(f"{path}: column {name!r} should be {dtype}; found {found or 'no such column'}. {remedy}")
    frame = frame.select(*expected)
    if any(frame.null_count().row(0)):
        raise DataError(f"{path} has empty values; a world has none. {remedy}")
    return frame


def _row_codes(rows: pl.DataFrame, table: pl.DataFrame, column: str, path: Path) -> IntArray:
    if not (table[column].is_sorted() and table[column].is_unique().all()):
        raise DataError(f"{path.parent}: the table of {column!r} should be sorted and without repetition")
    codes = positions(rows[column], table[column])
    if (codes < 0).any():
        unknown = rows[column][int(np.argmin(codes))]
        raise DataError(f"{path}: {column} {unknown!r} is missing in its table; the files are of different worlds")
    return codes
