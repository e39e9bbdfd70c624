"""``report.html`` of a comparison: methods on backbones, with all seeds."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from icpe.compare.grid import Cell, Grid
from icpe.compare.names import BASELINES, backbone_name
from icpe.compare.significance import ResultRow, find_subject
from icpe.compare.tables import ResultTable, table_of
from icpe.files import read_json
from icpe.report import comparison_sentences
from icpe.report.figures import fronts
from icpe.report.figures.trade_off import scatter_figure, trade_off_figure
from icpe.report.pages.runs import data_line, exposure_cards, inside_cards, user_cards
from icpe.report.rendering import FigureCard, check_page_name, figure_card, write_page
from icpe.report.sentences import Headline
from icpe.runs.config import RunConfig
from icpe.runs.provenance import flat_settings, hash_rows, versions
from icpe.runs.record import RunRecord, read_runs


def comparison_report(grid: Grid, path: Path | str, subject: str | None = "icpe", users: Sequence[str] = ()) -> Path:
    """Write a page about a grid; returns its path.

    Args:
        grid: A grid from :func:`icpe.compare.grid.run_grid` or :func:`~icpe.compare.grid.open_grid`.
        path: File of the page, ending in .html.
        subject: Label or method that the page is about; None for a page that is about all of them.
        users: Ids of the users whose lists are shown, as text; three typical users by default.

    Raises:
        DataError: A user is unknown, or a run is damaged.
        ConfigError: matplotlib is not installed, or the name does not end in .html.
    """
    path = check_page_name(Path(path))
    results = table_of(grid, subject=subject)
    runs = _single_runs(grid, results, subject) if results.rows else []
    content: dict[str, Any] = {
        "title": _title(grid, results, subject),
        "about": data_line(runs[0]) if runs else results.caption,
        "headline": _headline(results, subject) if results.rows else [],
        "fronts": _front_cards(grid),
        "table": results.table() if results.rows else None,
        "failures": _failures(grid),
        "undertrained": comparison_sentences.undertrained(grid.results),
    }
    if results.rows:
        content |= _trade_off(grid, results) | _single_run_content(runs, users) | _provenance(grid)
    return write_page(path, "comparison.html", **content)


def _title(grid: Grid, results: ResultTable, subject: str | None) -> str:
    labels = list(dict.fromkeys(row.label for row in results.rows))
    source = grid.cells[0].config.data
    data = Path(str(source.get("source") or source.get("train") or "own data")).name
    ours = find_subject(results.rows, subject)
    others = [label for label in labels if ours is None or label != ours.label]
    if ours is None or not others:
        return f"{len(labels)} method{'s' * (len(labels) != 1)} on {data}"
    return f"{ours.label} against {', '.join(others) if len(others) < 3 else f'{len(others)} methods'} on {data}"


def _headline(results: ResultTable, subject: str | None) -> Headline:
    backbones = dict.fromkeys(row.backbone for row in results.rows)
    rows = [[row for row in results.rows if row.backbone == backbone] for backbone in backbones]
    subjects = [find_subject(here, subject) for here in rows]
    if not any(subjects):
        return [comparison_sentences.headline(results, None, None)]
    return [
        comparison_sentences.headline(results, ours, _reference(here))
        for ours, here in zip(subjects, rows, strict=True)
        if ours is not None
    ]


def _reference(rows: Sequence[ResultRow]) -> ResultRow | None:
    """The row of Normal, otherwise the first row that competes."""
    competing = [row for row in rows if row.method not in BASELINES]
    return next((row for row in competing if row.method == "normal"), competing[0] if competing else None)


def _single_runs(grid: Grid, results: ResultTable, subject: str | None) -> list[RunRecord]:
    """The runs of the reference and the subject with the first common seed, on the first backbone that has both."""
    for backbone in dict.fromkeys(row.backbone for row in results.rows):
        here = [row for row in results.rows if row.backbone == backbone]
        first, last = _reference(here), find_subject(here, subject) or here[-1]
        if first is None:
            continue
        seeds = [seed for seed in first.seeds if seed in last.seeds]
        cells = [_cell(grid, row) for row in ([first, last] if first.label != last.label else [first])]
        if seeds and (len(cells) == 2 or len(here) == 1):
            runs = read_runs([grid.run_folder(cell, seeds[0]) for cell in cells])
            return [replace(run, label=cell.label) for run, cell in zip(runs, cells, strict=True)]
    return []


def _cell(grid: Grid, row: ResultRow) -> Cell:
    return next(cell for cell in grid.cells if (cell.label, cell.backbone) == (row.label, row.backbone))


def _front_cards(grid: Grid) -> list[FigureCard]:
    """Figures of the fronts of all methods for each backbone; none if no run has a front."""
    found = grid.fronts()
    cards: list[FigureCard] = []
    places, balanced = fronts.MEAN_CAPTIONS
    for backbone in found["backbone"].unique(maintain_order=True):
        if curves := fronts.mean_curves(found, backbone):
            name = backbone_name(backbone)
            plain, alike = partial(fronts.front_curves, curves), partial(fronts.front_curves, curves, "balanced")
            cards += [
                figure_card(f"Accuracy and places for niche items, {name}", places, plain),
                figure_card(f"All items counted alike, {name}", balanced, alike),
            ]
    return cards


def _trade_off(grid: Grid, results: ResultTable) -> dict[str, Any]:
    """Figures of each backbone, and the rows that are not drawn."""
    n = next((name.partition("@")[2] for name in results.metrics if "@" in name), "20")
    caption = "Means over seeds; the bars are standard deviations. Up and right is better."
    cards: list[FigureCard] = []
    for backbone in dict.fromkeys(row.backbone for row in results.rows if row.method not in BASELINES):
        name = backbone_name(backbone)
        cards += [
            figure_card(
                f"Head against niche items, {name}", caption, partial(trade_off_figure, grid.results, backbone)
            ),
            figure_card(
                f"Accuracy against niche items shown, {name}",
                caption,
                partial(scatter_figure, grid.results, backbone, f"ndcg@{n}", f"apt@{n}"),
            ),
        ]
    left_out = dict.fromkeys(row.label for row in results.rows if row.method in BASELINES)
    return {"trade_off": cards, "not_drawn": list(left_out)}


def _single_run_content(runs: Sequence[RunRecord], users: Sequence[str]) -> dict[str, Any]:
    """Sections that look at single runs."""
    if not runs:
        return {"users": []}
    labels = " and ".join(run.label for run in runs)
    return {
        "single_runs": f"{labels} on {runs[0].model.method.backbone.label} with seed {runs[0].config.seed}",
        "shown": exposure_cards(runs),
        "inside": inside_cards(runs),
        "users": user_cards(runs, users),
    }


def _failures(grid: Grid) -> dict[str, str]:
    return {f"{one.label} on {backbone_name(one.backbone)}, seed {one.seed}": one.reason for one in grid.failures}


def _provenance(grid: Grid) -> dict[str, Any]:
    folder = grid.folder
    again = ["icpe", "compare", "--cells", str(folder / "grid.toml"), "-o", f"{folder}-again"]
    manifests: dict[int, dict[str, Any]] = {}
    for cell, seed in grid.finished():
        if seed not in manifests:
            manifests[seed] = read_json(grid.run_folder(cell, seed) / "split.json")
    return {
        "runs_folder": folder / "runs",
        "command": shlex.join(again),
        "settings": _differing_settings(grid),
        "hashes": hash_rows(list(manifests.values())),
        "hash_labels": [f"seed {seed}" for seed in manifests],
        "versions": versions(),
    }


def _differing_settings(grid: Grid) -> dict[str, str]:
    """For each cell, the settings that not all cells share, as its first finished run has them."""
    flat: dict[str, dict[str, str]] = {}
    for cell, seed in grid.finished():
        label = f"{cell.label} on {backbone_name(cell.backbone)}"
        if label not in flat:
            flat[label] = flat_settings(RunConfig.read(grid.run_folder(cell, seed) / "config.toml"))
    names = dict.fromkeys(name for one in flat.values() for name in one)
    differing = [name for name in names if name != "train.seed" and len({one.get(name) for one in flat.values()}) > 1]
    if not differing:
        return {}
    return {label: ", ".join(f"{name} {one[name]}" for name in differing if name in one) for label, one in flat.items()}
