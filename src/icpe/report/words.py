"""What the figures say, in sentences."""

from collections.abc import Sequence

from icpe.data.popularity import head_mask
from icpe.report.record import RunRecord
from icpe.report.table import Block

_GROUPS = (("overall", ""), ("for head items", "_head"), ("for niche items", "_niche"))


def title(runs: Sequence[RunRecord]) -> str:
    """Who is compared with whom."""
    first, *others = (run.label for run in runs)
    if not others:
        return f"{first} on {type(runs[0].model.method.backbone).__name__}"
    return f"{', '.join(others)} against {first}"


def headline(runs: Sequence[RunRecord], blocks: Sequence[Block]) -> list[str]:
    """A paragraph for each run that is compared with the first, or one for a single run."""
    first, *others = runs
    if not all(run.values for run in runs):
        return ["Nothing was measured, for there is neither a validation nor a test part."]
    if not others:
        return [_alone(first)]
    return [
        f"{_exposure(run, first)} {_accuracy(run, first)} {_lost(run.label, first.label, at, blocks)}"
        for at, run in enumerate(others, 1)
    ]


def _alone(run: RunRecord) -> str:
    log, n = run.model.log, run.n
    niche = ~head_mask(log.item_counts)
    share = log.item_counts[niche].sum() / len(log)
    place = f"{run.label} puts {percent(run.values.get(f'apt@{n}'))} of the list places on niche items, "
    told = f"which are {percent(niche.mean())} of the catalogue and take {percent(share)} of the training interactions."
    found = ", ".join(f"{_value(run, f'recall{end}@{n}')} {of}" for of, end in _GROUPS)
    return f"{place}{told} Recall@{n} is {found}. {percent(run.values.get(f'coverage@{n}'))} of all items are shown."


def _exposure(run: RunRecord, other: RunRecord) -> str:
    apt, coverage = f"apt@{run.n}", f"coverage@{run.n}"
    return (
        f"{run.label} puts {percent(run.values.get(apt))} of the list places on niche items where {other.label} puts "
        f"{percent(other.values.get(apt))}, and shows {percent(run.values.get(coverage))} of all items where "
        f"{other.label} shows {percent(other.values.get(coverage))}."
    )


def _accuracy(run: RunRecord, other: RunRecord) -> str:
    names = [(of, f"recall{end}@{run.n}") for of, end in _GROUPS]
    told = ", ".join(f"{_value(run, name)} against {_value(other, name)} {of}" for of, name in names)
    return f"Recall@{run.n} is {told}."


def _lost(label: str, other: str, at: int, blocks: Sequence[Block]) -> str:
    """Where the first run is better, to the four decimals of the table."""
    lost = []
    for block in blocks:
        for name, values in block.columns.items():
            theirs, ours = values[0], values[at]
            if ours is not None and theirs is not None and round(theirs, 4) > round(ours, 4):
                lost.append(block.title if name.startswith("@") else f"{block.title} {name}")
    if not lost:
        return f"{other} is ahead in none of the figures below."
    return f"{other} is ahead of {label} in: {', '.join(lost)}."


def _value(run: RunRecord, name: str) -> str:
    value = run.values.get(name)
    return "unknown" if value is None else f"{value:.4f}"


def percent(share: float | None) -> str:
    """A share in per cent, with a decimal where it is small.

    Example:
        >>> percent(0.411), percent(0.0067), percent(0.0), percent(None)
        ('41 %', '0.7 %', '0 %', 'an unknown share')
    """
    if share is None:
        return "an unknown share"
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"
