"""Tests of one method, the subject, against the best other method on each backbone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from icpe.compare._state import Cell, Grid
from icpe.compare.names import BASELINES, has_direction, higher_is_better
from icpe.errors import ConfigError
from icpe.metrics.statistics import holm, one_sample_t_test, paired_t_test
from icpe.types import FloatArray

Test = Literal["seeds", "paper"]
SIGNIFICANT = 0.05
TESTS = {"seeds": "paired t-test over seeds", "paper": "one-sample t-test of its seeds against the rival's mean"}


@dataclass(frozen=True)
class ResultRow:
    """The results of one cell over its seeds.

    Attributes:
        label: Label of the cell.
        backbone: Name of the backbone.
        method: Name of the method.
        tuned: Whether the settings were tuned.
        seeds: Seeds of the finished runs.
        means: Mean of each metric; None when no run has a value.
        stds: Standard deviation of each metric; None with fewer than two seeds.
    """

    label: str
    backbone: str
    method: str
    tuned: bool
    seeds: list[int]
    means: dict[str, float | None]
    stds: dict[str, float | None]


@dataclass(frozen=True)
class Comparison:
    """The subject against the best rival in one metric on one backbone.

    Attributes:
        backbone: Name of the backbone.
        metric: Name of the metric.
        subject: Label of the subject.
        rival: Label of the rival.
        difference: Mean of the subject minus mean of the rival.
        p: p-value of the test; None when no test is possible.
        corrected: p-value after Holm's correction for all tests of the table.
        better: Whether the subject is better than the rival.
    """

    backbone: str
    metric: str
    subject: str
    rival: str
    difference: float
    p: float | None
    corrected: float | None
    better: bool

    @property
    def mark(self) -> str:
        """``*`` if the subject is significantly better, ``°`` if it is significantly worse, otherwise empty."""
        if self.corrected is None or self.corrected >= SIGNIFICANT:
            return ""
        return "*" if self.better else "°"


def compare_with_rivals(
    grid: Grid, rows: Sequence[ResultRow], metrics: Sequence[str], subject: str | None, test: Test
) -> list[Comparison]:
    """One comparison for each backbone and metric in which the subject and a rival have values.

    Raises:
        ConfigError: The test is unknown.
    """
    if test not in TESTS:
        raise ConfigError(f"test is {test!r}; expected one of {', '.join(TESTS)}")
    found = []
    for backbone in dict.fromkeys(row.backbone for row in rows):
        here = [row for row in rows if row.backbone == backbone]
        ours = find_subject(here, subject)
        for metric in metrics if ours is not None else []:
            rivals = [row for row in ranked(here, metric) if row.label != ours.label]
            if rivals and ours.means[metric] is not None:
                found.append(_compare(grid, ours, rivals[0], metric, test))
    corrected = holm([one.p for one in found])
    return [replace(one, corrected=value) for one, value in zip(found, corrected, strict=True)]


def find_subject(rows: Sequence[Any], subject: str | None) -> Any:
    """The row or cell with this label, otherwise the first with this method, otherwise None."""
    if subject is None:
        return None
    named = [row for row in rows if row.label.casefold() == subject.casefold()]
    return next(iter([*named, *(row for row in rows if row.method == subject.casefold())]), None)


def ranked(rows: Sequence[ResultRow], metric: str) -> list[ResultRow]:
    """The rows that compete and have this metric, the best first; none if neither more nor less of it is better."""
    if not has_direction(metric):
        return []
    known = [row for row in rows if row.method not in BASELINES and row.means[metric] is not None]
    return sorted(known, key=lambda row: row.means[metric] or 0.0, reverse=higher_is_better(metric))


def ranks(rows: Sequence[ResultRow], metric: str) -> dict[str, int]:
    """1 for the best and 2 for the second best by label; equal values share a rank, a value alone has none."""
    competing = ranked(rows, metric)
    values = list(dict.fromkeys(row.means[metric] for row in competing))[:2]
    if len(competing) < 2 or len(values) < 2:
        return {}
    return {row.label: values.index(row.means[metric]) + 1 for row in competing if row.means[metric] in values}


def paired_values(
    grid: Grid, ours: ResultRow | Cell, theirs: ResultRow | Cell, metric: str
) -> tuple[FloatArray, FloatArray]:
    """Values of both on the seeds that both have."""
    frames = [
        grid.results.filter((pl.col("label") == one.label) & (pl.col("backbone") == one.backbone))
        .select("seed", metric)
        .drop_nulls()
        for one in (ours, theirs)
    ]
    both = frames[0].join(frames[1], on="seed", how="inner", suffix="_theirs").sort("seed")
    return both[metric].to_numpy(), both[f"{metric}_theirs"].to_numpy()


def _compare(grid: Grid, ours: ResultRow, rival: ResultRow, metric: str, test: Test) -> Comparison:
    mine, theirs = paired_values(grid, ours, rival, metric)
    result = paired_t_test(mine, theirs) if test == "seeds" else one_sample_t_test(mine, rival.means[metric] or 0.0)
    difference = (ours.means[metric] or 0.0) - (rival.means[metric] or 0.0)
    better = (difference > 0) == higher_is_better(metric)
    p = None if result is None else result.p
    return Comparison(ours.backbone, metric, ours.label, rival.label, difference, p, None, better)
