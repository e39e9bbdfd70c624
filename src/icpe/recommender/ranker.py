"""Exact lists in codes: what every request needs is computed once and kept."""

import copy
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol, Self

import numpy as np
import polars as pl

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.ranking import Lists, ScoreTable, best_of_rows, stream_top_n, top_n
from icpe.ranking.sweep import item_bias
from icpe.ranking.tables import DotScores, with_bias
from icpe.recommender.ids import Ids, as_ids
from icpe.types import BoolArray, FloatArray, IntArray

_SETTINGS = 16  # settings of the dial whose tables are kept; a table costs 4 bytes per item
_TOGETHER = 256  # new users whose scores are held in memory together


class ListTables(Protocol):
    """The tables that lists are made of."""

    @property
    def scores(self) -> ScoreTable:
        """The scores that rank items, without the dial."""

    @property
    def direction(self) -> FloatArray:
        """The direction of the dial, float32 [items]."""


class ModelTables(ListTables, Protocol):
    """The tables of a complete model, which also knows new users and similar items."""

    @property
    def units(self) -> DotScores:
        """Cosines between the representations of items."""

    def new_users(self, histories: list[IntArray]) -> ScoreTable:
        """Return the scores of new users with these histories, without the dial. Codes of users are positions."""


class ListRanker:
    """Lists of known users in codes, made of tables that are in memory or were saved.

    Attributes:
        log: the training data.
        beta: setting of the dial for requests that do not name one.
    """

    def __init__(self, tables: ListTables, log: Interactions, beta: float) -> None:
        self.log, self.beta, self._tables = log, beta, tables
        self._dialled = lru_cache(_SETTINGS)(self._with_setting)

    def at(self, beta: float) -> Self:
        """Return the same ranker with another setting of the dial. Both share their tables."""
        other = copy.copy(self)
        other.beta = beta
        return other

    def user_codes(self, ids: Ids) -> IntArray:
        """Return the code of each user, int32; -1 for users who are not in the training data.

        Raises:
            DataError: the ids have the wrong type.
        """
        return self.log.user_index.codes(as_ids(ids, self.log.users, "user"))

    def item_codes(self, ids: Ids) -> IntArray:
        """Return the code of each item, int32; -1 for items that are not in the training data.

        Raises:
            DataError: the ids have the wrong type.
        """
        return self.log.item_index.codes(as_ids(ids, self.log.items, "item"))

    @property
    def direction(self) -> FloatArray:
        """The direction of the dial: ranking adds ``beta`` times as much to the scores of the items, [items]."""
        return self._tables.direction

    def scores(self, beta: float | None = None) -> ScoreTable:
        """Return the scores that rank items. Another setting of the dial is only another item bias."""
        return self._dialled(float(self.beta if beta is None else beta))

    def top(
        self,
        users: IntArray,
        n: int = 20,
        *,
        beta: float | None = None,
        hide_seen: bool = True,
        allow: IntArray | None = None,
        deny: IntArray | None = None,
    ) -> Lists:
        """Return the n best items of each user. Ties are broken by the smaller code.

        Args:
            users: user codes.
            n: length of the lists. Shorter lists are padded with item -1 and score -inf.
            beta: setting of the dial; None for that of the model.
            hide_seen: whether to leave out the items that a user has used in training.
            allow: codes of the only items to list; None for all. Codes of -1 are ignored.
            deny: codes of items to leave out. Codes of -1 are ignored.
        """
        hide = [self.log] if hide_seen else []
        return top_n(self.scores(beta), users, n, hide, self._allowed(allow, deny))

    def stream(
        self,
        users: IntArray,
        n: int = 20,
        *,
        hide_seen: bool = True,
        allow: IntArray | None = None,
        deny: IntArray | None = None,
    ) -> Iterator[Lists]:
        """Yield the lists of :meth:`top` in groups of users, for more users than fit into memory."""
        hide = [self.log] if hide_seen else []
        return stream_top_n(self.scores(), users, n, hide, self._allowed(allow, deny))

    def popular(self, n: int = 20, *, allow: IntArray | None = None, deny: IntArray | None = None) -> Lists:
        """Return one list with the items that most users have used, for users of whom nothing is known."""
        counts = self.log.item_counts.astype(np.float32)
        allowed = self._allowed(allow, deny)
        if allowed is not None:
            counts[~allowed] = -np.inf
        return Lists(np.array([-1], np.int32), *best_of_rows(counts[None], n))

    def _with_setting(self, beta: float) -> ScoreTable:
        return with_bias(self._tables.scores, item_bias(self._tables.direction, beta)) if beta else self._tables.scores

    def _allowed(self, allow: IntArray | None, deny: IntArray | None) -> BoolArray | None:
        if allow is None and deny is None:
            return None
        allowed = np.full(len(self.log.items), allow is None)
        if allow is not None:
            allowed[allow[allow >= 0]] = True
        if deny is not None:
            allowed[deny[deny >= 0]] = False
        return allowed


class Ranker(ListRanker):
    """Lists of a trained model in codes, without frames. :attr:`Model.ranker` returns it.

    :meth:`Model.recommend` and :meth:`Model.fold_in` add ids, checks and frames to it; a service that answers many
    small requests calls it directly. Codes are positions in ``log.users`` and ``log.items``. Several threads may use a
    ranker at the same time.

    Attributes:
        log: the training data.
        beta: setting of the dial for requests that do not name one.

    Example:
        >>> from icpe import MF, Normal
        >>> from icpe.testing.logs import skewed_log
        >>> ranker = Normal(MF(dim=4)).fit(skewed_log(), epochs=1).ranker
        >>> lists = ranker.top(ranker.user_codes([3, 5]), n=10, beta=-0.5, deny=ranker.item_codes([7]))
        >>> lists.items.shape
        (2, 10)
    """

    def __init__(self, tables: ModelTables, log: Interactions, beta: float) -> None:
        super().__init__(tables, log, beta)
        self._model = tables

    def warm_up(self) -> None:
        """Compute what all requests share now, and not with the first request: tables, indexes, maps for new users."""
        first = np.zeros(1, np.int32)
        self.user_codes(self.log.users[:1])
        self.item_codes(self.log.items[:1])
        self.top(first, 1)
        self.similar(first, 1)
        self.fold_in([first], 1)

    def fold_in(
        self,
        histories: Sequence[IntArray],
        n: int = 20,
        *,
        beta: float | None = None,
        hide_seen: bool = True,
        allow: IntArray | None = None,
        deny: IntArray | None = None,
    ) -> Lists:
        """Return the n best items of each new user, who is known by the items of a history only.

        Args:
            histories: item codes of each new user, at least one. Codes of -1 are ignored. ``users`` of the lists are
                positions in it.
            n: length of the lists.
            beta: setting of the dial; None for that of the model.
            hide_seen: whether to leave out the items of the history.
            allow: codes of the only items to list; None for all. Codes of -1 are ignored.
            deny: codes of items to leave out. Codes of -1 are ignored.

        Raises:
            DataError: a history has no known item.
        """
        known = [np.unique(one[one >= 0]) for one in map(np.asarray, histories)]
        for place, history in enumerate(known):
            if len(history) == 0:
                which = "the history" if len(known) == 1 else f"history {place}"
                raise DataError(f"{which} is empty; fold_in needs at least one item")
        allowed = self._allowed(allow, deny)
        added = item_bias(self._model.direction, self.beta if beta is None else beta)
        found = [Lists.empty(n)]
        for start in range(0, len(known), _TOGETHER):
            part = known[start : start + _TOGETHER]
            table = with_bias(self._model.new_users(part), added)
            hide = [_as_log(part, self.log)] if hide_seen else []
            lists = top_n(table, np.arange(len(part), dtype=np.int32), n, hide, allowed)
            found.append(Lists(lists.users + np.int32(start), lists.items, lists.scores))
        return Lists.concatenated(found)

    def similar(self, items: IntArray, n: int = 20) -> Lists:
        """Return the n items nearest to each item by the cosine of their representations, without the item itself."""
        table = self._model.units.changed(user_vectors=self._model.units.item_vectors[items])
        hide = [_as_log(items[:, None], self.log)]
        lists = top_n(table, np.arange(len(items), dtype=np.int32), n, hide)
        return Lists(np.asarray(items, np.int32), lists.items, lists.scores)


def _as_log(histories: Sequence[IntArray] | IntArray, log: Interactions) -> Interactions:
    """Return a log whose users are the positions of the histories."""
    user = np.repeat(np.arange(len(histories), dtype=np.int32), [len(one) for one in histories])
    users = pl.Series("user", np.arange(len(histories)))
    item = np.concatenate([np.empty(0, np.int32), *histories])
    return Interactions(users, log.items, user, item.astype(np.int32))
