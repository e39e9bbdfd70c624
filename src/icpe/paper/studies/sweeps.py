"""Figures 7 and 8: ICPE with other numbers of clusters K and other shares of the propensity α."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from icpe.compare.grid import Cell
from icpe.paper.finding import Claim, Finding
from icpe.paper.reproduction import BACKBONES, PAPER, Reproduction, means

CLUSTERS = (3, 4, 5, 6)
ALPHAS = (0.0, 1e-4, 1e-3, 2e-3, 5e-3, 1e-2)
_DEFAULTS = {"clusters": 4, "alpha": 2e-3}
_METRICS = ("ndcg@20", "ndcg_niche@20", "coverage@20", "apt@20")
_SMALL_SPREAD = 0.02  # relative range of NDCG below which it "hardly depends" on the setting


def clusters(reproduction: Reproduction) -> Finding:
    """Figure 7: K from 3 to 6."""
    values = CLUSTERS[:2] if reproduction.quick else CLUSTERS
    cells = [_cell(reproduction, form, "clusters", value) for form in ("ICPE", PAPER) for value in values]
    grid = reproduction.run(cells)
    found = sweep_table(means(grid, *_METRICS), ("ICPE", PAPER), "clusters")
    claims = []
    for form in ("ICPE", PAPER):
        rows = found.filter(variant=form).to_dicts()
        if not rows:
            continue
        best = max(rows, key=lambda row: row["ndcg_niche@20"])
        spread = _relative_range([row["ndcg@20"] for row in rows])
        claims.append(
            Claim(
                "four clusters are best for niche items, and overall accuracy hardly depends on their number.",
                f"{form}: niche NDCG {_listed(rows, 'ndcg_niche@20', 'K')}; overall NDCG varies by {spread:.1%}.",
                best["value"] == _DEFAULTS["clusters"] and spread < _SMALL_SPREAD,
            )
        )
    title = f"Number of clusters on {BACKBONES[reproduction.main_backbone]} (paper Fig. 7)"
    return Finding("clusters", title, claims, reproduction.caption(grid), {"clusters": found})


def alpha(reproduction: Reproduction) -> Finding:
    """Figure 8: the share of the propensity."""
    values = ALPHAS[::3] if reproduction.quick else ALPHAS
    grid = reproduction.run([_cell(reproduction, PAPER, "alpha", value) for value in values])
    found = sweep_table(means(grid, *_METRICS), (PAPER,), "alpha")
    rows = found.to_dicts()
    best = max(rows, key=lambda row: row["ndcg@20"])
    claims = [
        Claim(
            "overall NDCG is best at α = 2e-3.",
            f"NDCG {_listed(rows, 'ndcg@20', 'α')}; best at α = {best['value']:g}.",
            best["value"] == _DEFAULTS["alpha"],
        ),
        Claim(
            "accuracy on niche items keeps rising with α.",
            f"niche NDCG {_listed(rows, 'ndcg_niche@20', 'α')}.",
            bool(np.all(np.diff([row["ndcg_niche@20"] for row in rows]) > 0)),
        ),
    ]
    title = f"Share of the propensity on {BACKBONES[reproduction.main_backbone]} (paper Fig. 8)"
    return Finding("alpha", title, claims, reproduction.caption(grid), {"alpha": found})


def sweep_table(found: pl.DataFrame, forms: Sequence[str], setting: str) -> pl.DataFrame:
    """Mean metrics with the columns ``variant`` and ``value`` in front, sorted by both.

    Args:
        found: metrics by ``label``. A label without a value stands for the default value of the setting.
        forms: labels of the forms of ICPE.
        setting: name of the setting, ``"clusters"`` or ``"alpha"``.
    """
    rows = []
    for row in found.iter_rows(named=True):
        form = max((one for one in forms if row["label"].startswith(one)), key=len)
        text = row["label"].removeprefix(form).strip().removeprefix(_mark(setting))
        rows.append({"variant": form, "value": float(text or _DEFAULTS[setting]), **row})
    return pl.DataFrame(rows, infer_schema_length=None).sort("variant", "value")


def _cell(reproduction: Reproduction, form: str, setting: str, value: float) -> Cell:
    """Cell of ICPE with one value of a setting. The default value keeps the plain label to share runs with others."""
    label = form if value == _DEFAULTS[setting] else f"{form} {_mark(setting)}{value:g}"
    if form == PAPER:
        return reproduction.paper_cell(label, reproduction.main_backbone, **{setting: value})
    return reproduction.cell(label, "icpe", reproduction.main_backbone, **{setting: value})


def _mark(setting: str) -> str:
    return {"clusters": "K=", "alpha": "alpha="}[setting]


def _listed(rows: Sequence[dict[str, Any]], metric: str, symbol: str) -> str:
    return ", ".join(f"{row[metric]:.4f} at {symbol} = {row['value']:g}" for row in rows)


def _relative_range(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(values) if max(values) else 0.0
