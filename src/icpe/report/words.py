"""What the figures say, in sentences."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.report.table import Block, best

if TYPE_CHECKING:
    from icpe.report.record import RunRecord

Values = Mapping[str, float | None]

_SAID = {"all": "overall", "head": "for head items", "niche": "for niche items"}


def title(runs: "Sequence[RunRecord]") -> str:
    """Who is compared with whom."""
    first, *others = (run.label for run in runs)
    if not others:
        return f"{first} on {runs[0].model.method.backbone.label}"
    return f"{', '.join(others) if len(others) < 3 else f'{len(others)} runs'} against {first}"


def headline(runs: "Sequence[RunRecord]", blocks: Sequence[Block]) -> list[tuple[str, str]]:
    """What is shown and how well it fits, for each run that is compared with the first, or for a single run."""
    first, *others = runs
    if not all(run.values for run in runs):
        return [("Nothing was measured, for there is neither a validation nor a test part.", "")]
    if not others:
        return [
            (alone(first.label, first.values, first.n, first.model.log, "training interactions"), recalls(blocks, 0))
        ]
    return [
        (
            against(run.label, run.values, first.label, first.values, run.n),
            f"{recalls(blocks, at)} {ahead(run.label, first.label, at, blocks)}",
        )
        for at, run in enumerate(others, 1)
    ]


def alone(label: str, values: Values, n: int, log: Interactions, taken: str) -> str:
    """What lists show, beside what the log has; ``taken`` is what its rows are called."""
    niche = ~head_mask(log.item_counts)
    share = log.item_counts[niche].sum() / len(log)
    return (
        f"{label} puts {percent(values.get(f'apt@{n}'))} of the list places on niche items, which are "
        f"{percent(niche.mean())} of the catalogue and take {percent(share)} of the {taken}. It shows "
        f"{percent(values.get(f'coverage@{n}'))} of all items."
    )


def against(label: str, values: Values, other: str, theirs: Values, n: int) -> str:
    """What lists show, beside what others show."""
    apt, coverage = f"apt@{n}", f"coverage@{n}"
    return (
        f"{label} puts {percent(values.get(apt))} of the list places on niche items where {other} puts "
        f"{percent(theirs.get(apt))}, and shows {percent(values.get(coverage))} of all items where "
        f"{other} shows {percent(theirs.get(coverage))}."
    )


def recalls(blocks: Sequence[Block], at: int) -> str:
    """Recall of the run at this place, against the first if it is another."""
    sentences = []
    for block in blocks:
        if "Recall" in block.title:
            against = [f" against {_value(values[0])}" if at else "" for values in block.columns.values()]
            found = zip(block.columns.items(), against, strict=True)
            told = ", ".join(f"{_value(values[at])}{other} {_SAID.get(name, name)}" for (name, values), other in found)
            sentences.append(f"{block.title} is {told}.")
    return " ".join(sentences)


def ahead(label: str, other: str, at: int, blocks: Sequence[Block]) -> str:
    """Where the first run is better, to the four decimals of the table."""
    lost = []
    for block in blocks:
        for name, values in block.columns.items():
            theirs, ours = values[0], values[at]
            if block.better != "neither" and best([theirs, ours], block.better) == {0}:
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
