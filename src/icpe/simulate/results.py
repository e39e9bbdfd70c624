"""All trajectories of a simulation side by side."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.lookup import positions
from icpe.simulate.arms import NONE, ORACLE
from icpe.simulate.changes import with_newcomers
from icpe.simulate.population import Population
from icpe.simulate.settings import LoopSettings
from icpe.simulate.trajectory import RoundFiles, Trajectory, read_rows

KEYS = ("arm", "adoption", "seed", "round", "group")
REGRET, HOMOGENISATION = "consumed_regret", "homogenisation"
_SAME = ("adoption", "seed", "round", "group")


def source_of(arm: str, adoption: float, seed: int) -> Trajectory:
    """The trajectory that holds the rounds of an arm.

    Nobody follows a list when the adoption is 0, and nobody has one in the arm without a recommender. All these cases
    are the same trajectory, which is played once.
    """
    return Trajectory(NONE, 0.0, seed) if arm == NONE or adoption == 0 else Trajectory(arm, adoption, seed)


def collect_measures(
    folder: Path, arms: Sequence[str], adoptions: Sequence[float], seeds: Sequence[int], rounds: int
) -> pl.DataFrame:
    """The measures of every round of every arm, with the comparisons between arms.

    ``consumed_regret`` is the utility that the oracle's arm has more in the same round, ``homogenisation`` the Jaccard
    index between users minus that of the arm without a recommender.
    """
    frames = []
    for arm, adoption, seed in _grid(arms, adoptions, seeds):
        source = folder / source_of(arm, adoption, seed).name
        files = [RoundFiles(source, number).measures for number in range(1, rounds + 1)]
        keys = [pl.lit(arm).alias("arm"), pl.lit(adoption).alias("adoption"), pl.lit(seed).alias("seed")]
        frames.append(pl.concat([read_rows(one) for one in files]).select(*keys, pl.all()))
    rows = pl.concat(frames)
    best = rows.filter(pl.col("arm") == ORACLE).select(*_SAME, best="consumed_utility")
    alone = rows.filter(pl.col("arm") == NONE).select(*_SAME, alone="consumed_jaccard")
    for other in (best, alone):
        rows = rows.join(other, on=_SAME, how="left", maintain_order="left")
    return rows.with_columns(
        (pl.col("best") - pl.col("consumed_utility")).alias(REGRET),
        (pl.col("consumed_jaccard") - pl.col("alone")).alias(HOMOGENISATION),
    ).drop("best", "alone")


def collect_items(
    folder: Path,
    population: Population,
    arms: Sequence[str],
    adoptions: Sequence[float],
    seeds: Sequence[int],
    settings: LoopSettings,
) -> pl.DataFrame:
    """Quality of every item, and how often each arm has shown it and users have consumed it in all rounds."""
    frames = []
    for seed in seeds:
        everyone = with_newcomers(population, settings, seed)
        about = _about_items(everyone, settings)
        for adoption, arm in ((one, arm) for one in adoptions for arm in arms):
            counts = _item_counts(folder / source_of(arm, adoption, seed).name, about[col.ITEM], settings.rounds)
            keys = [pl.lit(arm).alias("arm"), pl.lit(adoption).alias("adoption"), pl.lit(seed).alias("seed")]
            frames.append(about.with_columns(**counts).select(*keys, pl.all()))
    return pl.concat(frames)


def _about_items(population: Population, settings: LoopSettings) -> pl.DataFrame:
    """What is the same in all arms. Items that are there from the beginning have joined in round 1."""
    log, later = population.world.log, np.arange(population.items) - population.items_present
    joined = np.where(later < 0, 1, 2 + later // max(settings.new_items, 1))
    made = {"quality": population.quality, "head": population.head, "joined": joined, "before": log.item_counts}
    return pl.DataFrame({col.ITEM: log.items, **made})


def _item_counts(source: Path, items: pl.Series, rounds: int) -> dict[str, pl.Series]:
    """How often a trajectory has shown each item, and users have consumed it."""
    shown, consumed = np.zeros((2, len(items)), np.int64)
    for number in range(1, rounds + 1):
        files = RoundFiles(source, number)
        counts, rows = read_rows(files.shown), read_rows(files.consumption, [col.ITEM])
        shown[positions(counts[col.ITEM], items)] += counts["shown"].to_numpy()
        consumed += np.bincount(positions(rows[col.ITEM], items), minlength=len(items))
    return {"shown": pl.Series(shown), "consumed": pl.Series(consumed)}


def band(rows: pl.DataFrame, metric: str, by: Sequence[str]) -> pl.DataFrame:
    """Mean, smallest and largest value and standard deviation of a metric over the seeds.

    Returns:
        A frame with the columns of ``by`` in their order of appearance, ``mean``, ``low``, ``high`` and ``std``, which
        is null for a single seed.
    """
    value = pl.col(metric)
    statistics = {"mean": value.mean(), "low": value.min(), "high": value.max(), "std": value.std()}
    return rows.group_by(*by, maintain_order=True).agg(**statistics)


def quality_tenths(items: pl.DataFrame, column: str = "shown") -> pl.DataFrame:
    """Share of all places that go to each tenth of the niche items, by quality.

    Args:
        items: rows of :func:`collect_items` at one adoption.
        column: ``shown`` or ``consumed``.

    Returns:
        A frame ``arm, seed, tenth, share``; tenth 10 has the items with the highest quality.
    """
    keys = ["arm", "seed"]
    total = pl.col(column).sum().over(keys)
    place = pl.col("quality").rank("ordinal").over(keys) - 1
    return (
        items.with_columns(share=pl.col(column) / total)
        .filter(~pl.col("head"))
        .with_columns(tenth=(place * 10 // pl.len().over(keys) + 1).cast(pl.Int64))
        .group_by(*keys, "tenth", maintain_order=True)
        .agg(pl.col("share").sum())
        .sort("tenth", maintain_order=True)
    )


def _grid(arms: Sequence[str], adoptions: Sequence[float], seeds: Sequence[int]) -> Iterable[tuple[str, float, int]]:
    return ((arm, adoption, seed) for adoption in adoptions for arm in arms for seed in seeds)
