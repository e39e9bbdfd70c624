"""A trained model: lists, scores and vectors, with the ids of the caller."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.ranking.tables import DotScores
from icpe.recommender.dial import Wish
from icpe.recommender.front import Front
from icpe.recommender.ids import Ids
from icpe.recommender.method_tables import MethodTables
from icpe.recommender.ranker import Ranker
from icpe.recommender.requests import Recommender, check_n
from icpe.suggest import unknown_name
from icpe.train.method import TrainingMethod
from icpe.train.settings import TrainSettings
from icpe.types import FloatArray

SIMILAR = "similar_item_id"
_CONTAINERS = (list, tuple, np.ndarray, pl.Series)


class Model(Recommender[Ranker]):
    """A trained model. :meth:`Method.fit` returns it and :func:`icpe.load` reads it.

    Attributes:
        method: the trained method, in evaluation mode on the CPU.
        log: the training data: ids, names, and the items that each user has used.
        ranker: the same lists in codes, for services that answer many small requests.
    """

    def __init__(
        self, method: TrainingMethod, log: Interactions, front: Front | None = None, train_hash: str | None = None
    ) -> None:
        self.method, self._front, self._train_hash = method.eval(), front, train_hash
        method.zero_grad(set_to_none=True)  # the gradients of the last step take as much memory as the parameters
        super().__init__(log, Ranker(MethodTables(method, log), log, method.settings.beta or 0.0))

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

    def dial(self, valid: Interactions | None = None, **wish: Any) -> "Model":
        """Return the same model with the dial at the setting that meets a wish. Nothing is trained again.

        Args:
            valid: the validation part, which a wish with a boost needs; other wishes choose from :meth:`front`.
            wish: exactly one of ``niche_share=0.4`` (this share of the places for niche items), ``keep=0.95`` (as many
                places for niche items as possible with at least this share of the best NDCG),
                ``goal="traffic"`` (the best NDCG on the validation part as it is), ``goal="balanced"`` (the best NDCG
                for all items alike), and ``beta=0.5`` (this setting). With ``boost=True``, the first two are met at
                the least loss of NDCG by the dial and a boost of all niche items together.

        Raises:
            ConfigError: the wish is unknown or out of range, or no setting meets it. The message says what is possible.
            DataError: the model has no front to choose from; see :meth:`front`.
        """
        names = [one.name for one in fields(Wish)]
        for name in wish:
            if name not in names:
                raise unknown_name("wish", name, names)
        found = Wish(**wish)
        if found.boost:
            return self._boosted(valid, found)
        return self.adjusted(beta=found.beta if found.beta is not None else found.choose(self.front()))

    def _boosted(self, valid: Interactions | None, wish: Wish) -> "Model":
        from icpe.recommender.boost import boosted_setting  # late: it imports this module's neighbours
        from icpe.recommender.validation import Validator

        if valid is None:
            raise DataError("a boost is measured on the validation part; pass it: model.dial(valid, …, boost=True)")
        validator = Validator(self.log, valid, TrainSettings())
        beta, boost = boosted_setting(validator, self.method, wish)
        model = self.adjusted(beta=beta, boost=boost)
        model._front = validator.front(model.method)
        return model

    @property
    def beta(self) -> float:
        """The setting of the dial."""
        return self.method.settings.beta or 0.0

    @property
    def boost(self) -> float:
        """What ranking adds to the scores of niche items, in the unit of the training score."""
        return self.method.settings.boost or 0.0

    @property
    def setting(self) -> dict[str, float]:
        """The setting of the dial as ``beta``, and the ``boost`` if there is one."""
        return {"beta": self.beta, **({"boost": self.boost} if self.boost else {})}

    def adjusted(self, **settings: Any) -> "Model":
        """Return the same model with other ranking settings, such as ``beta`` of ICPE. Nothing is trained again.

        The front belongs to a boost: a model with another one has no front until it is measured again.

        Raises:
            ConfigError: the method has no such setting, the setting is fixed by training, or the value is wrong.
        """
        changeable = [one.name for one in self.method.Settings.declared() if one.ranking]
        for name in settings:
            if name not in changeable:
                raise unknown_name(f"ranking setting of {self.method.name!r}", name, changeable)
        method = copy.copy(self.method)  # parameters are shared
        method.settings = method.settings.replace(**settings)
        front = self._front if settings.get("boost", self.method.settings.boost) == self.method.settings.boost else None
        model = Model(method, self.log, front, self._train_hash)
        if set(settings) == {"beta"}:
            model.ranker = self.ranker.at(model.beta)
        return model

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
        check_n(n)
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
        check_n(n)
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


def _histories(history: Ids | Sequence[Ids] | Mapping[Any, Ids]) -> tuple[pl.Series | None, list[Ids]]:
    """Return the users and their histories; the users are None if it is one history."""
    if isinstance(history, Mapping):
        return pl.Series(list(history)), list(history.values())
    several = not isinstance(history, str) and len(history) > 0 and isinstance(history[0], _CONTAINERS)
    if several or (isinstance(history, pl.Series) and isinstance(history.dtype, pl.List | pl.Array)):
        return pl.Series(np.arange(len(history))), list(history)
    return None, [history]
