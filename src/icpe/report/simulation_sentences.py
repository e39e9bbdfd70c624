"""Sentences that say what a simulation has found."""

from math import exp

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


def limits_sentence(found: Simulation) -> str:
    """What the model of people leaves out."""
    tastes = "tastes drift by chance but follow no list" if found.settings.drift else "tastes do not change"
    return (
        f"People here are a model: {tastes}, an item counts for a user once, and acceptance depends on "
        "taste alone. Compare arms with each other; do not read the numbers as a forecast for a real service."
    )


def seeds_sentence(found: Simulation) -> str:
    """How certain the numbers are."""
    count = len(found.seeds)
    if count == 1:
        return (
            "These numbers come from a single seed, so small differences may be chance. Arms share all random numbers, "
            "which removes most but not all of it. Add seeds for bands."
        )
    return f"Numbers are means over {count} seeds; bands in the figures reach from the smallest to the largest seed."


def fit_sentences(found: Simulation) -> list[str]:
    """How well a world that was fitted to a log reproduces the log; nothing for a generated world."""
    fit = found.fit
    if fit is None:
        return []
    return [
        "The world is fitted to a log: tastes come from ICPE on MF, trained on the log, so the arms of ICPE look for "
        "tastes of their own form, which favours them. A choice that the model has "
        f"not seen is {exp(fit['likelihood'] - fit['by_popularity']):.1f} times as likely under the fitted world as "
        "under popularity alone. Users find items with a probability that grows with popularity to the power of "
        f"{fit['pull']:.2f}.",
        f"When {fit['users']:,} users choose again from nothing, without a recommender, the popularity of items has a "
        f"rank correlation of {fit['rank_correlation']:.2f} with that in the log (Kolmogorov-Smirnov distance "
        f"{fit['ks']:.2f}), and the share of hits of a user a correlation of {fit['head_share_correlation']:.2f}. "
        f"{percent(fit['log_repeats'])} of the rows of the log repeat an earlier pair; in the world, "
        f"{percent(fit['world_repeats'])} of the visits do, by its settings.",
        f"A log shows no lists. That users look at place k with probability k to the power of "
        f"{-found.settings.position_bias:g}, and accept what they have chosen in the log with probability "
        f"{fit['liking']:g} on average, are assumptions.",
    ]


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
    """What each group of users gains, and which gains least or loses most."""
    gains = {}
    for group in _GROUP_WORDS:
        useful = _last(found, "consumed_utility", group)
        if useful.get(arm) is None or useful.get(NONE) is None:
            return ""
        gains[group] = useful[arm] - useful[NONE]
    worst = min(gains, key=lambda group: gains[group])
    words = "gain least" if gains[worst] > 0 else "lose most"
    return (
        f"True utility changes by {gains['niche']:+.3f} for users with niche tastes, {gains['mixed']:+.3f} for users "
        f"with mixed tastes and {gains['blockbuster']:+.3f} for users who like hits; {_GROUP_WORDS[worst]} {words}."
    )


def _last(found: Simulation, metric: str, group: str = EVERYONE) -> dict[str, float]:
    """The mean of a metric in the last round over all seeds, by arm."""
    at = (pl.col("adoption") == found.adoption) & (pl.col("round") == found.settings.rounds)
    rows = band(found.measures.filter(at & (pl.col("group") == group)), metric, ["arm"])
    return dict(rows.select("arm", "mean").iter_rows())
