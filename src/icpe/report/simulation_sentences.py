"""Sentences that say what a simulation has found."""

import polars as pl

from icpe.report.sentences import Headline
from icpe.simulate.arms import NONE, ORACLE, REFERENCES, arm_label
from icpe.simulate.measures import EVERYONE
from icpe.simulate.results import band
from icpe.simulate.simulation import Simulation
from icpe.tables import percent

_GROUP_WORDS = {
    "niche": "users with niche tastes",
    "mixed": "users with mixed tastes",
    "blockbuster": "users who like hits",
}
_CLEAR = 0.005  # a smaller difference in Gini or utility is called none


def headline(found: Simulation) -> Headline:
    """What each method does to the log and to people, compared with no recommender; one pair of sentences each."""
    gini, useful = (_last(found, metric) for metric in ("log_gini", "consumed_utility"))
    pairs = []
    for arm in [arm for arm in found.arms if arm not in REFERENCES] or ["popularity"]:
        label = arm_label(arm)
        large = (
            f"After {found.settings.rounds} rounds in which {percent(found.adoption)} of the visits follow its lists, "
            f"{label} has made the log {_compared(gini[arm] - gini[NONE], 'more uneven', 'more even')} than without a "
            f"recommender (Gini {gini[arm]:.3f} against {gini[NONE]:.3f}), and people like what they consume "
            f"{_compared(useful[arm] - useful[NONE], 'more', 'less')} (true utility {useful[arm]:.3f} against "
            f"{useful[NONE]:.3f})."
        )
        pairs.append((large, f"{_of_the_way(label, useful[arm], useful)} {_groups(found, arm)}"))
    return pairs


def seeds_sentence(found: Simulation) -> str:
    """How certain the numbers are."""
    count = len(found.seeds)
    if count == 1:
        return (
            "These numbers come from a single seed, so small differences may be chance. Arms share all random numbers, "
            "which removes most but not all of it. Add seeds for bands."
        )
    return f"Numbers are means over {count} seeds; bands in the figures reach from the smallest to the largest seed."


def _compared(difference: float, more: str, less: str) -> str:
    if abs(difference) < _CLEAR:
        return f"hardly {more}"
    return more if difference > 0 else less


def _of_the_way(label: str, value: float, useful: dict[str, float]) -> str:
    """How much of what a perfect recommender adds this one adds."""
    possible = useful[ORACLE] - useful[NONE]
    if possible < _CLEAR:
        return ""
    share = (value - useful[NONE]) / possible
    gained = f"{percent(share)} of" if share > 0 else "none of"
    return f"{label} gains {gained} what an oracle that knows all tastes gains over no recommender."


def _groups(found: Simulation, arm: str) -> str:
    """Which group of users gains least."""
    gains = {}
    for group in _GROUP_WORDS:
        useful = _last(found, "consumed_utility", group)
        if useful.get(arm) is None or useful.get(NONE) is None:
            return ""
        gains[group] = useful[arm] - useful[NONE]
    worst = min(gains, key=lambda group: gains[group])
    return (
        f"True utility changes by {gains['niche']:+.3f} for users with niche tastes, {gains['mixed']:+.3f} for users "
        f"with mixed tastes and {gains['blockbuster']:+.3f} for users who like hits; {_GROUP_WORDS[worst]} fare worst."
    )


def _last(found: Simulation, metric: str, group: str = EVERYONE) -> dict[str, float]:
    """The mean of a metric in the last round over all seeds, by arm."""
    at = (pl.col("adoption") == found.adoption) & (pl.col("round") == found.settings.rounds)
    rows = band(found.measures.filter(at & (pl.col("group") == group)), metric, ["arm"])
    return dict(rows.select("arm", "mean").iter_rows())
