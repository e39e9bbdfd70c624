"""Differences between one method and every other method, over seeds and over users."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe import tables
from icpe.compare._state import Cell, Grid
from icpe.compare.captions import data_sentence
from icpe.compare.names import backbone_name, metric_name
from icpe.compare.significance import find_subject, paired_values
from icpe.compare.tables import frame_csv, metrics_of
from icpe.metrics.statistics import bootstrap_interval, holm, paired_t_test, t_test
from icpe.types import FloatArray


@dataclass(frozen=True)
class Differences:
    """The subject minus each rival.

    Attributes:
        frame: Columns backbone, subject, rival, metric, difference, seeds, p_seeds, p_seeds_holm, users,
            user_difference, p_users, p_users_holm, low, high.
        caption: How the differences were measured and tested, in sentences.
    """

    frame: pl.DataFrame
    caption: str

    def as_csv(self) -> str:
        """All columns as CSV, with exact numbers."""
        return frame_csv(self.frame)

    def as_markdown(self) -> str:
        """The corrected p-values and the intervals as a Markdown table, with the caption below."""
        rows = []
        for row in self.frame.iter_rows(named=True):
            interval = None if row["low"] is None else f"{row['low']:+.4f} to {row['high']:+.4f}"
            pair = f"{row['subject']} less {row['rival']}"
            labels = (backbone_name(row["backbone"]), pair, metric_name(row["metric"]))
            values = (f"{row['difference']:+.4f}", _p(row["p_seeds_holm"]), _p(row["p_users_holm"]), interval)
            rows.append(tables.Row(labels, tuple(map(tables.Cell, values))))
        columns = tuple(map(tables.Column, ("difference", "p over seeds", "p over users", "95 % interval")))
        names = ("backbone", "subject less …", "metric")
        return tables.as_markdown(tables.Table(columns, tuple(rows), names, self.caption))


def differences_of(grid: Grid, metrics: Sequence[str] | None = None, subject: str | None = "icpe") -> Differences:
    """The subject minus each rival: paired tests over seeds and over users, and bootstrap intervals.

    For the test over users, the differences of a user are averaged over seeds and then tested over users. Users are
    many, so this test finds small differences. They share the trained models, so it says nothing about other seeds.

    Args:
        grid: The grid.
        metrics: Columns of its results; the usual ones by default.
        subject: A label, or the name of a method.

    Raises:
        ConfigError: A metric is unknown.
    """
    chosen = metrics_of(grid, metrics)
    rows: list[dict[str, Any]] = []
    for backbone in dict.fromkeys(cell.backbone for cell in grid.cells):
        cells = [cell for cell in grid.cells if cell.backbone == backbone and _has_runs(grid, cell)]
        ours = find_subject(cells, subject)
        if ours is not None:
            for cell in cells:
                if cell.label != ours.label:
                    rows += _pair(grid, ours, cell, chosen)
    for kind in ("seeds", "users"):
        for row, corrected in zip(rows, holm([row[f"p_{kind}"] for row in rows]), strict=True):
            row[f"p_{kind}_holm"] = corrected
    names: dict[str, Any] = dict.fromkeys(("backbone", "subject", "rival", "metric"), pl.String)
    names |= {"difference": pl.Float64, "seeds": pl.Int64, "p_seeds": pl.Float64, "p_seeds_holm": pl.Float64}
    names |= {"users": pl.Int64, **dict.fromkeys(("user_difference", "p_users", "p_users_holm"), pl.Float64)}
    frame = pl.DataFrame(rows, schema={**names, "low": pl.Float64, "high": pl.Float64})
    caption = (
        f"{data_sentence(grid)}. Differences are means over the seeds that both have. p: two-sided paired t-tests, "
        "over seeds and over users (the differences of a user are averaged over seeds), each with Holm's correction "
        "for all rows of this table; – when no test is possible. Interval: percentile bootstrap over users, 1,000 "
        "resamples, without correction. Tests over users account for the choice of users, not for other splits or "
        "other initial values."
    )
    return Differences(frame, caption)


def _pair(grid: Grid, ours: Cell, rival: Cell, metrics: list[str]) -> list[dict[str, Any]]:
    """The rows of one rival, one for each metric."""
    names, table = _user_differences(grid, ours, rival, metrics)
    low, high = bootstrap_interval(table)
    rows = []
    for metric in metrics:
        values = paired_values(grid, ours, rival, metric)
        if len(values[0]) == 0:
            continue
        seeds = paired_t_test(*values)
        row: dict[str, Any] = {"backbone": ours.backbone, "subject": ours.label, "rival": rival.label}
        row |= {"metric": metric, "difference": float(np.mean(values[0] - values[1])), "seeds": len(values[0])}
        row |= {"p_seeds": None if seeds is None else seeds.p, "users": None, "p_users": None}
        if metric in names and not np.isnan(low[names.index(metric)]):
            place = names.index(metric)
            users = t_test(table[:, place])
            row |= {"users": int((~np.isnan(table[:, place])).sum()), "p_users": None if users is None else users.p}
            row |= {"user_difference": float(np.nanmean(table[:, place])), "low": low[place], "high": high[place]}
        rows.append(row)
    return rows


def _user_differences(grid: Grid, ours: Cell, rival: Cell, metrics: list[str]) -> tuple[list[str], FloatArray]:
    """Metrics that exist per user, and float [users, metrics]: differences on the same seed, averaged over seeds."""
    everyone = grid.scan_per_user().filter(pl.col("backbone") == ours.backbone)
    names = [name for name in metrics if name in everyone.collect_schema().names()]
    mine, theirs = (
        everyone.filter(pl.col("label") == one.label).select("seed", col.USER, *names) for one in (ours, rival)
    )
    both = mine.join(theirs, on=["seed", col.USER], how="inner", suffix="_theirs")
    differences = [(pl.col(name) - pl.col(f"{name}_theirs")).mean().alias(name) for name in names]
    users = both.group_by(col.USER).agg(differences).sort(col.USER).select(names).collect()
    return names, users.fill_null(np.nan).to_numpy().astype(np.float64).reshape(-1, len(names))


def _has_runs(grid: Grid, cell: Cell) -> bool:
    mine = (pl.col("label") == cell.label) & (pl.col("backbone") == cell.backbone)
    return grid.results.filter(mine).height > 0


def _p(value: float | None) -> str | None:
    if value is None:
        return None
    return "< .0001" if value < 0.0001 else f"{value:.4f}".removeprefix("0")
