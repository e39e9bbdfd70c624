"""What the figures say, in sentences."""

from collections.abc import Sequence

from icpe.data.popularity import head_mask
from icpe.report.record import RunRecord
from icpe.report.table import Block

_SAID = {"all": "overall", "head": "for head items", "niche": "for niche items"}


def title(runs: Sequence[RunRecord]) -> str:
    """Who is compared with whom."""
    first, *others = (run.label for run in runs)
    if not others:
        return f"{first} on {runs[0].model.method.backbone.label}"
    return f"{', '.join(others) if len(others) < 3 else f'{len(others)} runs'} against {first}"


def headline(runs: Sequence[RunRecord], blocks: Sequence[Block]) -> list[tuple[str, str]]:
    """What is shown and how well it fits, for each run that is compared with the first, or for a single run."""
    first, *others = runs
    if not all(run.values for run in runs):
        return [("Nothing was measured, for there is neither a validation nor a test part.", "")]
    if not others:
        return [(_alone(first), _recall(blocks, 0))]
    return [
        (_exposure(run, first), f"{_recall(blocks, at)} {_lost(run.label, first.label, at, blocks)}")
        for at, run in enumerate(others, 1)
    ]


def _alone(run: RunRecord) -> str:
    log, n = run.model.log, run.n
    niche = ~head_mask(log.item_counts)
    share = log.item_counts[niche].sum() / len(log)
    return (
        f"{run.label} puts {percent(run.values.get(f'apt@{n}'))} of the list places on niche items, which are "
        f"{percent(niche.mean())} of the catalogue and take {percent(share)} of the training interactions. It shows "
        f"{percent(run.values.get(f'coverage@{n}'))} of all items."
    )


def _exposure(run: RunRecord, other: RunRecord) -> str:
    apt, coverage = f"apt@{run.n}", f"coverage@{run.n}"
    return (
        f"{run.label} puts {percent(run.values.get(apt))} of the list places on niche items where {other.label} puts "
        f"{percent(other.values.get(apt))}, and shows {percent(run.values.get(coverage))} of all items where "
        f"{other.label} shows {percent(other.values.get(coverage))}."
    )


def _recall(blocks: Sequence[Block], at: int) -> str:
    """Recall of the run at this place, against the first if it is another."""
    sentences = []
    for block in blocks:
        if "Recall" in block.title:
            against = [f" against {_value(values[0])}" if at else "" for values in block.columns.values()]
            found = zip(block.columns.items(), against, strict=True)
            told = ", ".join(f"{_value(values[at])}{other} {_SAID.get(name, name)}" for (name, values), other in found)
            sentences.append(f"{block.title} is {told}.")
    return " ".join(sentences)


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


def _value(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def percent(share: float | None) -> str:
    r"""A share in per cent, with a decimal where it is small.

    Example:
        >>> percent(0.411), percent(0.0067), percent(0.0), percent(None)
        ('41\xa0%', '0.7\xa0%', '0\xa0%', 'an unknown share')
    """
    if share is None:
        return "an unknown share"
    decimals = 1 if 0 < share < 0.0995 else 0
    return f"{100 * share:.{decimals}f}\N{NO-BREAK SPACE}%"
