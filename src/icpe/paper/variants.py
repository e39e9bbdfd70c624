"""Table 3 and Figures 7, 8 and 9b: ICPE with parts left out, other K, other α, and its weights over training."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from icpe.compare.grid import Cell, Grid
from icpe.metrics.statistics import holm, paired_t_test
from icpe.paper import numbers as paper
from icpe.paper.finding import Claim, Finding
from icpe.paper.setting import BACKBONES, PAPER, Setting, means
from icpe.runs.run import evaluate_run

_ABLATION = ("recall_niche@20", "ndcg_niche@20", "coverage@20", "apt@20", "recall@20", "ndcg@20")
_WITHOUT = {"w/o CR": {"weights_on": "none"}, "w/o PD": {"features": "plain"}}
_CURVE = ("ndcg@20", "ndcg_niche@20", "coverage@20", "apt@20")
_LEVEL = 0.05
CLUSTERS = (3, 4, 5, 6)
ALPHAS = (0.0, 1e-4, 1e-3, 2e-3, 5e-3, 1e-2)
_RANGE = (1.04, 1.12)  # of the niche weight, read off the paper's Fig. 9b


def ablation(setting: Setting) -> Finding:
    """Table 3: without re-weighting, without popularity in the clusters, without counterfactual inference."""
    backbone = setting.graph
    cells = [setting.cell("ICPE", "icpe", backbone), setting.paper_cell(PAPER, backbone)]
    cells += [setting.cell(f"ICPE {name}", "icpe", backbone, **change) for name, change in _WITHOUT.items()]
    cells += [setting.paper_cell(f"{PAPER} {name}", backbone, **change) for name, change in _WITHOUT.items()]
    grid = setting.run(cells)
    results = pl.concat([grid.results, *(_factual(grid, cell) for cell in cells[:2])], how="diagonal_relaxed")
    rows = [
        row
        for first in ("ICPE", PAPER)
        for label in (first, *(f"{first} {name}" for name in (*_WITHOUT, "w/o CI")))
        for row in _mean_row(results.filter(label=label), label, backbone)
    ]
    found = pl.DataFrame(rows, infer_schema_length=None)
    theirs = paper.of_table("Table 3", setting.dataset)
    claims = [claim for first in ("ICPE", PAPER) for claim in _parts_claims(found, theirs, first, results)]
    title = f"Parts left out, on {BACKBONES[backbone]} (paper Table 3)"
    notes = [
        "w/o CI is the same trained model ranked with the propensity (β = 1); the other variants are trained anew.",
    ]
    if len(grid.seeds) > 1:
        notes.append("† paired t-test over seeds, two-sided, p < .05 after Holm's correction for the six figures.")
    return Finding("ablation", title, claims, setting.caption(grid), {"ablation": found, "runs": results}, notes=notes)


def clusters(setting: Setting) -> Finding:
    """Figure 7: K from 3 to 6."""
    backbone = setting.graph
    values = CLUSTERS[:2] if setting.quick else CLUSTERS
    cells = [_with(setting.cell, "ICPE", {"method": "icpe"}, backbone, "clusters", k, 4, f"K={k}") for k in values]
    cells += [_with(setting.paper_cell, PAPER, {}, backbone, "clusters", k, 4, f"K={k}") for k in values]
    grid = setting.run(cells)
    found = _curves(grid, ("ICPE", PAPER), "K=", 4)
    claims = []
    for first in ("ICPE", PAPER):
        rows = list(found.filter(variant=first).iter_rows(named=True))
        if not rows:
            continue
        best = max(rows, key=lambda row: row["ndcg_niche@20"])
        spread = _spread([row["ndcg@20"] for row in rows])
        claims.append(
            Claim(
                "four clusters are best for niche items, and overall accuracy hardly depends on their number.",
                f"{first}: niche NDCG {_listed(rows, 'ndcg_niche@20', 'K')}; overall NDCG varies by {spread:.1%}.",
                best["value"] == 4 and spread < 0.02,
            )
        )
    title = f"Number of clusters, on {BACKBONES[backbone]} (paper Fig. 7)"
    return Finding("clusters", title, claims, setting.caption(grid), {"clusters": found})


def alpha(setting: Setting) -> Finding:
    """Figure 8: the share of the propensity."""
    backbone = setting.graph
    values = ALPHAS[::3] if setting.quick else ALPHAS
    cells = [_with(setting.paper_cell, PAPER, {}, backbone, "alpha", one, 2e-3, f"alpha={one:g}") for one in values]
    grid = setting.run(cells)
    found = _curves(grid, (PAPER,), "alpha=", 2e-3)
    rows = list(found.iter_rows(named=True))
    best = max(rows, key=lambda row: row["ndcg@20"])
    niche = [row["ndcg_niche@20"] for row in rows]
    claims = [
        Claim(
            "overall NDCG is best at α = 2e-3.",
            f"NDCG {_listed(rows, 'ndcg@20', 'α')}; best at α = {best['value']:g}.",
            best["value"] == 2e-3,
        ),
        Claim(
            "accuracy on niche items keeps rising with α.",
            f"niche NDCG {_listed(rows, 'ndcg_niche@20', 'α')}.",
            bool(np.all(np.diff(niche) > 0)),
        ),
    ]
    title = f"Share of the propensity, on {BACKBONES[backbone]} (paper Fig. 8)"
    return Finding("alpha", title, claims, setting.caption(grid), {"alpha": found})


def weights(setting: Setting) -> Finding:
    """Figure 9b: the mean weight of niche items over training."""
    backbone = setting.graph
    cells = [setting.cell("ICPE", "icpe", backbone), setting.paper_cell(PAPER, backbone)]
    grid = setting.run(cells)
    curves = [
        {"label": cell.label, "seed": seed, **one}
        for cell in cells
        for seed in grid.seeds
        for one in noted(grid.run_folder(cell, seed))
    ]
    found = pl.DataFrame(
        [
            {"label": one["label"], "seed": one["seed"], "step": one["step"], "niche_weight": one["niche_weight"]}
            for one in curves
        ],
        infer_schema_length=None,
    )
    claims = []
    for label in ("ICPE", PAPER):
        ends = [
            group.sort("step")["niche_weight"][-1]
            for _, group in found.filter(label=label).group_by("seed", maintain_order=True)
        ]
        if not ends:
            continue
        claims.append(
            Claim(
                f"the mean weight of niche items converges to {_RANGE[0]}–{_RANGE[1]}.",
                f"{label} ends at {min(ends):.3f}–{max(ends):.3f} over the seeds.",
                _RANGE[0] <= min(ends) and max(ends) <= _RANGE[1],
            )
        )
    title = f"Weight of niche items over training, on {BACKBONES[backbone]} (paper Fig. 9b)"
    notes = ["Weights have mean 1 over training pairs, so that they can be compared with the paper's figure."]
    return Finding("weights", title, claims, setting.caption(grid), {"weights": found}, notes=notes)


def noted(folder: Path) -> list[dict[str, Any]]:
    """What ICPE wrote of its inside at each validation of a run; empty if there is no such run."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [{"step": record["step"], **record["icpe"]} for record in records if "icpe" in record]


def _with(
    make: Any, first: str, leading: dict[str, Any], backbone: str, name: str, value: Any, usual: Any, said: str
) -> Cell:
    """A variant; the usual value keeps the plain label, so that its runs serve other studies too."""
    label = first if value == usual else f"{first} {said}"
    cell: Cell = make(label, **leading, backbone=backbone, **{name: value})
    return cell


def _curves(grid: Grid, variants: Sequence[str], mark: str, usual: float) -> pl.DataFrame:
    """``variant, value`` and the metrics, by value."""
    found = means(grid, *_CURVE)
    rows = []
    for row in found.iter_rows(named=True):
        variant = max((one for one in variants if row["label"].startswith(one)), key=len)
        said = row["label"].removeprefix(variant).strip()
        rows.append({"variant": variant, "value": float(said.removeprefix(mark)) if said else float(usual), **row})
    return pl.DataFrame(rows, infer_schema_length=None).sort("variant", "value")


def _factual(grid: Grid, cell: Cell) -> pl.DataFrame:
    """The runs of a cell, ranked with the propensity."""
    rows = []
    for run in grid.results.filter(label=cell.label, backbone=cell.backbone).iter_rows(named=True):
        measured = evaluate_run(grid.run_folder(cell, run["seed"]), adjust={"beta": 1.0})
        rows.append({**run, **measured["test"], "label": f"{cell.label} w/o CI"})
    return pl.DataFrame(rows, infer_schema_length=None)


def _mean_row(runs: pl.DataFrame, label: str, backbone: str) -> list[dict[str, Any]]:
    if runs.is_empty():
        return []
    row: dict[str, Any] = {"backbone": backbone, "label": label, "seeds": len(runs)}
    for metric in _ABLATION:
        row[metric] = runs[metric].mean()
        row[f"{metric} std"] = runs[metric].std() if len(runs) > 1 else None
    return [row]


def _parts_claims(found: pl.DataFrame, theirs: pl.DataFrame, first: str, runs: pl.DataFrame) -> list[Claim]:
    """Whether each part helps: by tests over the seeds, or with one seed by which figures are lower without it."""
    rows = {row["label"]: row for row in found.iter_rows(named=True)}
    if first not in rows:
        return []
    claims = []
    for name in ("w/o CR", "w/o PD", "w/o CI"):
        without = rows.get(f"{first} {name}")
        if without is None:
            continue
        certain = _certain(runs, first, f"{first} {name}")
        changes = [
            f"{_short(metric)} {without[metric] / rows[first][metric] - 1:+.1%}{'†' if metric in certain else ''}"
            for metric in _ABLATION
            if rows[first][metric]
        ]
        said = f"{name[4:]} helps: without it no figure is better and some are worse"
        if not theirs.is_empty():
            whole, part = (theirs.filter(label=label).row(0, named=True) for label in ("ICPE", f"ICPE {name}"))
            said += (
                " ("
                + ", ".join(f"{_short(metric)} {part[metric] / whole[metric] - 1:+.1%}" for metric in _ABLATION)
                + ")"
            )
        judged = certain if without["seeds"] > 1 else _ABLATION
        fallen = [without[metric] - rows[first][metric] for metric in judged]
        claims.append(
            Claim(
                f"{said}.",
                f"{first}: {', '.join(changes)}.",
                all(change <= 0 for change in fallen) and any(change < 0 for change in fallen),
            )
        )
    return claims


def _certain(runs: pl.DataFrame, first: str, other: str) -> list[str]:
    """The figures in which two variants differ by a paired test over their seeds."""
    pairs = runs.filter(label=first).join(runs.filter(label=other), on="seed", suffix=" without")
    tests = [paired_t_test(pairs[metric].to_numpy(), pairs[f"{metric} without"].to_numpy()) for metric in _ABLATION]
    corrected = holm([None if test is None else test.p for test in tests])
    return [metric for metric, p in zip(_ABLATION, corrected, strict=True) if p is not None and p < _LEVEL]


def _short(metric: str) -> str:
    names = {"recall": "Recall", "ndcg": "NDCG", "coverage": "Coverage", "apt": "APT"}
    kind, _, group = metric.removesuffix("@20").partition("_")
    return f"{group} {names[kind]}".strip()


def _listed(rows: Sequence[dict[str, Any]], metric: str, name: str) -> str:
    return ", ".join(f"{row[metric]:.4f} at {name} = {row['value']:g}" for row in rows)


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(values) if max(values) else 0.0
