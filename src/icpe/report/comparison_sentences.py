"""Sentences about a comparison: what the subject changed, and where it loses."""

from collections.abc import Sequence

import polars as pl

from icpe.compare.names import BASELINES, backbone_name, higher_is_better, metric_column
from icpe.compare.significance import Comparison, ResultRow
from icpe.compare.tables import ResultTable
from icpe.report.sentences import exposure_comparison


def headline(table: ResultTable, subject: ResultRow | None, reference: ResultRow | None) -> tuple[str, str]:
    """A sentence about what is shown on one backbone, and sentences about accuracy.

    Args:
        table: The result table.
        subject: The row that the page is about; None if the grid has none.
        reference: The row without debiasing; None if the grid has none.
    """
    if subject is None:
        return _winners(table.rows), ""
    here = [row for row in table.rows if row.backbone == subject.backbone]
    place = f"On {backbone_name(subject.backbone)}, "
    if reference is None or reference.label == subject.label:
        others = len(here) - 1
        shown = f"{place}{subject.label} was compared with {others} other row{'s' * (others != 1)}."
        return shown, _rivals(table, subject)
    n = next((int(name.partition("@")[2]) for name in table.metrics if "@" in name), 20)
    shown = place + exposure_comparison(subject.label, subject.means, reference.label, reference.means, n)
    return shown, f"{_against(subject, reference, table.metrics)} {_rivals(table, subject)}".strip()


def _against(subject: ResultRow, reference: ResultRow, metrics: Sequence[str]) -> str:
    """Where the subject is better and worse than the reference, after rounding as in the table."""
    better: list[str] = []
    worse: list[str] = []
    for metric in metrics:
        ours, theirs = subject.means[metric], reference.means[metric]
        if ours is None or theirs is None or round(ours, 4) == round(theirs, 4):
            continue
        gained = (ours > theirs) == higher_is_better(metric)
        (better if gained else worse).append(_name(metric))
    return (
        f"Compared with {reference.label}, {subject.label} gains in {_listed(better)} and loses in {_listed(worse)}. "
        f"{'Each has one seed.' if len(subject.seeds) < 2 else ''}"
    ).strip()


def _rivals(table: ResultTable, subject: ResultRow) -> str:
    """The subject against the best rival in each metric."""
    tests = [one for one in table.comparisons if (one.backbone, one.subject) == (subject.backbone, subject.label)]
    if not tests:
        return ""
    unequal = [one for one in tests if round(one.difference, 4)]
    ahead = _listed([_versus(one) for one in unequal if one.better])
    behind = _listed([_versus(one) for one in unequal if not one.better])
    significant = sum(one.mark != "" for one in tests)
    chance = (
        f"{significant or 'None'} of these differences {'is' if significant == 1 else 'are'} significant."
        if any(one.p is not None for one in tests)
        else "There are too few seeds to test whether these differences are significant."
    )
    return f"Compared with the best rival in each metric, it is ahead in {ahead} and behind in {behind}. {chance}"


def _versus(one: Comparison) -> str:
    return f"{_name(one.metric)} ({one.rival}{one.mark})"


def _winners(rows: Sequence[ResultRow]) -> str:
    """The best method on each backbone in the first metric, for grids without a subject."""
    sentences = []
    for backbone in dict.fromkeys(row.backbone for row in rows):
        here = [row for row in rows if row.backbone == backbone and row.method not in BASELINES]
        metric = next((name for row in here for name in row.means if row.means[name] is not None), None)
        if metric is not None:
            best = max((row for row in here if row.means[metric] is not None), key=lambda row: row.means[metric] or 0)
            sentence = f"{best.label} has the best {_name(metric)} on {backbone_name(backbone)}"
            floors = [row for row in rows if row.method in BASELINES and row.backbone == backbone]
            above = [row.label for row in floors if (row.means[metric] or 0) > (best.means[metric] or 0)]
            sentences.append(
                f"{sentence} of all trained methods, but {' and '.join(above)} has more" if above else sentence
            )
    return f"{'; '.join(sentences)}." if sentences else "Nothing was measured yet."


def undertrained(results: pl.DataFrame) -> str:
    """Return a warning that names the methods with runs whose last validation was the best one, or "".

    Args:
        results: one row for each run, as :attr:`icpe.compare.grid.Grid.results` has them.
    """
    validated = results.filter(pl.col("valid_ndcg@20").is_not_null(), pl.col("steps") > 0)
    rising = validated.filter(pl.col("best_step") == pl.col("steps"))
    if rising.is_empty():
        return ""
    methods, verb = ", ".join(rising["label"].unique(maintain_order=True)), "was" if len(rising) == 1 else "were"
    return (
        f"{len(rising)} of {len(validated)} runs {verb} still improving at the last validation ({methods}). Longer "
        "trainings (--train.epochs) may change the order."
    )


def _name(metric: str) -> str:
    return metric_column(metric).name


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
