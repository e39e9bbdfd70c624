"""Figures 5 and 6: accuracy on head items against accuracy on niche items."""

from typing import Any

from icpe.paper.finding import Claim, Finding
from icpe.paper.reproduction import BACKBONES, PAPER, Reproduction, means

_KINDS = {"recall": "Recall", "ndcg": "NDCG"}
_SMALL_LOSS = 0.1  # share of the head accuracy that "only a little" allows to lose


def tradeoff(reproduction: Reproduction) -> Finding:
    """Figures 5 and 6: head against niche Recall and NDCG."""
    backbone = reproduction.main_backbone
    grid = reproduction.run(reproduction.trainings([backbone]))
    found = means(grid, *(f"{kind}_{group}@20" for kind in _KINDS for group in ("head", "niche")))
    rows = {row["label"]: row for row in found.iter_rows(named=True)}
    claims = [_claim(rows, kind) for kind in _KINDS] if {"Normal", "ICPE"} <= set(rows) else []
    title = f"Head against niche items on {BACKBONES[backbone]} (paper Figs. 5 and 6)"
    return Finding("tradeoff", title, claims, reproduction.caption(grid), {"tradeoff": found, "runs": grid.results})


def _claim(rows: dict[str, dict[str, Any]], kind: str) -> Claim:
    niche, head, normal, ours = f"{kind}_niche@20", f"{kind}_head@20", rows["Normal"], rows["ICPE"]
    best = max((row for label, row in rows.items() if label != PAPER), key=lambda row: row[niche])
    lost = 1 - ours[head] / normal[head]
    return Claim(
        f"ICPE has the highest niche {_KINDS[kind]} and loses only a little on head items.",
        f"niche {ours[niche]:.4f} (Normal {normal[niche]:.4f}, best {best['label']} {best[niche]:.4f}), head "
        f"{ours[head]:.4f} against {normal[head]:.4f}, {lost:.0%} less. (A little means less than {_SMALL_LOSS:.0%}.)",
        best["label"] == "ICPE" and lost < _SMALL_LOSS,
    )
