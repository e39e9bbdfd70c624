"""A trained model: lists, scores and vectors, with the ids of the caller."""

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.ranking import Lists
from icpe.ranking.tables import DotScores, ScoreTable
from icpe.recommender.dial import Wish
from icpe.recommender.front import Front
from icpe.recommender.ids import Ids, as_ids
from icpe.recommender.ranker import Ranker
from icpe.suggest import unknown_name
from icpe.train.method import TrainingMethod
from icpe.train.settings import TrainSettings
from icpe.types import FloatArray, IntArray

Unknown = Literal["raise", "warn", "ignore", "popular"]

SIMILAR = "similar_item_id"
_CONTAINERS = (list, tuple, np.ndarray, pl.Series)


class Limits(TypedDict):
    """Items that a request allows and denies, as codes."""

    allow: IntArray | None
    deny: IntArray | None


class Model:
    """A trained model. :meth:`Method.fit` returns it and :func:`icpe.load` reads it.

    Attributes:
        method: the trained method, in evaluation mode on the CPU.
        log: the training data: ids, names, and the items that each user has used.
        ranker: the same lists in codes, for services that answer many small requests.
    """

    def __init__(
        self, method: TrainingMethod, log: Interactions, front: Front | None = None, train_hash: str | None = None
    ) -> None:
        self.method, self.log, self._front, self._train_hash = method.eval(), log, front, train_hash
        method.zero_grad(set_to_none=True)  # the gradients of the last step take as much memory as the parameters
        self.ranker = Ranker(method, log)

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
        return self.ranker.scores()

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
        model = Model(method, self.log, self._front, self._train_hash)
        if set(settings) == {"beta"}:
            model.ranker = self.ranker.at(model.beta)
        return model

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
        codes, unknown_users, limits = self._request(users, n, items, exclude, unknown)
        n = min(n, len(self.log.items))
        lists = self.ranker.top(codes, n, hide_seen=hide_seen, **limits)
        frame = lists.to_frame(self.log.users, self.log.items)
        return frame if unknown_users is None else pl.concat([frame, self._popular(unknown_users, n, limits)])

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
        codes, unknown_users, limits = self._request(users, n, items, exclude, unknown)
        n = min(n, len(self.log.items))
        yield Lists.empty(n).to_frame(self.log.users, self.log.items)
        for lists in self.ranker.stream(codes, n, hide_seen=hide_seen, **limits):
            yield lists.to_frame(self.log.users, self.log.items)
        if unknown_users is not None:
            yield self._popular(unknown_users, n, limits)

    def score(self, users: Ids, items: Ids) -> FloatArray:
        """Return the scores of pairs, float32 [pairs]: the first user with the first item, and so on."""
        user, item = self._known(users, "user"), self._known(items, "item")
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
        n = min(n, len(self.log.items))
        frame = self.ranker.similar(self._known(items, "item"), n).to_frame(self.log.items, self.log.items)
        return frame.rename({col.USER: col.ITEM, col.ITEM: SIMILAR})

    def fold_in(
        self,
        history: Ids | Sequence[Ids] | Mapping[Any, Ids],
        n: int = 20,
        *,
        hide_seen: bool = True,
        items: Ids | None = None,
        exclude: Ids | None = None,
    ) -> pl.DataFrame:
        """Recommend items to new users from the items they have used, without training again.

        A new user gets the representation that fits the history best while everything else is fixed.

        Args:
            history: item ids of one new user, a list of such histories, or a mapping from user ids to histories.
            n: length of the lists. A list is shorter where fewer items are left.
            hide_seen: whether to leave out the items of the history.
            items: recommend only these items.
            exclude: recommend none of these items; items that the model does not know are ignored.

        Returns:
            A frame ``item_id, score, rank`` for one history. For several, the frame has ``user_id`` first: the position
            of the history, or the key in the mapping.

        Raises:
            DataError: a history is empty, or an item is unknown or has the wrong type.

        Example:
            >>> from icpe import MF, Normal
            >>> from icpe.testing.logs import skewed_log
            >>> model = Normal(MF(dim=4)).fit(skewed_log(), epochs=1)
            >>> model.fold_in({"ann": [1, 2], "bob": [3]}, n=5).columns
            ['user_id', 'item_id', 'score', 'rank']
        """
        _check_n(n)
        limits = self._limits(items, exclude)
        users, histories = _histories(history)
        codes = [self._known(one, "item") for one in histories]
        lists = self.ranker.fold_in(codes, min(n, len(self.log.items)), hide_seen=hide_seen, **limits)
        if users is None:
            return lists.to_frame(pl.Series([0]), self.log.items).drop(col.USER)
        return lists.to_frame(users, self.log.items)

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

    def _request(
        self, users: Ids | None, n: int, items: Ids | None, exclude: Ids | None, unknown: Unknown
    ) -> tuple[IntArray, pl.Series | None, Limits]:
        """Check a request. Return the codes of known users, unknown users who get popular items or None, and limits."""
        _check_n(n)
        if unknown not in get_args(Unknown):
            raise ConfigError(f"unknown is {unknown!r}; expected one of {', '.join(get_args(Unknown))}")
        limits = self._limits(items, exclude)
        if users is None:
            return np.arange(len(self.log.users), dtype=np.int32), None, limits
        ids = as_ids(users, self.log.users, "user")
        codes = self.log.user_index.codes(ids)
        known = codes >= 0
        if known.all():
            return codes, None, limits
        unknown_users = ids.filter(pl.Series(~known))
        self._handle_unknown(unknown_users, unknown)
        return codes[known], unknown_users if unknown == "popular" else None, limits

    def _limits(self, items: Ids | None, exclude: Ids | None) -> Limits:
        # A list of items that are out of stock always contains some that the model has never seen.
        return Limits(
            allow=None if items is None else self._known(items, "item"),
            deny=None if exclude is None else self.ranker.item_codes(exclude),
        )

    def _known(self, ids: Ids, what: Literal["user", "item"]) -> IntArray:
        codes = self.ranker.user_codes(ids) if what == "user" else self.ranker.item_codes(ids)
        if len(codes) and codes.min() < 0:
            raise DataError(f"{what} {ids[int(np.argmin(codes))]!r} is not in the training data")
        return codes

    def _handle_unknown(self, unknown_users: pl.Series, unknown: Unknown) -> None:
        if len(unknown_users) == 0:
            return
        message = f"user {unknown_users[0]!r} is not in the training data"
        more = f" (and {len(unknown_users) - 1:,} more)" if len(unknown_users) > 1 else ""
        if unknown == "raise":
            raise DataError(f"{message}{more}. Pass unknown='ignore' or 'popular', or use fold_in with a list of items")
        if unknown == "warn":
            warnings.warn(f"{message}{more}; left out", stacklevel=3)

    def _popular(self, unknown_users: pl.Series, n: int, limits: Limits) -> pl.DataFrame:
        best = self.ranker.popular(n, **limits)
        return best.repeated(len(unknown_users)).to_frame(unknown_users, self.log.items)


def _histories(history: Ids | Sequence[Ids] | Mapping[Any, Ids]) -> tuple[pl.Series | None, list[Ids]]:
    """Return the users and their histories; the users are None if it is one history."""
    if isinstance(history, Mapping):
        return pl.Series(list(history)), list(history.values())
    several = not isinstance(history, str) and len(history) > 0 and isinstance(history[0], _CONTAINERS)
    if several or (isinstance(history, pl.Series) and isinstance(history.dtype, pl.List | pl.Array)):
        return pl.Series(np.arange(len(history))), list(history)
    return None, [history]


def _check_n(n: Any) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ConfigError(f"n is {n!r}; expected a whole number from 1 up")
