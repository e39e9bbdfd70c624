"""Metrics that are means over lists or ratios of sums over lists, for all lists or for resamples of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from icpe.data.interactions import Interactions
from icpe.metrics.bias import per_list
from icpe.metrics.bias.parity import parity_gap
from icpe.metrics.bias.user_groups import Profiles, UserGroups
from icpe.metrics.power_law import PowerLaw
from icpe.ranking import Lists
from icpe.types import BoolArray, FloatArray

STEEPEST = 10.0  # the amplification slope is between -10 and 10: lists of nothing but the top item have no finite one
_BY_GROUP = ("recall", "ndcg")  # further metrics that are reported for each group of users


@dataclass(frozen=True, eq=False)
class ListSums:
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
    ) -> "ListSums":
        """Return the columns of these lists; arguments as of :func:`icpe.metrics.bias.measure_bias`."""
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


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    return np.asarray(np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0))


def _gap(total: Mapping[str, FloatArray], part: str, whole: str) -> FloatArray:
    head, niche = (_ratio(total[f"{group}_{part}"], total[f"{group}_{whole}"]) for group in ("head", "niche"))
    return parity_gap(head, niche)
