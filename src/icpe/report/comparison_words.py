"""What a comparison says, in sentences: what the subject changed, and where it loses."""

from collections.abc import Sequence

from icpe.compare.tables import FLOORS, Comparison, Row, Table, backbone_name, higher_is_better, metric_name
from icpe.report.words import against


def headline(table: Table, subject: Row | None, baseline: Row | None) -> tuple[str, str]:
    """A sentence about one backbone on what is shown, and some on how well it fits.

    Args:
        table: of the grid.
        subject: the row it is about; None where the grid has none.
        baseline: the row without debiasing; None likewise.
    """
    if subject is None:
        return _winners(table.rows), ""
    here = [row for row in table.rows if row.backbone == subject.backbone]
    place = f"On {backbone_name(subject.backbone)}, "
    if baseline is None or baseline.label == subject.label:
        shown = f"{place}{subject.label} was compared with {len(here) - 1} others."
        return shown, _rivals(table, subject)
    n = next((int(name.partition("@")[2]) for name in table.metrics if "@" in name), 20)
    shown = place + against(subject.label, subject.means, baseline.label, baseline.means, n)
    return shown, f"{_against(subject, baseline, table.metrics)} {_rivals(table, subject)}".strip()


def _against(subject: Row, baseline: Row, metrics: Sequence[str]) -> str:
    """Where the subject is better and worse than the baseline, to the four decimals of the table."""
    better: list[str] = []
    worse: list[str] = []
    for metric in metrics:
        ours, theirs = subject.means[metric], baseline.means[metric]
        if ours is None or theirs is None or round(ours, 4) == round(theirs, 4):
            continue
        gained = (ours > theirs) == higher_is_better(metric)
        (better if gained else worse).append(_name(metric))
    return (
        f"Against {baseline.label}, {subject.label} gains in {_listed(better)} and loses in {_listed(worse)}. "
        f"{'Means of one seed each.' if len(subject.seeds) < 2 else ''}"
    ).strip()


def _rivals(table: Table, subject: Row) -> str:
    """The subject against the best rival in each metric."""
    tests = [one for one in table.comparisons if (one.backbone, one.subject) == (subject.backbone, subject.label)]
    if not tests:
        return ""
    unequal = [one for one in tests if round(one.difference, 4)]
    ahead = _listed([_versus(one) for one in unequal if one.better])
    behind = _listed([_versus(one) for one in unequal if not one.better])
    sure = sum(one.mark != "" for one in tests)
    chance = (
        f"{str(sure) if sure else 'None'} of these differences {'is' if sure == 1 else 'are'} beyond chance."
        if any(one.p is not None for one in tests)
        else "Whether that is chance cannot be told from the seeds there are."
    )
    return f"Against the best rival in each figure it is ahead in {ahead} and behind in {behind}. {chance}"


def _versus(one: Comparison) -> str:
    return f"{_name(one.metric)} ({one.rival}{one.mark})"


def _winners(rows: Sequence[Row]) -> str:
    """Who is best in recall on each backbone, where there is no subject."""
    said = []
    for backbone in dict.fromkeys(row.backbone for row in rows):
        here = [row for row in rows if row.backbone == backbone and row.method not in FLOORS]
        metric = next((name for row in here for name in row.means if row.means[name] is not None), None)
        if metric is not None:
            best = max((row for row in here if row.means[metric] is not None), key=lambda row: row.means[metric] or 0)
            said.append(f"{best.label} has the best {_name(metric)} on {backbone_name(backbone)}")
    return f"{'; '.join(said)}." if said else "Nothing was measured yet."


def _name(metric: str) -> str:
    return metric_name(metric).rstrip(" ↑↓")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
