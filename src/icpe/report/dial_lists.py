"""Lists of one model at several settings of its dial, and users whose lists change as those of most people do."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from icpe.data.popularity import head_mask
from icpe.ranking import top_n
from icpe.recommender import Model
from icpe.recommender.dial import Wish
from icpe.report.front_sentences import percent
from icpe.types import FloatArray, IntArray

_WISHES = (("highest NDCG", Wish(goal="traffic")), ("", Wish(niche_share=0.4)), ("", Wish(niche_share=0.2)))
_COUNT = 2
_APART = 0.05  # niche shares that are closer than this give nearly the same lists
_NEAR = 40  # users on either side of a quartile of activity to choose from


def further_settings(model: Model) -> list[tuple[str, Model]]:
    """The model at two further settings of its dial, each with a name, the smaller niche share first.

    They are the setting with the highest NDCG on the validation part and the one with 40 % of the places for niche
    items. A setting is replaced by 20 % of the places, or left out, if its niche share is nearly that of another one
    or if the dial does not reach it.
    """
    if not model.has_front:
        return []
    front = model.front()
    found: list[tuple[float, str, Model]] = []
    shares = [front.at(model.beta)["apt"]]
    reach = front["apt"].min(), front["apt"].max()
    for name, wish in _WISHES:
        if wish.niche_share is not None and not reach[0] <= wish.niche_share <= reach[1]:
            continue
        beta = wish.choose(front)
        share = front.at(beta)["apt"]
        if len(found) < _COUNT and min(abs(share - other) for other in shares) >= _APART:
            found.append((share, name or f"{percent(share)} niche", model.adjusted(beta=beta)))
            shares.append(share)
    return [(name, turned) for _, name, turned in sorted(found, key=lambda one: one[0])]


def representative_users(models: Sequence[Model], n: int) -> list[Any]:
    """Ids of three users with few, some and many interactions whose lists have a usual number of niche items.

    The users near the quartiles of activity are looked at. For each quartile, it is the user whose lists come closest
    to the mean number of niche items over all of them.

    Args:
        models: Models of the same log.
        n: Length of the lists.
    """
    log = models[0].log
    order = np.argsort(log.user_counts, kind="stable")
    places = dict.fromkeys(len(order) * quarter // 4 for quarter in (1, 2, 3))
    near = [order[max(place - _NEAR, 0) : place + _NEAR + 1] for place in places]
    users = np.unique(np.concatenate(near)).astype(np.int32)
    counts = np.stack([_niche_items(model, users, n) for model in models])
    distance = np.abs(counts - counts.mean(1, keepdims=True)).sum(0)
    chosen: list[int] = []
    for some in near:
        free = some[~np.isin(some, chosen)]
        if len(free):
            chosen.append(int(free[np.argmin(distance[np.searchsorted(users, free)])]))
    return [log.users[code] for code in chosen]


def _niche_items(model: Model, users: IntArray, n: int) -> FloatArray:
    """Number of niche items in the lists of these users, float64 [users]."""
    log = model.log
    niche = np.append(~head_mask(log.item_counts), False)  # the last entry belongs to empty places
    lists = top_n(model.scores, users, min(n, len(log.items)), hide=[log])
    counts: FloatArray = niche[lists.items].sum(1).astype(np.float64)
    return counts
