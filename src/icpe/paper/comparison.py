"""Tables 1 and 2 and Figures 5 and 6: eight trainings on three backbones."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from icpe.compare.grid import Grid
from icpe.compare.tables import table_of
from icpe.paper import numbers as paper
from icpe.paper.finding import Claim, Finding
from icpe.paper.setting import BACKBONES, METHODS, PAPER, Setting, means

_NAMES = {"recall@20": "Recall", "ndcg@20": "NDCG", "coverage@20": "Coverage", "apt@20": "APT"}


def accuracy(setting: Setting) -> Finding:
    """Table 1: Recall and NDCG."""
    return _table(setting, "accuracy", "Table 1", "Accuracy", ("recall@20", "ndcg@20"))


def debiasing(setting: Setting) -> Finding:
    """Table 2: Coverage and APT."""
    return _table(setting, "debiasing", "Table 2", "Debiasing", ("coverage@20", "apt@20"))


def tradeoff(setting: Setting) -> Finding:
    """Figures 5 and 6: head against niche."""
    grid = setting.run(setting.trainings([setting.graph]))
    metrics = ("recall_head@20", "recall_niche@20", "ndcg_head@20", "ndcg_niche@20")
    found = means(grid, *metrics)
    claims = []
    for kind in ("recall", "ndcg"):
        rows = {row["label"]: row for row in found.iter_rows(named=True)}
        normal, ours = rows.get("Normal"), rows.get("ICPE")
        if normal is None or ours is None:
            continue
        niche, head = f"{kind}_niche@20", f"{kind}_head@20"
        best = max((row for row in rows.values() if row["label"] != PAPER), key=lambda row: row[niche])
        lost = 1 - ours[head] / normal[head]
        claims.append(
            Claim(
                f"ICPE has the highest niche {kind.upper() if kind == 'ndcg' else 'Recall'} and gives up only a little "
                "for head items.",
                f"niche {ours[niche]:.4f} (Normal {normal[niche]:.4f}, best {best['label']} {best[niche]:.4f}), "
                f"head {ours[head]:.4f} against {normal[head]:.4f}, {lost:.0%} less. "
                f"(A little is taken as less than a tenth.)",
                best["label"] == "ICPE" and lost < 0.1,
            )
        )
    title = f"Head against niche items on {BACKBONES[setting.graph]} (paper Figs. 5 and 6)"
    return Finding("tradeoff", title, claims, setting.caption(grid), {"tradeoff": found, "runs": grid.results})


def _table(setting: Setting, what: str, table: str, name: str, metrics: Sequence[str]) -> Finding:
    grid = setting.run(setting.trainings())
    found = means(grid, *metrics)
    theirs = paper.of_table(table, setting.dataset)
    joined = (
        found.join(
            theirs.rename({metric: f"{metric} paper" for metric in metrics if metric in theirs.columns}),
            on=["backbone", "label"],
            how="left",
            maintain_order="left",
        )
        if not theirs.is_empty()
        else found
    )
    claims = [_claim(joined, backbone, metric) for backbone in setting.backbones for metric in metrics]
    return Finding(
        what,
        f"{name} (paper {table})",
        [claim for claim in claims if claim is not None],
        setting.caption(grid),
        {what: joined, "runs": grid.results},
        {what: table_of(grid, metrics=list(metrics))},
        _notes(grid, metrics),
    )


def _claim(found: pl.DataFrame, backbone: str, metric: str) -> Claim | None:
    """Whether ICPE is the best of the eight, and by how much it is ahead of Normal and the best rival."""
    rows = {row["label"]: row for row in found.filter(backbone=backbone).iter_rows(named=True)}
    ours, normal = rows.get("ICPE"), rows.get("Normal")
    rivals = [row for label, row in rows.items() if label in METHODS.values() and label != "ICPE"]
    if ours is None or normal is None or not rivals:
        return None
    best = max(rivals, key=lambda row: row[metric])
    name = f"{_NAMES[metric]}@20 on {BACKBONES[backbone]}"
    said = f"ICPE is the best in {name}"
    column = f"{metric} paper"
    if ours.get(column) is not None:
        printed = [row for row in rivals if row.get(column) is not None]
        top = max(printed, key=lambda row: row[column])
        verb = "is" if ours[column] > top[column] else "is not"
        said = f"ICPE {verb} the best in {name}, {_placed(ours, top, normal, column)}"
        claimed = ours[column] > top[column]
    else:
        claimed = True
    seen = f"{_placed(ours, best, normal, metric)}."
    if PAPER in rows:
        seen += f" In the paper's own form {rows[PAPER][metric]:.4f}."
    return Claim(f"{said}.", seen, (ours[metric] > best[metric]) == claimed)


def _placed(ours: dict[str, Any], best: dict[str, Any], normal: dict[str, Any], metric: str) -> str:
    """A figure beside those of the best rival and of Normal."""
    others = [best] if best["label"] == normal["label"] else [best, normal]
    said = [f"{_change(ours[metric], one[metric])} against {one['label']} ({one[metric]:.4f})" for one in others]
    return f"{ours[metric]:.4f}: {', '.join(said)}"


def _change(ours: float, theirs: float) -> str:
    return f"{ours / theirs - 1:+.1%}" if theirs else "from nothing"


def _notes(grid: Grid, metrics: Sequence[str]) -> list[str]:
    notes = []
    if {"recall@20", "ndcg@20"} & set(metrics):
        notes.append(
            "Levels cannot be compared with the paper's, whose protocol is not fully given; orders and relative "
            "differences can."
        )
    if grid.failures:
        failed = ", ".join(f"{one.label} on {one.backbone}, seed {one.seed}: {one.reason}" for one in grid.failures)
        notes.append(f"Runs that failed: {failed}.")
    return notes
