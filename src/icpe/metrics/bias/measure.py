"""All bias metrics of a set of lists, with bootstrap intervals over users."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.metrics.bias import concentration, per_list
from icpe.metrics.bias.attention import attention, expected_exposure, item_attention, wanted_attention
from icpe.metrics.bias.parity import parity_gap
from icpe.metrics.bias.resampling import RESAMPLES, draws, interval
from icpe.metrics.bias.user_groups import Profiles, UserGroups
from icpe.metrics.exposure import exposure
from icpe.metrics.power_law import PowerLaw
from icpe.ranking import Lists
from icpe.types import BoolArray, FloatArray, IntArray

Interval = tuple[float, float]
STEEPEST = 10.0  # the amplification slope is between -10 and 10: lists of nothing but the top item have no finite one
_BY_GROUP = ("recall", "ndcg")  # further metrics that are reported for each group of users
_SHARES = ("coverage", "gini", "weighted_gini")  # their intervals end at 0 and 1


@dataclass(frozen=True, eq=False)
class Bias:
    """Bias metrics of a set of lists.

    Attributes:
        values: metrics by name, such as ``popularity_lift@20``; NaN where there is nothing to measure.
        intervals: bounds of a 95 % interval of these metrics and of those that were given, where they have a value.
        group_sizes: number of lists of each group of users.
    """

    values: dict[str, float]
    intervals: dict[str, Interval]
    group_sizes: dict[str, int]


def measure_bias(
    lists: Lists,
    log: Interactions,
    head: BoolArray,
    test: Interactions | None = None,
    further: Mapping[str, FloatArray] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Bias:
    """Measure how lists treat popular items and the users who like them or not.

    Args:
        lists: the lists, whose length is n.
        log: what users had used. Its codes are those of the lists; unknown users and items have no pairs.
        head: mask [items] of the head items.
        test: what users wanted later, in the same codes, possibly with further users and items at the end. It adds
            ``pop_reo``, ``ee_d``, ``ee_r`` and ``ee_l``.
        further: metrics of each list by name, such as ``recall@20``, float64 [lists] with NaN where there is none. They
            get intervals, and recall and NDCG also values for each group of users.
        resamples: number of resamples of the bootstrap; 0 for no intervals.
        seed: seed of the resamples.
    """
    n = lists.items.shape[1]
    profiles = Profiles.of(log, head)
    groups = UserGroups.of(profiles)
    sums = _Sums.of(lists, log, head, profiles, groups, test, dict(further or {}))
    wanted = None if test is None else _Wanted.of(lists, test, n)
    everything = np.ones((1, len(lists)))
    found = sums.metrics(everything) | _concentrations(
        exposure(lists.items, len(log.items))[None], item_attention(lists.items, len(log.items))[None]
    )
    found |= {} if wanted is None else wanted.metrics(everything)
    given = {name.partition("@")[0] for name in further or ()}
    own = {name: float(value[0]) for name, value in found.items()}
    resampled = _resampled(lists, len(log.items), sums, wanted, resamples, seed) if resamples else {}
    bounds = {name: _bounded(name, interval(own[name], values)) for name, values in resampled.items()}
    return Bias(
        {f"{name}@{n}": value for name, value in own.items() if name not in given | {"coverage", "gini"}},
        {f"{name}@{n}": both for name, both in bounds.items() if both is not None},
        {name: int(chosen.sum()) for name, chosen in groups.members(lists.users).items()},
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Columns per list whose sums over lists, or over a resample of them, give metrics.

    Attributes:
        names: names of the columns.
        table: float64 [lists, columns], 0 where a list has no value.
        means: names of the metrics that are means over the lists with a value.
        law: how popularity is distributed over items.
    """

    names: list[str]
    table: FloatArray
    means: list[str]
    law: PowerLaw

    @classmethod
    def of(
        cls,
        lists: Lists,
        log: Interactions,
        head: BoolArray,
        profiles: Profiles,
        groups: UserGroups,
        test: Interactions | None,
        further: dict[str, FloatArray],
    ) -> "_Sums":
        means = per_list.mean_columns(lists, log, head)
        plain = {name.partition("@")[0]: column for name, column in further.items()}
        chosen = {"popularity_jsd": means["popularity_jsd"]}
        chosen |= {name: plain[name] for name in _BY_GROUP if name in plain}
        means |= plain | per_list.by_group(chosen, groups, lists.users)
        lift = per_list.lift_columns(lists, log, profiles)
        sums = lift | per_list.by_group(lift, groups, lists.users)
        sums |= per_list.parity_columns(lists, head, profiles) | per_list.log_columns(lists, log)
        if test is not None:
            wide = np.concatenate([head, np.zeros(len(test.items) - len(head), bool)])
            sums |= per_list.opportunity_columns(lists, wide, test)
        present = {f"lists with {name}": (~np.isnan(column)).astype(np.float64) for name, column in means.items()}
        columns = {**means, **present, **sums}
        table = np.nan_to_num(np.stack(list(columns.values()), axis=1))
        return cls(list(columns), table, list(means), PowerLaw.of(log.item_counts))

    def metrics(self, times: FloatArray) -> dict[str, FloatArray]:
        """Metrics of lists that occur this often, by name, float64 [resamples]; ``times`` is [resamples, lists]."""
        total = dict(zip(self.names, (times.astype(np.float64, copy=False) @ self.table).T, strict=True))
        found = {name: _ratio(total[name], total[f"lists with {name}"]) for name in self.means}
        for end in ("", *(f"_{group}" for group in UserGroups.NAMES)):
            lift = _ratio(total[f"list_popularity{end}"], total[f"profile_popularity{end}"]) - 1
            found[f"popularity_lift{end}"] = lift
        found["pop_rsp"] = _gap(total, "shown", "open")
        if "head_hits" in total:
            found["pop_reo"] = _gap(total, "hits", "wanted")
        mean_logs = _ratio(total["log_popularity"], total["popular_places"])
        return found | {"amplification": self.law.power(mean_logs, -STEEPEST, STEEPEST)}


@dataclass(frozen=True, eq=False)
class _Wanted:
    """Attention of the lists of users with test items, and what an ideal recommender would give.

    Attributes:
        rows: int64 [evaluated lists], which lists these are.
        shown: sparse [items, evaluated lists], attention of each item in each list.
        wanted: the same of ideal lists, minus what every other item gets.
        other: float64 [evaluated lists], what every other item gets.
    """

    rows: IntArray
    shown: Any
    wanted: Any
    other: FloatArray

    @classmethod
    def of(cls, lists: Lists, test: Interactions, n: int) -> "_Wanted":
        rows = np.flatnonzero(test.user_counts[lists.users])
        counts = test.user_counts[lists.users[rows]]
        relevant, other = wanted_attention(counts, len(test.items), n)
        first = np.searchsorted(test.user, lists.users[rows].astype(test.user.dtype))
        ends = np.cumsum(counts)
        pairs = np.arange(counts.sum()) + np.repeat(first - ends + counts, counts)
        starts = np.concatenate([[0], ends])
        wanted = _columns(test.item[pairs], starts, np.repeat(relevant - other, counts), len(test.items))
        return cls(rows, _attention_matrix(lists.items[rows], len(test.items), np.float64), wanted, other)

    def metrics(self, times: FloatArray) -> dict[str, FloatArray]:
        """Expected-exposure metrics of lists that occur this often, by name; ``times`` is [resamples, lists]."""
        chosen = times[:, self.rows].astype(np.float64)
        share = (chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1.0)).T
        disparity, relevance, loss = expected_exposure(
            (self.shown @ share).T, (self.wanted @ share + self.other @ share).T
        )
        return {"ee_d": disparity, "ee_r": relevance, "ee_l": loss}


def _resampled(
    lists: Lists, size: int, sums: _Sums, wanted: _Wanted | None, resamples: int, seed: int
) -> dict[str, FloatArray]:
    """Metrics of all resamples, by name, float64 [resamples]."""
    weights = _attention_matrix(lists.items, size, np.float32)
    counts = weights.copy()
    counts.data = (counts.data > 0).astype(np.float32)
    parts = []
    for times in draws(len(lists), resamples, seed):
        columns = np.ascontiguousarray(times.T)
        shown, weighted = (np.ascontiguousarray((one @ columns).T) for one in (counts, weights))
        found = sums.metrics(times) | _concentrations(shown, weighted)
        parts.append(found | ({} if wanted is None else wanted.metrics(times)))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _concentrations(shown: FloatArray | IntArray, weighted: FloatArray) -> dict[str, FloatArray]:
    """Metrics of how often and with how much attention each item is shown, both [resamples, items]."""
    return {
        "coverage": concentration.coverage(shown),
        "gini": concentration.gini(shown),
        "weighted_gini": concentration.gini(weighted),
        "entropy": concentration.entropy(shown),
    }


def _attention_matrix(items: IntArray, size: int, dtype: Any) -> Any:
    """Sparse matrix [items, lists] of the attention of each item in each list."""
    filled = items >= 0
    starts = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    return _columns(items[filled], starts, attention(items)[filled].astype(dtype), size)


def _columns(items: IntArray, starts: IntArray, values: FloatArray, size: int) -> Any:
    from scipy.sparse import csc_array  # late: SciPy takes a while to import

    return csc_array((values, items, starts), shape=(size, len(starts) - 1))


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    return np.asarray(np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0))


def _gap(total: Mapping[str, FloatArray], part: str, whole: str) -> FloatArray:
    head, niche = (_ratio(total[f"{group}_{part}"], total[f"{group}_{whole}"]) for group in ("head", "niche"))
    return parity_gap(head, niche)


def _bounded(name: str, bounds: Interval | None) -> Interval | None:
    if bounds is None or name not in _SHARES:
        return bounds
    return max(bounds[0], 0.0), min(bounds[1], 1.0)
