"""Lists for users by their ids: the checks of a request and the frames of an answer."""

import warnings
from collections.abc import Iterator
from typing import Any, Generic, Literal, TypedDict, TypeVar, get_args

import numpy as np
import polars as pl

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.ranking import Lists
from icpe.ranking.tables import ScoreTable
from icpe.recommender.ids import Ids, as_ids
from icpe.recommender.ranker import ListRanker
from icpe.types import IntArray

Unknown = Literal["raise", "warn", "ignore", "popular"]

Kind = TypeVar("Kind", bound=ListRanker)


class Limits(TypedDict):
    """Items that a request allows and denies, as codes."""

    allow: IntArray | None
    deny: IntArray | None


class Recommender(Generic[Kind]):
    """Lists of known users with the ids of the caller. A complete :class:`Model` can do more.

    Attributes:
        log: the training data: ids, names, and the items that each user has used.
        ranker: the same lists in codes, for services that answer many small requests.
    """

    def __init__(self, log: Interactions, ranker: Kind) -> None:
        self.log, self.ranker = log, ranker

    @property
    def scores(self) -> ScoreTable:
        """The scores that rank items, by user and item codes."""
        return self.ranker.scores()

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

    def _request(
        self, users: Ids | None, n: int, items: Ids | None, exclude: Ids | None, unknown: Unknown
    ) -> tuple[IntArray, pl.Series | None, Limits]:
        """Check a request. Return the codes of known users, unknown users who get popular items or None, and limits."""
        check_n(n)
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
            known = self.log.users if what == "user" else self.log.items
            raise DataError(
                f"{what} {ids[int(np.argmin(codes))]!r} is not in the training data; known ids look like {known[0]!r}. "
                "Correct the id or leave it out"
            )
        return codes

    def _handle_unknown(self, unknown_users: pl.Series, unknown: Unknown) -> None:
        if len(unknown_users) == 0:
            return
        message = f"user {unknown_users[0]!r} is not in the training data"
        more = f" (and {len(unknown_users) - 1:,} more)" if len(unknown_users) > 1 else ""
        if unknown == "raise":
            raise DataError(
                f"{message}{more}; known ids look like {self.log.users[0]!r}. Pass unknown='ignore' or 'popular', or "
                "use fold_in with a list of items (command line: --unknown ignore or --unknown popular)"
            )
        if unknown == "warn":
            warnings.warn(f"{message}{more}; left out", stacklevel=3)

    def _popular(self, unknown_users: pl.Series, n: int, limits: Limits) -> pl.DataFrame:
        best = self.ranker.popular(n, **limits)
        return best.repeated(len(unknown_users)).to_frame(unknown_users, self.log.items)


def check_n(n: Any) -> None:
    """Raise a :class:`ConfigError` unless ``n`` is a whole number from 1 up."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ConfigError(f"n is {n!r}; expected a whole number from 1 up")
