"""The lists of a few people, side by side."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import polars as pl

from icpe.data.coding import positions
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.report.blocks import mark
from icpe.types import BoolArray, IntArray

LENGTH, _HISTORY = 10, 8


def typical(log: Interactions, among: IntArray | None = None) -> list[Any]:
    """The users a quarter, a half and three quarters of the way to the most active.

    Args:
        log: what they used.
        among: user codes to choose from, ascending; all by default.
    """
    codes = np.arange(len(log.users)) if among is None else among
    order = codes[np.argsort(log.user_counts[codes], kind="stable")]
    places = dict.fromkeys(len(order) * quarter // 4 for quarter in (1, 2, 3)) if len(order) else {}
    return [log.users[int(order[place])] for place in places]


def card(log: Interactions, user: Any, lists: Sequence[tuple[str, pl.Series]], where: str = "in the log") -> str:
    """What somebody has used, and what is recommended to them.

    Args:
        log: what people used; tells head from niche. Items it does not know are niche.
        user: an id.
        lists: a name and item ids, the best first, for each list.
        where: the log is called.
    """
    niche = np.append(~head_mask(log.item_counts), True)  # the last stands for items not in the log: code -1
    code = positions(pl.Series([user], dtype=log.users.dtype), log.users)[0]
    used = log.items.gather(log.item[log.user == code])
    names = log.item_names(used[:_HISTORY]).to_list()
    more = f" and {len(used) - len(names)} more" if len(used) > len(names) else ""
    told = (
        f"{len(used)} items {where}, {_niche(used, log, niche).sum()} of them niche: {', '.join(map(str, names))}{more}"
    )
    columns = (_list(label, items, log, niche) for label, items in lists)
    return (
        f'<div class="card person"><h3>User {escape(str(user))}</h3>'
        f'<p class="small">{escape(told if len(used) else f"nothing {where}")}</p>'
        f'<div class="lists">{"".join(columns)}</div></div>'
    )


def _list(label: str, items: pl.Series, log: Interactions, niche: BoolArray) -> str:
    marks, names = _niche(items, log, niche), log.item_names(items)
    rows = (f"<li>{mark(bool(one))}{escape(str(name))}</li>" for one, name in zip(marks, names, strict=True))
    share = f'<span class="small">{marks.sum()} of {len(items)} niche</span>'
    return f"<div><h3>{escape(label)} {share}</h3><ol>{''.join(rows)}</ol></div>"


def _niche(items: pl.Series, log: Interactions, niche: BoolArray) -> BoolArray:
    return np.asarray(niche[positions(items, log.items)])
