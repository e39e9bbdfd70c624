"""Cards that show what a few users have used and what is recommended to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from icpe.data.interactions import Interactions
from icpe.data.lookup import positions
from icpe.data.popularity import head_mask
from icpe.types import BoolArray, IntArray

LENGTH = 10  # items of a list that a card shows
_HISTORY = 8


@dataclass(frozen=True)
class ShownItem:
    """An item on a card."""

    name: str
    niche: bool


@dataclass(frozen=True)
class ShownList:
    """A list on a card, the best item first."""

    label: str
    items: list[ShownItem]

    @property
    def niche(self) -> int:
        """Number of niche items."""
        return sum(item.niche for item in self.items)


@dataclass(frozen=True)
class UserCard:
    """A user, a sentence about the user's history, and lists for the user."""

    user: str
    history: str
    lists: list[ShownList]


def typical_users(log: Interactions, among: IntArray | None = None) -> list[Any]:
    """Ids of three users at the quartiles of activity, the least active first.

    Args:
        log: What people have used.
        among: Codes of the users to choose from, ascending; all users by default.
    """
    codes = np.arange(len(log.users)) if among is None else among
    order = codes[np.argsort(log.user_counts[codes], kind="stable")]
    places = dict.fromkeys(len(order) * quarter // 4 for quarter in (1, 2, 3)) if len(order) else {}
    return [log.users[int(order[place])] for place in places]


def user_card(
    log: Interactions, user: Any, lists: Sequence[tuple[str, pl.Series]], where: str = "in the log"
) -> UserCard:
    """The card of a user.

    Args:
        log: What people have used. Items that it does not contain are niche.
        user: Id of the user.
        lists: A name and item ids, the best first, for each list.
        where: Words for "in the log".
    """
    niche = np.append(~head_mask(log.item_counts), True)  # the last entry is for code -1: items not in the log
    code = positions(pl.Series([user], dtype=log.users.dtype), log.users)[0]
    used = log.items.gather(log.item[log.user == code])
    history = f"nothing {where}"
    if len(used):
        names = log.item_names(used[:_HISTORY]).to_list()
        more = f" and {len(used) - len(names)} more" if len(used) > len(names) else ""
        count = int(_niche(used, log, niche).sum())
        history = f"{len(used)} items {where}, {count} of them niche: {', '.join(map(str, names))}{more}"
    return UserCard(str(user), history, [_list(label, items, log, niche) for label, items in lists])


def _list(label: str, items: pl.Series, log: Interactions, niche: BoolArray) -> ShownList:
    names, marks = log.item_names(items), _niche(items, log, niche)
    return ShownList(label, [ShownItem(str(name), bool(mark)) for name, mark in zip(names, marks, strict=True)])


def _niche(items: pl.Series, log: Interactions, niche: BoolArray) -> BoolArray:
    return np.asarray(niche[positions(items, log.items)])
