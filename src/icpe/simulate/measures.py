"""What is measured in every round, for all users and for each group of users.

Columns that begin with ``consumed_`` are about what users consumed, those that begin with ``shown_`` about what lists
showed. ``docs/simulation.md`` defines all of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from icpe.data.popularity import gini
from icpe.metrics.exposure import coverage
from icpe.ranking import Lists, top_n
from icpe.simulate.choices import attention, utility
from icpe.simulate.history import History
from icpe.simulate.population import GROUPS, Population
from icpe.simulate.rounds import Round, list_utility
from icpe.simulate.settings import LoopSettings
from icpe.types import BoolArray, FloatArray, IntArray

EVERYONE = "all"
_SPREAD = ("gini", "coverage", "niche_share", "popularity")
CONSUMED = tuple(f"consumed_{name}" for name in (*_SPREAD, "utility", "diversity", "distance", "jaccard"))
SHOWN = tuple(f"shown_{name}" for name in (*_SPREAD, "utility", "regret", "diversity", "jaccard"))
SCHEMA: dict[str, Any] = {
    "round": pl.Int64,
    "group": pl.String,
    **dict.fromkeys(("visits", "repeats", "consumed", "recommended", "lists"), pl.Int64),
    **dict.fromkeys(("log_gini", *CONSUMED, *SHOWN), pl.Float64),
}

Values = dict[str, float | None]
Measure = Callable[[BoolArray], Values]


def measure_round(
    population: Population, history: History, played: Round, settings: LoopSettings, number: int
) -> tuple[pl.DataFrame, IntArray]:
    """Return one row for all users and one for each group, and how often each item was shown, int64 [items].

    The consumption of the round is appended to the history, because some measures look at all rounds so far.
    """
    # Before the consumption is appended: lists are judged by what users had when they saw them.
    shown = _shown_measure(population, history, played, settings)
    counts = played.shown(population.items)
    history.add(played.user, played.item, counts)
    consumed = _consumed_measure(population, history, played)
    masks = {EVERYONE: np.ones(population.users, bool)}
    masks |= {name: population.group == place for place, name in enumerate(GROUPS)}
    rows = []
    for name, mask in masks.items():
        among, listed = mask[played.user], mask[played.lists.users]
        rows.append(
            {
                "round": number,
                "group": name,
                "visits": int(played.visits[mask].sum()),
                "repeats": int(played.repeats[mask].sum()),
                "consumed": int(among.sum()),
                "recommended": int((played.place[among] > 0).sum()),
                "lists": int(played.times[listed].sum()),
                "log_gini": gini(history.counts[: population.items_present]) if name == EVERYONE else None,
                **consumed(mask),
                **shown(mask),
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA), counts


def _consumed_measure(population: Population, history: History, played: Round) -> Measure:
    """Return a function that measures the consumption of some users: this round's, and since the first round."""
    useful = utility(population.preference(played.user, played.item[:, None]))[:, 0]
    diversity = spread_of_directions(history.direction, history.consumed)
    distance = _distance(history.direction, population.world.user_tastes)
    jaccard = history.jaccard(population.pairs)

    def measure(mask: BoolArray) -> Values:
        rows = mask[played.user]
        both = mask[population.pairs].all(axis=1)
        item = played.item[rows]
        return {
            **_spread(population, np.bincount(item, minlength=population.items), "consumed"),
            "consumed_utility": _mean(useful[rows]),
            "consumed_diversity": _mean(diversity[mask]),
            "consumed_distance": _mean(distance[mask]),
            "consumed_jaccard": _mean(jaccard[both]),
        }

    return measure


def _shown_measure(population: Population, history: History, played: Round, settings: LoopSettings) -> Measure:
    """Return a function that measures the lists shown to some users. A list counts as often as it was shown."""
    lists, times = played.lists, played.times
    seen = attention(settings.n, settings.position_bias)
    useful = list_utility(population, lists, seen)
    best = useful
    if len(lists):
        hidden = history.log(population.users_present, population.items_present)
        best = list_utility(population, top_n(population.truth, lists.users, settings.n, hide=[hidden]), seen)
    filled = lists.items >= 0
    sums = (population.directions[lists.items] * filled[:, :, None]).sum(axis=1)
    diversity = spread_of_directions(sums, filled.sum(axis=1))
    pairs, jaccard = _list_jaccard(population, lists)

    def measure(mask: BoolArray) -> Values:
        rows = mask[lists.users]
        weight = times[rows]
        places = np.repeat(lists.items[rows], weight, axis=0).ravel()
        return {
            **_spread(population, np.bincount(places[places >= 0], minlength=population.items), "shown"),
            "shown_utility": _mean(useful[rows], weight),
            "shown_regret": _mean((best - useful)[rows], weight),
            "shown_diversity": _mean(diversity[rows], weight),
            "shown_jaccard": _mean(jaccard[mask[pairs].all(axis=1)]),
        }

    return measure


def _spread(population: Population, counts: IntArray, kind: str) -> Values:
    """How evenly counts are spread over the items present, and how popular these were before the first round."""
    counts = counts[: population.items_present]
    total, here = counts.sum(), slice(len(counts))
    if total == 0:
        return dict.fromkeys((f"{kind}_{name}" for name in _SPREAD), None)
    values = (
        gini(counts),
        coverage(counts),
        float(counts[~population.head[here]].sum() / total),
        float(counts @ population.world.log.item_counts[here] / total),
    )
    return {f"{kind}_{name}": value for name, value in zip(_SPREAD, values, strict=True)}


def spread_of_directions(sums: FloatArray, sizes: IntArray) -> FloatArray:
    """Diversity of each set of items, float64 [sets]: the mean of 1 − cosine over all pairs of its items.

    With m items of directions z_i of norm 1, the mean cosine is (|Σ z_i|² − m) / (m (m − 1)). Sets with fewer than two
    items have no diversity; they are NaN.

    Args:
        sums: [sets, traits], Σ z_i.
        sizes: [sets], m.

    Example:
        >>> spread_of_directions(np.array([[1.0, 1.0], [2.0, 0.0]]), np.array([2, 2])).tolist()
        [1.0, 0.0]
    """
    pairs = np.where(sizes > 1, sizes * (sizes - 1.0), np.nan)
    return np.asarray(1 - ((sums**2).sum(axis=1) - sizes) / pairs)


def _distance(directions: FloatArray, tastes: FloatArray) -> FloatArray:
    """1 − cosine of the mean direction of what each user consumed and their taste, float64 [users]; NaN without any."""
    norms = np.linalg.norm(directions, axis=1) * np.linalg.norm(tastes.astype(np.float64), axis=1)
    return np.asarray(1 - (directions * tastes).sum(axis=1) / np.where(norms > 0, norms, np.nan))


def _list_jaccard(population: Population, lists: Lists) -> tuple[IntArray, FloatArray]:
    """The sampled pairs of users who both have a list, and the Jaccard index of their lists."""
    row = np.full(population.users, -1)
    row[lists.users] = np.arange(len(lists))
    pairs = population.pairs[(row[population.pairs] >= 0).all(axis=1)]
    first, second = (lists.items[row[side]] for side in pairs.T)
    common = ((first[:, :, None] == second[:, None, :]) & (first >= 0)[:, :, None]).sum(axis=(1, 2))
    either = (first >= 0).sum(axis=1) + (second >= 0).sum(axis=1) - common
    return pairs, common / np.maximum(either, 1)


def _mean(values: FloatArray, weight: IntArray | None = None) -> float | None:
    """The mean of the values that are not NaN, or None if there are none."""
    known = ~np.isnan(values)
    if not known.any():
        return None
    return float(np.average(values[known], weights=None if weight is None else weight[known]))
