"""Table 3: ICPE without one of its components."""

from typing import Any

import polars as pl

from icpe.compare.grid import Cell, Grid
from icpe.metrics.statistics import holm, paired_t_test
from icpe.paper.finding import Claim, Finding
from icpe.paper.printed_numbers import printed_table
from icpe.paper.reproduction import BACKBONES, PAPER, Reproduction
from icpe.runs.saved import evaluate_run

METRICS = ("recall_niche@20", "ndcg_niche@20", "coverage@20", "apt@20", "recall@20", "ndcg@20")
_TRAINED_WITHOUT = {"w/o CR": {"weights_on": "none"}, "w/o PD": {"features": "plain"}}
_VARIANTS = (*_TRAINED_WITHOUT, "w/o CI")
_SIGNIFICANT = 0.05


def ablation(reproduction: Reproduction) -> Finding:
    """Table 3: ICPE without re-weighting, without popularity in the clusters, and without counterfactual inference."""
    backbone = reproduction.main_backbone
    cells = [reproduction.cell("ICPE", "icpe", backbone), reproduction.paper_cell(PAPER, backbone)]
    for name, change in _TRAINED_WITHOUT.items():
        cells.append(reproduction.cell(f"ICPE {name}", "icpe", backbone, **change))
        cells.append(reproduction.paper_cell(f"{PAPER} {name}", backbone, **change))
    grid = reproduction.run(cells)
    factual = [_evaluate_with_propensity(grid, cell) for cell in cells[:2]]
    results = pl.concat([grid.results, *factual], how="diagonal_relaxed")
    rows = [
        row
        for form in ("ICPE", PAPER)
        for label in (form, *(f"{form} {name}" for name in _VARIANTS))
        for row in _mean_row(results.filter(label=label), label, backbone)
    ]
    found = pl.DataFrame(rows, infer_schema_length=None)
    printed = printed_table("Table 3", reproduction.dataset)
    claims = [claim for form in ("ICPE", PAPER) for claim in ablation_claims(found, printed, form, results)]
    notes = ["w/o CI is the same trained model, ranked with the propensity (β = 1). Other variants are trained again."]
    if len(grid.seeds) > 1:
        notes.append("† p < .05 in a two-sided paired t-test over seeds, Holm-corrected for the six metrics.")
    title, frames = f"Ablation on {BACKBONES[backbone]} (paper Table 3)", {"ablation": found, "runs": results}
    return Finding("ablation", title, claims, reproduction.caption(grid), frames, notes=notes)


def ablation_claims(found: pl.DataFrame, printed: pl.DataFrame, form: str, runs: pl.DataFrame) -> list[Claim]:
    """Claims that each component helps, for the variants that were measured.

    A component helps if without it some metrics are significantly lower over seeds and none is significantly higher.
    With a single seed, all differences count.

    Args:
        found: mean metrics by ``label``, with the number of ``seeds``.
        printed: the paper's table, or an empty frame.
        form: label of the complete method: ``"ICPE"``, or ICPE as printed.
        runs: metrics by ``label`` and ``seed``.
    """
    rows = {row["label"]: row for row in found.iter_rows(named=True)}
    if form not in rows:
        return []
    claims = []
    for name in _VARIANTS:
        without = rows.get(f"{form} {name}")
        if without is None:
            continue
        significant = _significant_metrics(runs, form, f"{form} {name}")
        said = f"{name.removeprefix('w/o ')} helps: without it no metric is better and some are worse"
        if not printed.is_empty():
            whole, part = (printed.filter(label=label).row(0, named=True) for label in ("ICPE", f"ICPE {name}"))
            said += f" ({_changes(part, whole)})"
        judged = significant if without["seeds"] > 1 else METRICS
        differences = [without[metric] - rows[form][metric] for metric in judged]
        helps = all(one <= 0 for one in differences) and any(one < 0 for one in differences)
        claims.append(Claim(f"{said}.", f"{form}: {_changes(without, rows[form], significant)}.", helps))
    return claims


def _evaluate_with_propensity(grid: Grid, cell: Cell) -> pl.DataFrame:
    """Metrics of the runs of a cell when ranking includes the propensity (β = 1)."""
    rows = []
    for run in grid.results.filter(label=cell.label, backbone=cell.backbone).iter_rows(named=True):
        measured = evaluate_run(grid.run_folder(cell, run["seed"]), adjust={"beta": 1.0})
        rows.append({**run, **measured["test"], "label": f"{cell.label} w/o CI"})
    return pl.DataFrame(rows, infer_schema_length=None)


def _mean_row(runs: pl.DataFrame, label: str, backbone: str) -> list[dict[str, Any]]:
    if runs.is_empty():
        return []
    row: dict[str, Any] = {"backbone": backbone, "label": label, "seeds": len(runs)}
    for metric in METRICS:
        row[metric] = runs[metric].mean()
        row[f"{metric} std"] = runs[metric].std() if len(runs) > 1 else None
    return [row]


def _changes(part: dict[str, Any], whole: dict[str, Any], significant: list[str] | None = None) -> str:
    """Relative change of each metric, with † where it is significant."""
    return ", ".join(
        f"{_short(metric)} {part[metric] / whole[metric] - 1:+.1%}{'†' if metric in (significant or []) else ''}"
        for metric in METRICS
        if whole[metric]
    )


def _significant_metrics(runs: pl.DataFrame, form: str, other: str) -> list[str]:
    """Metrics in which two variants differ by a paired test over seeds."""
    pairs = runs.filter(label=form).join(runs.filter(label=other), on="seed", suffix=" without")
    tests = [paired_t_test(pairs[metric].to_numpy(), pairs[f"{metric} without"].to_numpy()) for metric in METRICS]
    corrected = holm([None if test is None else test.p for test in tests])
    return [metric for metric, p in zip(METRICS, corrected, strict=True) if p is not None and p < _SIGNIFICANT]


def _short(metric: str) -> str:
    names = {"recall": "Recall", "ndcg": "NDCG", "coverage": "Coverage", "apt": "APT"}
    kind, _, group = metric.removesuffix("@20").partition("_")
    return f"{group} {names[kind]}".strip()
