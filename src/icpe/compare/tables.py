"""The table of a grid: means over seeds, with tests of one method against the best rival."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from icpe.backbones import BACKBONES
from icpe.compare import _render as render
from icpe.compare._caption import data_said, failures_said, seeds_said, untuned_said
from icpe.compare._render import Shown
from icpe.compare._state import Cell, Grid
from icpe.errors import ConfigError
from icpe.metrics.statistics import holm, mean_and_std, one_sample_t_test, paired_t_test
from icpe.types import FloatArray

METRICS = ("recall", "ndcg", "recall_head", "recall_niche", "ndcg_head", "ndcg_niche", "coverage", "apt")
FLOORS = ("popularity", "random")  # to see where the scale begins; they compete with nobody
SIGNIFICANT = 0.05
_LOWER_IS_BETTER = ("gini", "popularity", "seconds")
_TESTS = {"seeds": "paired t-test over seeds", "paper": "one-sample t-test of its seeds against the rival's mean"}


@dataclass(frozen=True)
class Row:
    """A cell over its seeds.

    Attributes:
        label: of the cell.
        backbone: its name.
        method: its name.
        tuned: whether its settings were.
        seeds: of the runs that are there.
        means: by metric, None where there is nothing.
        stds: by metric, None with one seed.
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
        backbone: its name.
        metric: its name.
        subject: label of the subject's row.
        rival: label of the rival's.
        difference: mean of the subject less that of the rival.
        p: of the test, None where there can be none.
        corrected: by Holm, for all tests of the table.
        better: whether the subject is.
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
        """``*`` where the subject is better beyond chance, ``°`` where it is worse, else nothing."""
        if self.corrected is None or self.corrected >= SIGNIFICANT:
            return ""
        return "*" if self.better else "°"


@dataclass(frozen=True)
class Table:
    """A row for each cell, grouped by backbone.

    Attributes:
        metrics: the columns.
        rows: in the order of the grid, backbone by backbone.
        comparisons: tests of the subject.
        caption: what a reader has to know.
    """

    metrics: list[str]
    rows: list[Row]
    comparisons: list[Comparison] = field(default_factory=list)
    caption: str = ""

    def as_text(self) -> str:
        """For the terminal."""
        return render.as_text(self._heading(), self._groups(), self.caption)

    def as_markdown(self) -> str:
        """For pages."""
        return render.as_markdown(self._heading(), self._groups(), self.caption)

    def as_latex(self) -> str:
        """For papers."""
        return render.as_latex(self._heading(), self._groups(), self.caption)

    def as_csv(self) -> str:
        """For machines."""
        return (
            self.frame()
            .with_columns(pl.col("seeds").list.eval(pl.element().cast(pl.String)).list.join(" "))
            .write_csv()
        )

    def frame(self) -> pl.DataFrame:
        """A row per cell: label, backbone, method, tuned, seeds, and of each metric mean, std, p and p_holm."""
        tests = {(one.backbone, one.subject, one.metric): one for one in self.comparisons}
        names = {"label": pl.String, "backbone": pl.String, "method": pl.String, "tuned": pl.Boolean}
        schema: dict[str, Any] = {**names, "seeds": pl.List(pl.Int64)}
        rows = []
        for row in self.rows:
            values: dict[str, Any] = {name: getattr(row, name) for name in schema if hasattr(row, name)}
            for metric in self.metrics:
                test = tests.get((row.backbone, row.label, metric))
                values[metric], values[f"{metric}_std"] = row.means[metric], row.stds[metric]
                values[f"{metric}_p"] = None if test is None else test.p
                values[f"{metric}_p_holm"] = None if test is None else test.corrected
            rows.append(values)
        found = [f"{metric}{rest}" for metric in self.metrics for rest in ("", "_std", "_p", "_p_holm")]
        return pl.DataFrame(rows, schema={**schema, **dict.fromkeys(found, pl.Float64)})

    def cells(self) -> tuple[list[str], list[render.Group]]:
        """Headings of the columns, and for each backbone its rows as they are shown, for renderings of your own."""
        return self._heading(), self._groups()

    def _heading(self) -> list[str]:
        return [metric_name(metric) for metric in self.metrics]

    def _groups(self) -> list[render.Group]:
        marks = {(one.backbone, one.subject, one.metric): one.mark for one in self.comparisons}
        everywhere = not any(row.tuned for row in self.rows if row.method not in FLOORS)
        groups: list[render.Group] = []
        for backbone in dict.fromkeys(row.backbone for row in self.rows):
            rows = [row for row in self.rows if row.backbone == backbone]
            places = {metric: _places(rows, metric) for metric in self.metrics}
            shown = []
            for row in rows:
                cells = [
                    Shown(
                        _mean_and_std(row.means[metric], row.stds[metric]),
                        places[metric].get(row.label, 0),
                        marks.get((backbone, row.label, metric), ""),
                    )
                    for metric in self.metrics
                ]
                shown.append((row.label + ("" if row.tuned or everywhere else " †"), cells))
            groups.append((backbone_name(backbone), shown))
        return groups


def table_of(
    grid: Grid,
    metrics: Sequence[str] | None = None,
    subject: str | None = "icpe",
    test: Literal["seeds", "paper"] = "seeds",
) -> Table:
    """Means and standard deviations over seeds, and tests of the subject against the best rival.

    On each backbone and in each metric, the subject is compared with the best of the other rows, on the seeds both
    have. ``popularity`` and ``random`` are shown and take no part.

    Args:
        grid: what came out.
        metrics: columns of its results; accuracy, coverage and APT at its first list length if None.
        subject: a label, or the name of a method; None makes no tests.
        test: paired over seeds, or as in the paper, one-sample against the rival's mean.

    Raises:
        ConfigError: there is no such metric or test.
    """
    if test not in _TESTS:
        raise ConfigError(f"test is {test!r}; expected one of {', '.join(_TESTS)}")
    chosen = metrics_of(grid, metrics)
    rows = [_row(grid, cell, chosen) for cell in grid.cells]
    order = list(dict.fromkeys(row.backbone for row in rows))
    rows = sorted((row for row in rows if row.seeds), key=lambda row: order.index(row.backbone))
    comparisons = _comparisons(grid, rows, chosen, subject, test)
    return Table(chosen, rows, comparisons, _caption(grid, rows, comparisons, test))


def metric_name(metric: str) -> str:
    """As it stands in a heading, with the direction that is better.

    Example:
        >>> metric_name("recall_niche@20"), metric_name("gini@20")
        ('Recall@20 niche ↑', 'Gini@20 ↓')
    """
    name, _, n = metric.partition("@")
    first, _, group = name.partition("_")
    if group not in ("head", "niche"):
        first, group = name.replace("_", " "), ""
    known = {"ndcg": "NDCG", "mrr": "MRR", "apt": "APT"}
    words = [
        known.get(first, first.capitalize()) + (f"@{n}" if n else ""),
        group,
        "↑" if higher_is_better(metric) else "↓",
    ]
    return " ".join(filter(None, words))


def backbone_name(backbone: str) -> str:
    """As it stands in tables."""
    return BACKBONES[backbone].__name__ if backbone in BACKBONES else backbone


def higher_is_better(metric: str) -> bool:
    """Which direction is wanted."""
    return metric.partition("@")[0] not in _LOWER_IS_BETTER


def metrics_of(grid: Grid, metrics: Sequence[str] | None) -> list[str]:
    """The metrics that are asked for, or the usual ones.

    Raises:
        ConfigError: the results have no such metric.
    """
    known = [name for name in grid.results.columns if "@" in name or name == "seconds"]
    if metrics is None:
        first = next((name.partition("@")[2] for name in known if name.startswith("recall@")), "20")
        return [f"{name}@{first}" for name in METRICS if f"{name}@{first}" in known]
    for name in metrics:
        if name not in known:
            raise ConfigError(f"there is no metric {name!r} in the results; there are {', '.join(known) or 'none yet'}")
    return list(metrics)


def _of(grid: Grid, cell: Cell) -> pl.DataFrame:
    mine = (pl.col("label") == cell.label) & (pl.col("backbone") == cell.backbone)
    return grid.results.filter(mine).sort("seed")


def _row(grid: Grid, cell: Cell, metrics: list[str]) -> Row:
    runs = _of(grid, cell)
    found = {name: mean_and_std(runs[name].cast(pl.Float64).fill_null(np.nan).to_numpy()) for name in metrics}
    means, stds = ({name: pair[place] for name, pair in found.items()} for place in (0, 1))
    return Row(cell.label, cell.backbone, cell.method, cell.tuned, runs["seed"].to_list(), means, stds)


def find_subject(rows: Sequence[Any], subject: str | None) -> Any:
    """The row of this label, else the first of this method."""
    if subject is None:
        return None
    named = [row for row in rows if row.label.casefold() == subject.casefold()]
    return next(iter([*named, *(row for row in rows if row.method == subject.casefold())]), None)


def _ranked(rows: Sequence[Row], metric: str) -> list[tuple[float, Row]]:
    """Those that compete, the best first."""
    known = [(mean, row) for row in rows if row.method not in FLOORS and (mean := row.means[metric]) is not None]
    return sorted(known, key=lambda one: one[0], reverse=higher_is_better(metric))


def _places(rows: Sequence[Row], metric: str) -> dict[str, int]:
    """1 for the best and 2 for the second by label; equals share a place, and one alone has none."""
    ranked = _ranked(rows, metric)
    values = list(dict.fromkeys(mean for mean, _ in ranked))[:2]
    if len(ranked) < 2 or len(values) < 2:
        return {}
    return {row.label: values.index(mean) + 1 for mean, row in ranked if mean in values}


def _comparisons(grid: Grid, rows: list[Row], metrics: list[str], subject: str | None, test: str) -> list[Comparison]:
    found = []
    for backbone in dict.fromkeys(row.backbone for row in rows):
        here = [row for row in rows if row.backbone == backbone]
        ours = find_subject(here, subject)
        for metric in metrics if ours is not None else []:
            rivals = [one for one in _ranked(here, metric) if one[1].label != ours.label]
            if rivals and ours.means[metric] is not None:
                found.append(_compared(grid, ours, rivals[0][1], metric, test))
    corrected = holm([one.p for one in found])
    return [Comparison(**{**vars(one), "corrected": value}) for one, value in zip(found, corrected, strict=True)]


def _compared(grid: Grid, ours: Row, rival: Row, metric: str, test: str) -> Comparison:
    mine, theirs = paired_values(grid, ours, rival, metric)
    made = paired_t_test(mine, theirs) if test == "seeds" else one_sample_t_test(mine, rival.means[metric] or 0.0)
    difference = (ours.means[metric] or 0.0) - (rival.means[metric] or 0.0)
    better = (difference > 0) == higher_is_better(metric)
    p = None if made is None else made.p
    return Comparison(ours.backbone, metric, ours.label, rival.label, difference, p, None, better)


def paired_values(grid: Grid, ours: Row | Cell, theirs: Row | Cell, metric: str) -> tuple[FloatArray, FloatArray]:
    """Values of both on the seeds both have."""
    frames = [
        grid.results.filter((pl.col("label") == one.label) & (pl.col("backbone") == one.backbone))
        .select("seed", metric)
        .drop_nulls()
        for one in (ours, theirs)
    ]
    both = frames[0].join(frames[1], on="seed", how="inner", suffix="_theirs").sort("seed")
    return both[metric].to_numpy(), both[f"{metric}_theirs"].to_numpy()


def _caption(grid: Grid, rows: list[Row], comparisons: list[Comparison], test: str) -> str:
    sentences = [data_said(grid), seeds_said(grid, {f"{row.label} on {row.backbone}": row.seeds for row in rows})]
    sentences.append("Bold: best; underlined: second on the backbone")
    if any(row.method in FLOORS for row in rows):
        sentences[-1] += ", floors (popularity, random) left aside"
    made = sum(one.p is not None for one in comparisons)
    if made:
        sentences.append(
            f"* {comparisons[0].subject} better, ° worse than the best rival on its backbone: {_TESTS[test]}, "
            f"two-sided, p < .05 after Holm's correction for {made} tests"
        )
    elif comparisons:
        sentences.append(f"No test of {comparisons[0].subject}: that needs two seeds that differ")
    sentences += untuned_said([row.tuned for row in rows if row.method not in FLOORS])
    return ". ".join([*sentences, *failures_said(grid)]) + "."


def _mean_and_std(mean: float | None, std: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:.4f}" if std is None else f"{mean:.4f} ± {std:.4f}"
