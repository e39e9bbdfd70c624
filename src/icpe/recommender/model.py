"""A trained model: lists, scores and vectors, with the ids of the caller."""

import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
import torch

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.data.lookup import positions
from icpe.errors import ConfigError, DataError
from icpe.ranking import Lists, stream_top_n, top_n
from icpe.ranking.sweep import item_bias
from icpe.ranking.tables import DotScores, ScoreTable
from icpe.recommender.dial import Wish
from icpe.recommender.fold_in import fold_in_user
from icpe.recommender.front import Front
from icpe.suggest import unknown_name
from icpe.train.dial import dial_direction, dialled_scores
from icpe.train.method import TrainingMethod
from icpe.train.settings import TrainSettings
from icpe.types import FloatArray, IntArray

Ids = Sequence[Any] | pl.Series
Unknown = Literal["raise", "warn", "ignore", "popular"]

SIMILAR = "similar_item_id"


class Model:
    """A trained model. :meth:`Method.fit` returns it and :func:`icpe.load` reads it.

    Attributes:
        method: the trained method, in evaluation mode on the CPU.
        log: the training data: ids, names, and the items that each user has used.
    """

    def __init__(
        self, method: TrainingMethod, log: Interactions, front: Front | None = None, train_hash: str | None = None
    ) -> None:
        self.method, self.log, self._front, self._train_hash = method.eval(), log, front, train_hash
        method.zero_grad(set_to_none=True)  # the gradients of the last step take as much memory as the parameters
        self._scores: ScoreTable | None = None

    def __repr__(self) -> str:
        return (
            f"Model({self.method.label} on {self.method.backbone.label}, "
            f"{len(self.log.users):,} users, {len(self.log.items):,} items)"
        )

    @property
    def train_hash(self) -> str:
        """Content hash of the training data. A saved model keeps it, although it does not keep times and weights."""
        return self._train_hash or self.log.content_hash

    @property
    def scores(self) -> ScoreTable:
        """The scores that rank items, by user and item codes."""
        if self._scores is None:
            self._scores = dialled_scores(self.method, self.log)
        return self._scores

    @property
    def has_front(self) -> bool:
        """Whether a front has been measured, so that :meth:`dial` can choose."""
        return self._front is not None

    def front(self, valid: Interactions | None = None) -> Front:
        """Return accuracy and exposure on a validation part at every setting of the dial.

        The model keeps the front, and :meth:`dial` chooses from it.

        Args:
            valid: the validation part. With None, the front that was measured last, for example at the end of training.

        Raises:
            DataError: ``valid`` is None and no front has been measured, or ``valid`` has no known user and item.

        Example:
            >>> from icpe import ICPE, MF, split
            >>> from icpe.testing.logs import skewed_log
            >>> parts = split.random(skewed_log(), seed=0)
            >>> model = ICPE(MF(dim=4)).fit(parts.train, valid=parts.valid, epochs=1)
            >>> model.front().table.columns[:3]
            ['beta', 'ndcg', 'recall']
        """
        if valid is not None:
            from icpe.recommender.validation import Validator  # late: it imports this module's neighbours

            self._front = Validator(self.log, valid, TrainSettings()).front(self.method)
        if self._front is None:
            raise DataError(
                "the model has no front yet, because it was trained without a validation part; measure it with "
                "model.front(valid)"
            )
        return self._front

    def dial(self, **wish: Any) -> "Model":
        """Return the same model with the dial at the setting that meets a wish. Nothing is trained again.

        Args:
            wish: exactly one of ``niche_share=0.4`` (this share of the places for niche items), ``keep=0.95`` (as many
                places for niche items as possible with at least this share of the best NDCG),
                ``goal="traffic"`` (the best NDCG on the validation part as it is), ``goal="balanced"`` (the best NDCG
                for all items alike), and ``beta=0.5`` (this setting).

        Raises:
            ConfigError: the wish is unknown or out of range, or no setting meets it. The message says what is possible.
            DataError: the model has no front to choose from; see :meth:`front`.
        """
        names = [one.name for one in fields(Wish)]
        for name in wish:
            if name not in names:
                raise unknown_name("wish", name, names)
        found = Wish(**wish)
        return self.adjusted(beta=found.beta if found.beta is not None else found.choose(self.front()))

    @property
    def beta(self) -> float:
        """The setting of the dial."""
        return self.method.settings.beta or 0.0

    def adjusted(self, **settings: Any) -> "Model":
        """Return the same model with other ranking settings, such as ``beta`` of ICPE. Nothing is trained again.

        Raises:
            ConfigError: the method has no such setting, the setting is fixed by training, or the value is wrong.
        """
        changeable = [one.name for one in self.method.Settings.declared() if one.ranking]
        for name in settings:
            if name not in changeable:
                raise unknown_name(f"ranking setting of {self.method.name!r}", name, changeable)
        method = copy.copy(self.method)  # parameters are shared
        method.settings = method.settings.replace(**settings)
        return Model(method, self.log, self._front, self._train_hash)

    def recommend(
        self,
        users: Ids | None = None,
        n: int = 20,
        *,
        hide_seen: bool = True,
        items: Ids | None = None,
        exclude: Ids | None = None,
        unknown: Unknown = "raise",
    ) -> pl.DataFrame:
        """Return the n best items of each user.

        Args:
            users: user ids; None for all users.
            n: length of the lists. A list is shorter where fewer items are left.
            hide_seen: whether to leave out the items that a user has used in training.
            items: recommend only these items.
            exclude: recommend none of these items; items that the model does not know are ignored.
            unknown: what to do with users who are not in the training data: ``raise`` an error, ``warn`` and leave them
                out, ``ignore`` them, or recommend the most ``popular`` items (the score is the number of users).

        Returns:
            A frame ``user_id, item_id, score, rank``; users in the given order, unknown ones last; ranks start at 1.

        Raises:
            DataError: a user or an item of ``items`` is unknown, or ids have the wrong type.
        """
        frames = self.stream(users, n, hide_seen=hide_seen, items=items, exclude=exclude, unknown=unknown)
        return pl.concat(frames)

    def stream(
        self,
        users: Ids | None = None,
        n: int = 20,
        *,
        hide_seen: bool = True,
        items: Ids | None = None,
        exclude: Ids | None = None,
        unknown: Unknown = "raise",
    ) -> Iterator[pl.DataFrame]:
        """Yield the frame of :meth:`recommend` in pieces, for more users than fit into memory."""
        _check_n(n)
        if unknown not in get_args(Unknown):
            raise ConfigError(f"unknown is {unknown!r}; expected one of {', '.join(get_args(Unknown))}")
        ids = self.log.users if users is None else _series(users, self.log.users, "user")
        codes = positions(ids, self.log.users)
        allow = self._allowed(items, exclude)
        unknown_users = ids.filter(pl.Series(codes < 0))
        self._handle_unknown(unknown_users, unknown)
        hide = [self.log] if hide_seen else []
        yield Lists.empty(n).to_frame(self.log.users, self.log.items)
        for lists in stream_top_n(self.scores, codes[codes >= 0].astype(np.int32), n, hide=hide, allow=allow):
            yield lists.to_frame(self.log.users, self.log.items)
        if unknown == "popular" and len(unknown_users):
            yield self._popular(unknown_users, n, allow)

    def score(self, users: Ids, items: Ids) -> FloatArray:
        """Return the scores of pairs, float32 [pairs]: the first user with the first item, and so on."""
        user = self._codes(users, self.log.users, "user")
        item = self._codes(items, self.log.items, "item")
        if len(user) != len(item):
            raise ConfigError(
                f"score takes pairs, but got {len(user)} users and {len(item)} items; pass as many of each"
            )
        found = np.empty(len(user), np.float32)
        for one in np.unique(user):
            rows = np.flatnonzero(user == one)
            found[rows] = self.scores.block(user[rows[:1]], 0, len(self.log.items))[0, item[rows]]
        return found

    def similar_items(self, items: Ids, n: int = 20) -> pl.DataFrame:
        """Return the n items nearest to each given one, by the cosine of their representations.

        Returns:
            A frame ``item_id, similar_item_id, score, rank``; an item is not similar to itself.
        """
        _check_n(n)
        codes = self._codes(items, self.log.items, "item")
        with torch.no_grad():
            _, vectors = self.method.backbone.reps()
            unit = torch.nn.functional.normalize(vectors, dim=-1).float().numpy()
        lists = top_n(DotScores(unit, unit), codes, min(n + 1, len(unit)))
        asked = np.repeat(lists.users, lists.items.shape[1])
        frame = pl.DataFrame(
            {
                col.ITEM: self.log.items.gather(asked),
                SIMILAR: self.log.items.gather(lists.items.ravel()),
                col.SCORE: lists.scores.ravel(),
            }
        ).filter(pl.Series(asked != lists.items.ravel()))
        place = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(col.ITEM).alias(col.RANK)
        return frame.with_columns(place).filter(pl.col(col.RANK) <= n)

    def fold_in(self, history: Ids, n: int = 20, *, hide_seen: bool = True) -> pl.DataFrame:
        """Recommend items to a new user from the items they have used, without training again.

        The new user gets the representation that fits the history best while everything else is fixed.

        Returns:
            A frame ``item_id, score, rank``.
        """
        _check_n(n)
        codes = np.unique(self._codes(history, self.log.items, "item"))
        if len(codes) == 0:
            raise DataError("the history is empty; fold_in needs at least one item")
        scores = fold_in_user(self.method, codes, item_bias(dial_direction(self.method, self.log), self.beta))
        if hide_seen:
            scores[codes] = -np.inf
        best = np.lexsort((np.arange(len(scores)), -scores))[:n]
        best = best[np.isfinite(scores[best])]
        rank = pl.Series(np.arange(1, len(best) + 1, dtype=np.int32))
        return pl.DataFrame({col.ITEM: self.log.items.gather(best), col.SCORE: scores[best], col.RANK: rank})

    def vectors(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return users and items as frames ``user_id, vector`` and ``item_id, vector``; the inner product is the score.

        Raises:
            ConfigError: the scores of this model are not inner products (NeuMF).
        """
        table = self.scores
        if not isinstance(table, DotScores):
            raise ConfigError(
                f"{self.method.backbone.label} has no vectors whose inner product is the score; use score or recommend"
            )
        users, items = table.user_vectors, table.item_vectors
        if table.item_bias is not None:
            users = np.hstack([users, np.ones((len(users), 1), np.float32)])
            items = np.hstack([items, table.item_bias[:, None]])
        return (
            pl.DataFrame({col.USER: self.log.users, "vector": users}),
            pl.DataFrame({col.ITEM: self.log.items, "vector": items}),
        )

    def save(self, folder: Path | str) -> None:
        """Write the model into a folder, from which :func:`icpe.load` reads it."""
        from icpe.recommender.store import save_model

        save_model(self, Path(folder))

    def _allowed(self, items: Ids | None, exclude: Ids | None) -> IntArray | None:
        if items is None and exclude is None:
            return None
        allowed = np.arange(len(self.log.items), dtype=np.int32)
        if items is not None:
            allowed = np.unique(self._codes(items, self.log.items, "item"))
        if exclude is not None:
            # A list of items that are out of stock always contains some that the model has never seen.
            allowed = np.setdiff1d(allowed, positions(_series(exclude, self.log.items, "item"), self.log.items))
        return allowed

    def _codes(self, ids: Ids, known: pl.Series, what: str) -> IntArray:
        asked = _series(ids, known, what)
        codes = positions(asked, known)
        if (codes < 0).any():
            raise DataError(f"{what} {asked[int(np.argmin(codes))]!r} is not in the training data")
        return codes

    def _handle_unknown(self, unknown_users: pl.Series, unknown: Unknown) -> None:
        if len(unknown_users) == 0:
            return
        message = f"user {unknown_users[0]!r} is not in the training data"
        more = f" (and {len(unknown_users) - 1:,} more)" if len(unknown_users) > 1 else ""
        if unknown == "raise":
            raise DataError(f"{message}{more}. Pass unknown='ignore' or 'popular', or use fold_in with a list of items")
        if unknown == "warn":
            warnings.warn(f"{message}{more}; left out", stacklevel=4)

    def _popular(self, unknown_users: pl.Series, n: int, allow: IntArray | None) -> pl.DataFrame:
        counts = self.log.item_counts.astype(np.float32)
        if allow is not None:
            forbidden = np.ones(len(counts), bool)
            forbidden[allow] = False
            counts[forbidden] = -np.inf
        best = np.argsort(-counts, kind="stable")[:n]
        best = best[np.isfinite(counts[best])]
        return pl.DataFrame(
            {
                col.USER: unknown_users.gather(np.repeat(np.arange(len(unknown_users)), len(best))),
                col.ITEM: self.log.items.gather(np.tile(best, len(unknown_users))),
                col.SCORE: np.tile(counts[best], len(unknown_users)),
                col.RANK: np.tile(np.arange(1, len(best) + 1, dtype=np.int32), len(unknown_users)),
            }
        )


def _series(ids: Ids, known: pl.Series, what: str) -> pl.Series:
    """Return ids as a series that has the type of the known ids.

    Raises:
        DataError: the ids have another type, or one is missing. The message says which type is expected.
    """
    kind = "text" if known.dtype == pl.String else "integers"
    hint = f"{what} ids are {kind} here, such as {known[0]!r}"
    if isinstance(ids, str | bytes) or not isinstance(ids, Sequence | pl.Series | np.ndarray):
        raise DataError(f"{what}s is {ids!r}; expected a list of ids. {hint[0].upper()}{hint[1:]}")
    try:
        series = pl.Series(what, ids, strict=True)
        # A cast would turn 1.5 into 1 and "7" into 7, which are the ids of other users or items.
        texts, whole = series.dtype in (pl.String, pl.Categorical, pl.Enum), series.dtype.is_integer()
        if not ((texts if known.dtype == pl.String else whole) or series.null_count() == len(series)):
            raise TypeError(f"found {series.dtype}")
        series = series.cast(known.dtype)
    except (TypeError, pl.exceptions.PolarsError, OverflowError) as error:
        raise DataError(f"the given {what} ids have another type; {hint}") from error
    if series.null_count():
        raise DataError(f"a {what} id is missing (null); {hint}")
    return series


def _check_n(n: Any) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ConfigError(f"n is {n!r}; expected a whole number from 1 up")
