"""Sentences for the captions of result tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from icpe.compare._state import Grid
from icpe.runs.config import RunConfig


def data_sentence(grid: Grid) -> str:
    """The data, the split, and how many users were counted and skipped; without a full stop."""
    data = ", ".join(dict.fromkeys(_data(cell.config) for cell in grid.cells))
    if grid.results.height == 0:
        return f"{data}; nothing was measured yet"
    counted, skipped = (_range(grid.results[name].drop_nulls().to_list()) for name in ("users", "users_skipped"))
    return f"{data}; {counted} test users counted, {skipped} without test items skipped"


def seeds_sentence(grid: Grid, seeds: Mapping[str, Sequence[int]]) -> str:
    """Number of seeds that were averaged, and the rows that have fewer.

    Args:
        grid: The grid.
        seeds: Seeds of the finished runs by row.
    """
    number = len(grid.seeds)
    total = f"Mean ± standard deviation over {number} seeds" if number > 1 else f"One seed ({grid.seeds[0]})"
    fewer = [f"{name} {len(found)}" for name, found in seeds.items() if len(found) < number]
    return f"{total} (fewer so far: {', '.join(fewer)})" if fewer else total


def untuned_sentence(tuned: Sequence[bool]) -> list[str]:
    """Which rows have settings that were not tuned; empty if all were tuned."""
    if all(tuned):
        return []
    if any(tuned):
        return ["† Default settings, not tuned"]
    return ["All with default or given settings, none tuned"]


def failure_sentences(grid: Grid) -> list[str]:
    """The runs that failed and why; seeds that failed for the same reason are listed together."""
    reasons: dict[tuple[str, str, str], list[int]] = {}
    for one in grid.failures:
        reasons.setdefault((one.label, one.backbone, one.reason), []).append(one.seed)
    return [
        f"Failed: {label} on {backbone}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))} "
        f"({reason.rstrip('.')})"
        for (label, backbone, reason), seeds in reasons.items()
    ]


def _data(config: RunConfig) -> str:
    if "train" in config.data:
        return f"{Path(str(config.data['train'])).name}, given parts"
    source = str(config.data.get("source", "no data"))
    settings = [str(value) for key, value in config.split.items() if key != "kind"]
    split = f"{config.split.get('kind', 'unbiased')} split" + (f" ({', '.join(settings)})" if settings else "")
    return f"{Path(source).name}, {split}"


def _range(values: list[int]) -> str:
    if not values:
        return "unknown"
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
