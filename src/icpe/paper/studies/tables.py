"""Tables 1 and 2: accuracy and debiasing of eight methods on three backbones."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from icpe.compare.grid import Grid
from icpe.compare.tables import table_of
from icpe.paper.finding import Claim, Finding
from icpe.paper.printed_numbers import printed_table
from icpe.paper.reproduction import BACKBONES, METHODS, PAPER, Reproduction, means

_NAMES = {"recall@20": "Recall", "ndcg@20": "NDCG", "coverage@20": "Coverage", "apt@20": "APT"}


def accuracy(reproduction: Reproduction) -> Finding:
    """Table 1: Recall and NDCG."""
    return _study(reproduction, "accuracy", "Table 1", "Accuracy", ("recall@20", "ndcg@20"))


def debiasing(reproduction: Reproduction) -> Finding:
    """Table 2: Coverage and APT."""
    return _study(reproduction, "debiasing", "Table 2", "Debiasing", ("coverage@20", "apt@20"))


def best_method_claim(found: pl.DataFrame, backbone: str, metric: str) -> Claim | None:
    """Claim that ICPE is the best of the eight methods on a backbone. None without ICPE, Normal or a rival.

    Where the paper's own table has another method ahead of ICPE, that order is what must be observed.

    Args:
        found: ``backbone, label``, the metric, and optionally a column ``"<metric> paper"`` with the printed numbers.
        backbone: name of the backbone.
        metric: name of the metric.
    """
    rows = {row["label"]: row for row in found.filter(backbone=backbone).iter_rows(named=True)}
    ours, normal = rows.get("ICPE"), rows.get("Normal")
    rivals = [row for label, row in rows.items() if label in METHODS.values() and label != "ICPE"]
    if ours is None or normal is None or not rivals:
        return None
    best = max(rivals, key=lambda row: row[metric])
    name, printed = f"{_NAMES[metric]}@20 on {BACKBONES[backbone]}", f"{metric} paper"
    said, expected = f"ICPE is the best in {name}", True
    if ours.get(printed) is not None:
        top = max((row for row in rivals if row.get(printed) is not None), key=lambda row: row[printed])
        expected = ours[printed] > top[printed]
        said = f"ICPE {'is' if expected else 'is not'} the best in {name}, {_compared(ours, top, normal, printed)}"
    seen = f"{_compared(ours, best, normal, metric)}."
    if PAPER in rows:
        seen += f" ICPE as printed in the paper reaches {rows[PAPER][metric]:.4f}."
    return Claim(f"{said}.", seen, (ours[metric] > best[metric]) == expected)


def _study(reproduction: Reproduction, what: str, table: str, name: str, metrics: Sequence[str]) -> Finding:
    grid = reproduction.run(reproduction.trainings())
    found, printed = means(grid, *metrics), printed_table(table, reproduction.dataset)
    if not printed.is_empty():
        names = {metric: f"{metric} paper" for metric in metrics if metric in printed.columns}
        found = found.join(printed.rename(names), on=["backbone", "label"], how="left", maintain_order="left")
    claims = [best_method_claim(found, backbone, metric) for backbone in reproduction.backbones for metric in metrics]
    return Finding(
        what,
        f"{name} (paper {table})",
        [claim for claim in claims if claim is not None],
        reproduction.caption(grid),
        {what: found, "runs": grid.results},
        {what: table_of(grid, metrics=list(metrics))},
        _notes(grid, metrics),
    )


def _compared(ours: dict[str, Any], best: dict[str, Any], normal: dict[str, Any], metric: str) -> str:
    """ICPE's value, and its relative difference from the best rival and from Normal."""
    others = [best] if best["label"] == normal["label"] else [best, normal]
    parts = [f"{_change(ours[metric], one[metric])} against {one['label']} ({one[metric]:.4f})" for one in others]
    return f"{ours[metric]:.4f}: {', '.join(parts)}"


def _change(ours: float, theirs: float) -> str:
    return f"{ours / theirs - 1:+.1%}" if theirs else "up from 0"


def _notes(grid: Grid, metrics: Sequence[str]) -> list[str]:
    notes = []
    if {"recall@20", "ndcg@20"} & set(metrics):
        notes.append(
            "Absolute values cannot be compared with the paper's, whose protocol is not fully specified. The order of "
            "the methods and relative differences can."
        )
    if grid.failures:
        failed = ", ".join(f"{one.label} on {one.backbone}, seed {one.seed}: {one.reason}" for one in grid.failures)
        notes.append(f"Runs that failed: {failed}.")
    return notes
