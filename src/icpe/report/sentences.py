"""Sentences that say what the numbers of runs and audits mean."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.report.results import ResultColumn, Values
from icpe.tables import best, percent

if TYPE_CHECKING:  # brings the methods and backbones, which the page of an audit does not need
    from icpe.runs.record import RunRecord

Headline = list[tuple[str, str]]  # pairs of a sentence in large type and sentences in ordinary type
TRUE_RECALL = (
    "True Recall@{n} measures what people would like, not what they happened to use next. It is the share of the {n} "
    "items that a user would truly like best, among those not in the log, that the list of {n} contains. For head and "
    "niche items it looks at the head or niche items among those {n}, averaged over the users who have any."
)
_GROUP_WORDS = {"all": "overall", "head": "for head items", "niche": "for niche items"}


def title(runs: "Sequence[RunRecord]") -> str:
    """The title of a page about runs."""
    if len(runs) == 1:
        return f"{runs[0].label} on {runs[0].model.method.backbone.label}"
    return versus([run.label for run in runs], "runs")


def versus(labels: Sequence[str], kind: str) -> str:
    """A title that names the others and the first, which they are compared with.

    Example:
        >>> versus(["Normal", "ICPE"], "runs"), versus(["A", "B", "C", "D"], "runs")
        ('ICPE against Normal', '3 runs against A')
        >>> versus(["Normal", "ICPE", "DICE"], "runs")
        'ICPE and DICE against Normal'
    """
    first, *others = labels
    return f"{' and '.join(others) if len(others) < 3 else f'{len(others)} {kind}'} against {first}"


def headline(runs: "Sequence[RunRecord]", columns: Sequence[ResultColumn]) -> Headline:
    """What each run shows and how accurate it is, compared with the first run; or the same for a single run."""
    first, *others = runs
    if not all(run.values for run in runs):
        return [("Nothing was measured, because there is neither a validation nor a test part.", "")]
    if not others:
        shown = exposure_sentence(first.label, first.values, first.n, first.model.log, "training interactions")
        return [(shown, recall_sentences(columns, 0))]
    return [
        (
            exposure_comparison(run.label, run.values, first.label, first.values, run.n),
            f"{recall_sentences(columns, at)} {better_sentence(run.label, first.label, at, columns)}",
        )
        for at, run in enumerate(others, 1)
    ]


def exposure_sentence(label: str, values: Values, n: int, log: Interactions, rows: str) -> str:
    """How much niche items get of the lists and of the log.

    Args:
        label: Name of the run or the set of lists.
        values: Its metrics.
        n: List length.
        log: The log that decides what is niche.
        rows: What the rows of the log are called.
    """
    niche = ~head_mask(log.item_counts)
    share = log.item_counts[niche].sum() / len(log)
    return (
        f"{label} fills {percent(values.get(f'apt@{n}'))} of the list positions with niche items, which are "
        f"{percent(niche.mean())} of the catalogue and have {percent(share)} of the {rows}; it shows "
        f"{percent(values.get(f'coverage@{n}'))} of all items."
    )


def exposure_comparison(label: str, values: Values, other: str, other_values: Values, n: int) -> str:
    """How much niche items get of the lists, and how many items are shown, of one and of the other."""
    apt, coverage = f"apt@{n}", f"coverage@{n}"
    return (
        f"{label} fills {percent(values.get(apt))} of the list positions with niche items ({other}: "
        f"{percent(other_values.get(apt))}) and shows {percent(values.get(coverage))} of all items ({other}: "
        f"{percent(other_values.get(coverage))})."
    )


def recall_sentences(columns: Sequence[ResultColumn], at: int) -> str:
    """The recall values of the row at this position, next to those of the first row."""
    sentences = []
    for group, members in groupby(columns, key=lambda one: one.column.group):
        if "Recall" in group:
            parts = []
            for one in members:
                compared = f" against {_number(one.values[0])}" if at else ""
                words = _GROUP_WORDS.get(one.column.name, one.column.name)
                parts.append(f"{_number(one.values[at])}{compared} {words}")
            sentences.append(f"{group} is {', '.join(parts)}.")
    return " ".join(sentences)


def better_sentence(label: str, other: str, at: int, columns: Sequence[ResultColumn]) -> str:
    """The columns in which the first row is better than the row at this position, after rounding as in the table."""
    lost = []
    for one in columns:
        if best([one.values[0], one.values[at]], one.column.better) == {0}:
            name = one.column.name
            lost.append(one.column.group if name.startswith("@") else f"{one.column.group} {name}")
    if not lost:
        return f"{other} is not better in any column of the table."
    return f"{other} is better than {label} in: {', '.join(lost)}."


def best_step_notes(runs: "Sequence[RunRecord]") -> list[str]:
    """Advice for runs whose best validation was the first or the last one."""
    notes = []
    for run in runs:
        steps = [record["step"] for record in run.curve if "valid" in record]
        if len(steps) > 1 and run.best_step == steps[0]:
            notes.append(
                f"{run.label} was best at its first validation, so an earlier state may be better still; validate "
                "more often with --train.evaluate_every."
            )
        elif len(steps) > 1 and run.best_step == steps[-1]:
            notes.append(f"{run.label} was still improving at its last validation; train longer with --train.epochs.")
    return notes


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"
