"""The result table of a grid: means over seeds, and tests of one method against the best rival."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from icpe import tables
from icpe.compare._state import Cell, Grid
from icpe.compare.captions import data_sentence, failure_sentences, seeds_sentence, untuned_sentence
from icpe.compare.names import BASELINES, backbone_name, metric_column
from icpe.compare.significance import TESTS, Comparison, ResultRow, Test, compare_with_rivals, ranks
from icpe.metrics.statistics import mean_and_std
from icpe.runs.measure import SHARES
from icpe.suggest import unknown_name

FRONT_METRICS = ("hypervolume", "balanced_hypervolume", *(f"ndcg_at_{share:g}" for share in SHARES))
METRICS = ("recall", "ndcg", "recall_head", "recall_niche", "ndcg_head", "ndcg_niche", "coverage", "apt")


@dataclass(frozen=True)
class ResultTable:
    """Results of a grid, one row for each cell.

    Attributes:
        metrics: Names of the metrics, one column each.
        rows: Rows in the order of the grid, one backbone after the other.
        comparisons: Tests of the subject.
        caption: Data, split, seeds, tests and failures, in sentences.
    """

    metrics: list[str]
    rows: list[ResultRow]
    comparisons: list[Comparison] = field(default_factory=list)
    caption: str = ""

    def table(self) -> tables.Table:
        """The table for the renderers of :mod:`icpe.tables`; † marks rows whose settings were not tuned."""
        marks = {(one.backbone, one.subject, one.metric): one.mark for one in self.comparisons}
        nothing_tuned = not any(row.tuned for row in self.rows if row.method not in BASELINES)
        rows = []
        for backbone in dict.fromkeys(row.backbone for row in self.rows):
            here = [row for row in self.rows if row.backbone == backbone]
            places = {metric: ranks(here, metric) for metric in self.metrics}
            for row in here:
                cells = tuple(
                    tables.Cell(
                        row.means[metric],
                        row.stds[metric],
                        places[metric].get(row.label, 0),
                        marks.get((backbone, row.label, metric), ""),
                    )
                    for metric in self.metrics
                )
                label = row.label if row.tuned or nothing_tuned else f"{row.label} †"
                rows.append(tables.Row((backbone_name(backbone), label), cells))
        apart = any(row.method in BASELINES for row in self.rows)
        return tables.Table(
            tuple(metric_column(metric) for metric in self.metrics),
            tuple(rows),
            ("backbone", "method"),
            self.caption,
            "on the backbone" + (", without the baselines popularity and random" if apart else ""),
        )

    def as_text(self, width: int | None = None) -> str:
        """The table as plain text; columns that do not fit into ``width`` characters continue below."""
        return tables.as_text(self.table(), width)

    def as_markdown(self) -> str:
        """The table as Markdown."""
        return tables.as_markdown(self.table())

    def as_latex(self) -> str:
        """The table as LaTeX."""
        return tables.as_latex(self.table())

    def as_csv(self) -> str:
        """All columns of :meth:`frame` as CSV; the seeds of a row are separated by spaces."""
        return frame_csv(
            self.frame().with_columns(pl.col("seeds").list.eval(pl.element().cast(pl.String)).list.join(" "))
        )

    def frame(self) -> pl.DataFrame:
        """One row per cell: label, backbone, method, tuned, seeds, and mean, std, p and p_holm of each metric."""
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


def table_of(
    grid: Grid, metrics: Sequence[str] | None = None, subject: str | None = "icpe", test: Test = "seeds"
) -> ResultTable:
    """The result table of a grid, with tests of the subject against the best rival.

    On each backbone and in each metric, the subject is compared with the best of the other rows, on the seeds that
    both have. ``popularity`` and ``random`` are shown but do not compete.

    Args:
        grid: The grid.
        metrics: Columns of its results. By default accuracy, coverage and APT at its first list length.
        subject: A label, or the name of a method. None makes no tests.
        test: ``"seeds"`` for paired tests over seeds, or ``"paper"`` for one-sample tests against the rival's mean.

    Raises:
        ConfigError: A metric or the test is unknown.
    """
    chosen = metrics_of(grid, metrics)
    rows = [_row(grid, cell, chosen) for cell in grid.cells]
    order = list(dict.fromkeys(row.backbone for row in rows))
    rows = sorted((row for row in rows if row.seeds), key=lambda row: order.index(row.backbone))
    comparisons = compare_with_rivals(grid, rows, chosen, subject, test)
    return ResultTable(chosen, rows, comparisons, _caption(grid, rows, comparisons, test))


def metrics_of(grid: Grid, metrics: Sequence[str] | None) -> list[str]:
    """The requested metrics, or the usual ones.

    Raises:
        ConfigError: The results do not have a requested metric.
    """
    known = [name for name in grid.results.columns if "@" in name or name == "seconds"]
    if metrics is None:
        first = next((name.partition("@")[2] for name in known if name.startswith("recall@")), "20")
        return [f"{name}@{first}" for name in METRICS if f"{name}@{first}" in known]
    for name in metrics:
        if name not in known:
            raise unknown_name("metric", name, known)
    return list(metrics)


def front_metrics_of(grid: Grid) -> list[str]:
    """The numbers that summarise fronts in the results; none if no run has a front."""
    names = tuple(f"{name}@" for name in FRONT_METRICS)
    return [name for name in grid.results.columns if name.startswith(names)]


def seed_statistics(results: pl.DataFrame, backbone: str, metrics: Sequence[str]) -> pl.DataFrame:
    """Means and standard deviations over seeds of the methods on one backbone that learn.

    Args:
        results: One row per run, as :attr:`Grid.results` has them.
        backbone: Name of the backbone.
        metrics: Names of columns of the results.

    Returns:
        A row for each label that has all metrics: ``label, method``, each metric, and ``METRIC_std`` (0 for one seed).
    """
    runs = results.filter((pl.col("backbone") == backbone) & ~pl.col("method").is_in(BASELINES))
    means = [pl.col(name).mean() for name in metrics]
    stds = [pl.col(name).std().fill_null(0).alias(f"{name}_std") for name in metrics]
    return runs.group_by("label", "method", maintain_order=True).agg(*means, *stds).drop_nulls()


def frame_csv(frame: pl.DataFrame) -> str:
    """A frame as CSV, rendered like every other table."""
    first, *rest = frame.columns
    rows = tuple(tables.Row((str(row[0]),), tuple(map(tables.Cell, row[1:]))) for row in frame.iter_rows())
    return tables.as_csv(tables.Table(tuple(map(tables.Column, rest)), rows, (first,)))


def _row(grid: Grid, cell: Cell, metrics: list[str]) -> ResultRow:
    mine = (pl.col("label") == cell.label) & (pl.col("backbone") == cell.backbone)
    runs = grid.results.filter(mine).sort("seed")
    found = {name: mean_and_std(runs[name].cast(pl.Float64).fill_null(np.nan).to_numpy()) for name in metrics}
    means, stds = ({name: pair[place] for name, pair in found.items()} for place in (0, 1))
    return ResultRow(cell.label, cell.backbone, cell.method, cell.tuned, runs["seed"].to_list(), means, stds)


def _caption(grid: Grid, rows: list[ResultRow], comparisons: list[Comparison], test: Test) -> str:
    seeds = {f"{row.label} on {row.backbone}": row.seeds for row in rows}
    sentences = [data_sentence(grid), seeds_sentence(grid, seeds)]
    made = sum(one.p is not None for one in comparisons)
    if made:
        sentences.append(
            f"* {comparisons[0].subject} better, ° worse than the best rival on its backbone: {TESTS[test]}, "
            f"two-sided, p < .05 after Holm's correction for {made} tests"
        )
    elif comparisons:
        sentences.append(f"No test of {comparisons[0].subject}: a test needs two seeds with different differences")
    sentences += untuned_sentence([row.tuned for row in rows if row.method not in BASELINES])
    return ". ".join([*sentences, *failure_sentences(grid)]) + "."
