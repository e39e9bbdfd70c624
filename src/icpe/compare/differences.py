"""Differences of one method to each of the others, over seeds and over users."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.compare._caption import data_said
from icpe.compare._state import Cell, Grid
from icpe.compare.tables import backbone_name, find_subject, metric_name, metrics_of, paired_values
from icpe.metrics.statistics import bootstrap_interval, holm, paired_t_test, t_test
from icpe.types import FloatArray


@dataclass(frozen=True)
class Differences:
    """The subject less each rival.

    Attributes:
        frame: backbone, subject, rival, metric, difference, seeds, p_seeds, p_seeds_holm, users, user_difference,
            p_users, p_users_holm, low, high.
        caption: what a reader has to know.
    """

    frame: pl.DataFrame
    caption: str

    def as_csv(self) -> str:
        """For machines."""
        return self.frame.write_csv()

    def as_markdown(self) -> str:
        """For pages."""
        heading = "| backbone | subject less … | metric | difference | p over seeds | p over users | 95 % interval |"
        lines = [heading, "|---|---|---|---|---|---|---|"]
        for row in self.frame.iter_rows(named=True):
            interval = "–" if row["low"] is None else f"{row['low']:+.4f} to {row['high']:+.4f}"
            who = f"{row['subject']} less {row['rival']}"
            lines.append(
                f"| {backbone_name(row['backbone'])} | {who} | {metric_name(row['metric'])} | {row['difference']:+.4f} "
                f"| {_p(row['p_seeds_holm'])} | {_p(row['p_users_holm'])} | {interval} |"
            )
        return "\n".join([*lines, "", self.caption]) + "\n"


def differences_of(grid: Grid, metrics: Sequence[str] | None = None, subject: str | None = "icpe") -> Differences:
    """The subject less each rival: paired tests over seeds and over users, and bootstrap intervals.

    Over users: differences of the same user on the same seed are averaged over seeds, then tested over users. They are
    many, so that small differences show; but they share the trained models, and tell nothing of other seeds.
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
        f"{data_said(grid)}. Differences are means over the seeds both have. p: two-sided paired t-tests, over seeds "
        "and over users (differences of a user averaged over seeds), each corrected by Holm for all rows of this "
        "table; – where no test can be made. The interval: percentile bootstrap over users, 1,000 resamples, without "
        "correction. "
        "Tests over users see the chance in who was asked, not that of splits and starts."
    )
    return Differences(frame, caption)


def _pair(grid: Grid, ours: Cell, rival: Cell, metrics: list[str]) -> list[dict[str, Any]]:
    """The rows of one rival, one per metric."""
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
    """Metrics users have one by one, and float [users, metrics]: differences on the same seed, averaged over seeds."""
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


def _p(value: float | None) -> str:
    if value is None:
        return "–"
    return "< .0001" if value < 0.0001 else f"{value:.4f}".removeprefix("0")
