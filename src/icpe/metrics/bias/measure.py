"""All bias metrics of a set of lists, with bootstrap intervals over users."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from icpe.data.interactions import Interactions
from icpe.metrics.bias import concentration
from icpe.metrics.bias.attention import item_attention
from icpe.metrics.bias.ideal import IdealLists, attention_matrix
from icpe.metrics.bias.resampling import RESAMPLES, draws, interval
from icpe.metrics.bias.sums import ListSums
from icpe.metrics.bias.user_groups import Profiles, UserGroups
from icpe.metrics.exposure import exposure
from icpe.ranking import Lists
from icpe.types import BoolArray, FloatArray, IntArray

Interval = tuple[float, float]
_CONCENTRATIONS = {  # metrics that depend on how many lists a resample contains, with their upper limits
    "coverage": 1.0, "gini": 1.0, "weighted_gini": 1.0, "entropy": np.inf, "ee_d": 1.0, "ee_r": 2.0, "ee_l": 2.0,
}  # fmt: skip


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
    sums = ListSums.of(lists, log, head, profiles, groups, test, dict(further or {}))
    wanted = None if test is None else IdealLists.of(lists, test, n)
    everything = np.ones((1, len(lists)))
    found = sums.metrics(everything) | _concentrations(
        exposure(lists.items, len(log.items))[None], item_attention(lists.items, len(log.items))[None]
    )
    found |= {} if wanted is None else wanted.metrics(everything)
    given = {name.partition("@")[0] for name in further or ()}
    own = {name: float(value[0]) for name, value in found.items()}
    resampled = _resampled(lists, len(log.items), sums, wanted, resamples, seed) if resamples and len(lists) > 1 else {}
    bounds = {name: _interval(name, own[name], values) for name, values in resampled.items()}
    return Bias(
        {f"{name}@{n}": value for name, value in own.items() if name not in given | {"coverage", "gini"}},
        {f"{name}@{n}": both for name, both in bounds.items() if both is not None},
        {name: int(chosen.sum()) for name, chosen in groups.members(lists.users).items()},
    )


def _resampled(
    lists: Lists, size: int, sums: ListSums, wanted: IdealLists | None, resamples: int, seed: int
) -> dict[str, FloatArray]:
    """Metrics of all resamples, by name, float64 [resamples]."""
    weights = attention_matrix(lists.items, size, np.float32)
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


def _interval(name: str, value: float, resampled: FloatArray) -> Interval | None:
    if name not in _CONCENTRATIONS:
        return interval(value, resampled)
    found = interval(value, resampled, centred=True)
    # Moved bounds can leave the range of the metric.
    return None if found is None else (max(found[0], 0.0), min(found[1], _CONCENTRATIONS[name]))
