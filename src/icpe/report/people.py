"""The lists of a few people, side by side."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.coding import positions
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.model.lists import typed_ids
from icpe.report.record import RunRecord
from icpe.types import BoolArray

_LENGTH, _HISTORY = 10, 8


def people(runs: Sequence[RunRecord], users: Sequence[str] = ()) -> str:
    """Cards with what somebody has used and what each run recommends.

    Args:
        runs: all of one log.
        users: whose, as typed; by default three people with few, some and many training interactions.

    Raises:
        DataError: a user is not in the training data.
    """
    log = runs[0].model.log
    niche = ~head_mask(log.item_counts)
    return "".join(_card(runs, log, user, niche) for user in typed_ids(users, log.users, "user") or _typical(log))


def _typical(log: Interactions) -> list[Any]:
    """The users a quarter, a half and three quarters of the way to the most active."""
    order = np.argsort(log.user_counts, kind="stable")
    places = dict.fromkeys(len(order) * quarter // 4 for quarter in (1, 2, 3))
    return [log.users[int(order[place])] for place in places]


def _card(runs: Sequence[RunRecord], log: Interactions, user: Any, niche: BoolArray) -> str:
    lists = [run.model.recommend([user], _LENGTH)[col.ITEM] for run in runs]
    code = positions(pl.Series([user], dtype=log.users.dtype), log.users)[0]
    used = log.items.gather(log.item[log.user == code])
    names = log.item_names(used[:_HISTORY]).to_list()
    more = f" and {len(used) - len(names)} more" if len(used) > len(names) else ""
    told = (
        f"{len(used)} items in training, {_count(used, log, niche)} of them niche: {', '.join(map(str, names))}{more}"
    )
    columns = []
    for run, listed in zip(runs, lists, strict=True):
        rows = [
            f"<li>{_mark(bool(niche[item]))}{escape(str(name))}</li>"
            for item, name in zip(positions(listed, log.items), log.item_names(listed), strict=True)
        ]
        share = f'<span class="small">{_count(listed, log, niche)} of {len(listed)} niche</span>'
        columns.append(f"<div><h3>{escape(run.label)} {share}</h3><ol>{''.join(rows)}</ol></div>")
    return (
        f'<div class="card person"><h3>User {escape(str(user))}</h3>'
        f'<p class="small">{escape(told)}</p><div class="lists">{"".join(columns)}</div></div>'
    )


def _count(items: pl.Series, log: Interactions, niche: BoolArray) -> int:
    return int(niche[positions(items, log.items)].sum())


def _mark(niche: bool) -> str:
    return '<span class="niche">niche</span>' if niche else '<span class="head">head</span>'
