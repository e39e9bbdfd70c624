"""The page of a simulation, and its text for the terminal."""

from functools import partial
from pathlib import Path

import polars as pl

from icpe.report.figures import simulation as figures
from icpe.report.rendering import FigureCard, check_page_name, figure_card, write_page
from icpe.report.simulation_sentences import fit_sentences, headline, limits_sentence, seeds_sentence
from icpe.runs.provenance import versions
from icpe.simulate.arms import arm_label
from icpe.simulate.measures import EVERYONE
from icpe.simulate.population import GROUPS
from icpe.simulate.results import HOMOGENISATION, REGRET, band
from icpe.simulate.simulation import Simulation
from icpe.tables import Better, Cell, Column, Row, Table, as_turned_text, best, percent

NAME = "report.html"
_CONSUMED, _SHOWN = "Consumed", "Shown in lists"
_COLUMNS: dict[str, tuple[str, str, Better, int]] = {
    "log_gini": ("Gini", "Whole log", "less", 3),
    "consumed_coverage": ("coverage", _CONSUMED, "neither", 3),
    "consumed_niche_share": ("niche share", _CONSUMED, "neither", 3),
    "consumed_popularity": ("popularity", _CONSUMED, "neither", 1),
    "consumed_diversity": ("diversity", _CONSUMED, "neither", 3),
    HOMOGENISATION: ("homogenisation", _CONSUMED, "neither", 4),
    "consumed_utility": ("true utility", "People", "more", 3),
    REGRET: ("regret", "People", "less", 3),
    "consumed_distance": ("distance", "People", "less", 3),
    "shown_gini": ("Gini", _SHOWN, "neither", 3),
    "shown_coverage": ("coverage", _SHOWN, "neither", 3),
    "shown_niche_share": ("niche share", _SHOWN, "neither", 3),
    "shown_utility": ("true utility", _SHOWN, "neither", 3),
}
_FITTED = ("gini", "coverage", "niche_share")  # what the log and a world that is fitted to it have in common
_GROUP_METRICS = {"consumed_utility": "True utility", "consumed_niche_share": "Niche share", REGRET: "Regret"}
_CAPTION = (
    "The last round at an adoption of {adoption}. Gini measures how unevenly the interactions of the whole log are "
    "spread over the items (0: all alike). Coverage is the share of all items, niche share the share of niche items, "
    "popularity the mean number of interactions before the first round. Diversity is the mean distance between the "
    "items of one user; homogenisation is how much more the consumption of two users overlaps than without a "
    "recommender. True utility is the mean probability that users like what they consume, regret what they miss "
    "against the oracle's arm, and distance how far their consumption points from their true taste. ↑ means that more "
    "is better, ↓ that less is better.{spread}"
)


def simulation_report(found: Simulation, command: str | None = None) -> Path:
    """Write the page of a simulation into its folder; returns its path.

    Args:
        found: the results.
        command: the command that runs the simulation again.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    log = found.population.world.log
    return write_page(
        check_page_name(found.folder / NAME),
        "simulation.html",
        title="The feedback loop",
        about=f"A world of {len(log.users):,} users and {len(log.items):,} items, with {len(log):,} interactions "
        f"before the first round. {_about_rounds(found)}",
        headline=headline(found),
        certainty=seeds_sentence(found),
        over_time=_over_time(found),
        across=_across(found),
        sparse=len(found.adoptions) < 4,
        quality=_quality(found),
        table=final_table(found),
        groups=group_table(found),
        fit=fit_sentences(found),
        fit_table=fit_table(found),
        limits=limits_sentence(found),
        settings=found.settings.as_dict(),
        command=command,
        versions=versions(),
    )


def terminal_text(found: Simulation, width: int | None = None) -> list[str]:
    """The table of the last round, the headline, and how certain it is, as paragraphs."""
    sentences = [" ".join(filter(None, both)) for both in headline(found)]
    return [as_turned_text(final_table(found), width), *sentences, *fit_sentences(found), seeds_sentence(found)]


def final_table(found: Simulation) -> Table:
    """The last round of every arm, with standard deviations over the seeds."""
    rows = found.across_adoption().filter(pl.col("adoption") == found.adoption)
    columns = tuple(Column(*_COLUMNS[metric]) for metric in _COLUMNS)
    cells = [_cells(found, rows, metric, column) for metric, column in zip(_COLUMNS, columns, strict=True)]
    made = tuple(Row((arm_label(arm),), tuple(of[at] for of in cells)) for at, arm in enumerate(found.arms))
    spread = " ± is the standard deviation over the seeds." if len(found.seeds) > 1 else ""
    return Table(columns, made, caption=_CAPTION.format(adoption=percent(found.adoption), spread=spread))


def group_table(found: Simulation) -> Table:
    """Some measures of the last round for each group of users."""
    at = (pl.col("adoption") == found.adoption) & (pl.col("round") == found.settings.rounds)
    rows = found.measures.filter(at & (pl.col("group") != EVERYONE))
    columns, cells = [], []
    for metric, title in _GROUP_METRICS.items():
        for group in GROUPS:
            column = Column(group, title, _COLUMNS[metric][2], 3)
            columns.append(column)
            cells.append(_cells(found, rows.filter(pl.col("group") == group), metric, column))
    made = tuple(Row((arm_label(arm),), tuple(of[at] for of in cells)) for at, arm in enumerate(found.arms))
    return Table(tuple(columns), made)


def fit_table(found: Simulation) -> Table | None:
    """The log and what users of the fitted world choose from nothing, side by side; None for a generated world."""
    fit = found.fit
    if fit is None:
        return None
    columns = tuple(Column(name.replace("_", " ").capitalize(), "", "neither", 3) for name in _FITTED)
    rows = [
        Row((label,), tuple(Cell(fit[f"{source}_{name}"]) for name in _FITTED))
        for source, label in (("log", "The log"), ("world", "The world"))
    ]
    return Table(columns, tuple(rows))


def _about_rounds(found: Simulation) -> str:
    """How rounds differ from each other, in words."""
    settings = found.settings
    start = "from the last model" if settings.warm else "from scratch"
    facts = [f"Rounds: {settings.rounds}, trained again every {settings.retrain}, {start}."]
    facts += [f"Exploration: {percent(settings.explore)} of the places."] if settings.explore else []
    facts += [f"Drift of tastes: {settings.drift:g}."] if settings.drift else []
    if settings.new_users or settings.new_items:
        facts.append(f"New in every round: {settings.new_users:,} users and {settings.new_items:,} items.")
    return " ".join([*facts, f"Seeds: {len(found.seeds)}."])


def _cells(found: Simulation, rows: pl.DataFrame, metric: str, column: Column) -> list[Cell]:
    values = {one["arm"]: one for one in band(rows, metric, ["arm"]).to_dicts()}
    means = [values[arm]["mean"] for arm in found.arms]
    winners = best(means, column.better, column.decimals)
    return [
        Cell(mean, values[arm]["std"], rank=int(at in winners))
        for at, (arm, mean) in enumerate(zip(found.arms, means, strict=True))
    ]


def _over_time(found: Simulation) -> list[FigureCard]:
    at = f"At an adoption of {percent(found.adoption)}. Dotted lines: the methods are trained again."
    return [
        figure_card(title, f"{caption} {at}", partial(figures.over_rounds, found, metric, name))
        for title, caption, metric, name in (
            ("Does the log become more uneven?", "Higher: fewer items have more.", "log_gini", figures.GINI),
            ("Do people get what they like?", "Higher is better.", "consumed_utility", figures.UTILITY),
            (
                "Do people become alike?",
                "Above 0: the consumption of two users overlaps more than without a recommender.",
                HOMOGENISATION,
                "homogenisation",
            ),
            (
                "How varied is what one person consumes?",
                "Higher: the items of one user differ more.",
                "consumed_diversity",
                "diversity within users",
            ),
        )
    ]


def _quality(found: Simulation) -> list[FigureCard]:
    caption = "Niche items by their true quality, which is the mean true utility over all users."
    rises = "A recommender that finds good niche items rises to the right, like the oracle."
    return [
        figure_card(title, f"{caption} {rises}", partial(figures.quality_tenth_shares, found, column, name))
        for title, column, name in (
            ("Do lists show good niche items?", "shown", "share of all places in lists"),
            ("Do people consume good niche items?", "consumed", "share of all consumption"),
        )
    ]


def _across(found: Simulation) -> list[FigureCard]:
    caption = "The last round. At 0 nobody follows a list, so all arms are the same."
    return [
        figure_card(title, caption, partial(figures.across_adoption, found, metric, name))
        for title, metric, name in (
            ("Unevenness of the log", "log_gini", figures.GINI),
            ("True utility", "consumed_utility", figures.UTILITY),
            ("Homogenisation", HOMOGENISATION, "homogenisation"),
            ("Diversity within users", "consumed_diversity", "diversity within users"),
        )
    ]
