"""The part of an audit's page about bias: sentences, tables and figures with what they mean and where they end."""

from functools import partial
from typing import NamedTuple

from icpe.audit import Audit, AuditedLists
from icpe.metrics.bias import UserGroups
from icpe.metrics.bias.concentration import lorenz_curve
from icpe.metrics.bias.resampling import RESAMPLES
from icpe.report.figures.bias import Lift, lift_by_group, lorenz
from icpe.report.figures.style import position_style
from icpe.report.rendering import FigureCard, figure_card
from icpe.report.results import Values
from icpe.tables import Cell, Column, Row, Table, percent

PERCEPTION = (
    "These metrics count interactions. In user studies, the divergence agrees only moderately with how popular people "
    "find a list (Lesota et al. 2023), so ask users before you conclude that they notice a difference."
)


class _Metric(NamedTuple):
    title: str
    decimals: int
    meaning: str


METRICS = {
    "weighted_apt": _Metric(
        "Niche share of attention", 3, "As APT, but high positions count more: 1 / log2(rank + 1)."
    ),
    "aclt": _Metric("ACLT", 2, "Number of niche items in a list, on average."),
    "weighted_gini": _Metric("Gini of attention", 3, "As Gini, but high positions count more."),
    "entropy": _Metric("Entropy", 2, "Spread of the positions in bits; one bit more is like twice as many items."),
    "amplification": _Metric(
        "Amplification",
        2,
        "Power of popularity in the exposure: 0 if all items are shown alike, 1 if proportionally, above 1 if more.",
    ),
    "popularity_lift": _Metric(
        "Popularity lift", 3, "Popularity of shown items over that of used items, minus 1; 0 is what people chose."
    ),
    "popularity_jsd": _Metric(
        "Popularity divergence", 3, "Distance of a list from its user's mixture of popular and rare items, 0 to 1."
    ),
    "pop_rsp": _Metric("PopRSP", 3, "Gap between head and niche items in the chance of being listed, 0 to 1."),
    "pop_reo": _Metric("PopREO", 3, "The same for items that users wanted later."),
    "ee_d": _Metric("EE-D", 5, "Concentration of attention; its inverse is the effective number of items."),
    "ee_r": _Metric("EE-R", 5, "Agreement of attention with what users wanted later; more is better."),
    "ee_l": _Metric("EE-L", 5, "Distance from ideal attention, which all wanted items share alike; less is better."),
}
_GROUP_NAMES = {"niche_users": "niche users", "mixed_users": "mixed users", "blockbuster_users": "blockbuster users"}


def users_sentence(audit: Audit, one: AuditedLists, first: AuditedLists | None = None) -> str:
    """How popular the lists of niche and blockbuster users are, measured by what they chose."""
    ends = [f"popularity_lift{end}@{audit.n}" for end in ("_niche_users", "_blockbuster_users", "")]
    niche, blockbuster, everybody = ends
    if one.values[everybody] is None:
        return "No user with a list is in the log, so lists cannot be compared with what people chose."
    if one.values[niche] is None or one.values[blockbuster] is None:
        return f"Shown items are {_times(one, first, everybody)} as popular as the items that people chose."
    return (
        f"The fifth of users who chose the fewest hits get items {_times(one, first, niche)} as popular as their own "
        f"choices; the fifth who chose the most hits, {_times(one, first, blockbuster)}."
    )


def accuracy_sentence(audit: Audit, one: AuditedLists, first: AuditedLists | None = None) -> str:
    """How much of what people wanted later the lists contain, for all users and for the two ends."""
    if audit.test is None:
        return "Without a test part, the accuracy of the lists is unknown."

    def recall(end: str) -> str:
        name = f"recall{end}@{audit.n}"
        compared = f" ('{first.label}': {percent(first.values[name])})" if first else ""
        return f"{percent(one.values[name])}{compared}"

    found = f"The lists contain {recall('')} of what people wanted later"
    if None in (one.values[f"recall_{group}@{audit.n}"] for group in ("niche_users", "blockbuster_users")):
        return f"{found}."
    return f"{found}: {recall('_niche_users')} for the former and {recall('_blockbuster_users')} for the latter."


def bias_table(audit: Audit) -> Table:
    """The table of the bias metrics: a row for each metric, and its value and interval for each set."""
    rows = []
    for name, metric in METRICS.items():
        if f"{name}@{audit.n}" in audit.sets[0].values:
            cells = tuple(Cell(_with_interval(one, f"{name}@{audit.n}", metric.decimals)) for one in audit.sets)
            rows.append(Row((metric.title,), cells))
    caption = f"In brackets: 95 % interval, from drawing users again at random ({RESAMPLES} times)."
    return Table(tuple(Column(one.label) for one in audit.sets), tuple(rows), ("metric",), caption)


def bias_meanings(audit: Audit) -> dict[str, str]:
    """What each metric of the table means, by title."""
    known = audit.sets[0].values
    return {one.title: one.meaning for name, one in METRICS.items() if f"{name}@{audit.n}" in known}


def user_group_table(audit: Audit) -> Table:
    """The table of niche, mixed and blockbuster users under each set of lists."""
    columns = [Column("lists", decimals=0), Column("Popularity lift"), Column("Popularity divergence", better="less")]
    metrics = ["popularity_lift", "popularity_jsd"]
    if audit.test is not None:
        columns += [Column(f"Recall@{audit.n}", better="more"), Column(f"NDCG@{audit.n}", better="more")]
        metrics += ["recall", "ndcg"]
    rows = []
    for group, title in _GROUP_NAMES.items():
        for one in audit.sets:
            values = [Cell(_with_interval(one, f"{name}_{group}@{audit.n}", 3)) for name in metrics]
            rows.append(Row((title, one.label), (Cell(one.group_sizes[group]), *values)))
    caption = (
        "Users are sorted by the share of head items in what they used: the lowest fifth are niche users, the highest "
        "fifth blockbuster users. Lift 0 and divergence 0 mean that a list is as popular as its user's own choices. "
        "In brackets: 95 % interval."
    )
    return Table(tuple(columns), tuple(rows), ("users", "set"), caption)


def lift_card(audit: Audit) -> FigureCard:
    """The figure of the popularity lift by group of users."""
    lifts = []
    for at, one in enumerate(audit.sets):
        names = [f"popularity_lift_{group}@{audit.n}" for group in UserGroups.NAMES]
        bounds = [one.intervals.get(name) for name in names]
        lifts.append(Lift(one.label, position_style(at), [one.values[name] for name in names], bounds))
    meaning = (
        "Above 0, people get more popular items than they chose. If the bar of niche users is the highest, the lists "
        "push those people most who like hits least."
    )
    limits = f"A few very popular items decide most of an average, and groups hide single people. {PERCEPTION}"
    draw = partial(lift_by_group, [name.split()[0] for name in _GROUP_NAMES.values()], lifts)
    return figure_card("Popularity lift by group of users", "Whiskers: 95 % interval.", draw, meaning, limits)


def lorenz_card(audit: Audit) -> FigureCard:
    """The figure of the Lorenz curves."""
    curves = [(one.label, position_style(at), one.lorenz) for at, one in enumerate(audit.sets)]
    meaning = (
        "The further a curve sags below the diagonal, the fewer items share the positions. Twice the area between them "
        "is the Gini coefficient."
    )
    limits = (
        "The curve does not say which items are shown: a few niche items that fill all lists look like a few hits. "
        "Items that could not be shown, such as those out of stock, count as not shown."
    )
    draw = partial(lorenz, lorenz_curve(audit.log.item_counts), curves)
    return figure_card("Lorenz curve", "Items in the order of their own exposure.", draw, meaning, limits)


def _times(one: AuditedLists, first: AuditedLists | None, name: str) -> str:
    compared = f" ('{first.label}': {_factor(first.values, name)})" if first else ""
    return f"{_factor(one.values, name)} times{compared}"


def _factor(values: Values, name: str) -> str:
    value = values.get(name)
    return "an unknown number of" if value is None else f"{1 + value:.1f}"


def _with_interval(one: AuditedLists, name: str, decimals: int) -> str | None:
    value, bounds = one.values[name], one.intervals.get(name)
    if value is None:
        return None
    number = f"{value:.{decimals}f}"
    return number if bounds is None else f"{number} ({bounds[0]:.{decimals}f} to {bounds[1]:.{decimals}f})"
