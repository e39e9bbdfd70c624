"""Figure 9b: the mean weight of niche items over training."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from icpe.paper.finding import Claim, Finding
from icpe.paper.reproduction import BACKBONES, PAPER, Reproduction

_RANGE = (1.04, 1.12)  # where the paper's curves end, read off its Figure 9b


def weights(reproduction: Reproduction) -> Finding:
    """Figure 9b: the mean weight of niche items over training."""
    backbone = reproduction.main_backbone
    cells = [reproduction.cell("ICPE", "icpe", backbone), reproduction.paper_cell(PAPER, backbone)]
    grid = reproduction.run(cells)
    rows = [
        {"label": cell.label, "seed": seed, "step": one["step"], "niche_weight": one["niche_weight"]}
        for cell in cells
        for seed in grid.seeds
        for one in icpe_records(grid.run_folder(cell, seed))
    ]
    found = pl.DataFrame(rows, infer_schema_length=None)
    claims = []
    for label in ("ICPE", PAPER):
        runs = found.filter(label=label).group_by("seed", maintain_order=True)
        last = [run.sort("step")["niche_weight"][-1] for _, run in runs]
        if last:
            claims.append(
                Claim(
                    f"the mean weight of niche items converges to {_RANGE[0]}–{_RANGE[1]}.",
                    f"{label} ends at {min(last):.3f}–{max(last):.3f} over the seeds.",
                    _RANGE[0] <= min(last) and max(last) <= _RANGE[1],
                )
            )
    title = f"Weight of niche items over training on {BACKBONES[backbone]} (paper Fig. 9b)"
    notes = ["The weights have mean 1 over training pairs, as in the paper's figure."]
    return Finding("weights", title, claims, reproduction.caption(grid), {"weights": found}, notes=notes)


def icpe_records(folder: Path) -> list[dict[str, Any]]:
    """Diagnostics that ICPE recorded at each validation of a run. Empty if the run does not exist."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [{"step": record["step"], **record["icpe"]} for record in records if "icpe" in record]
