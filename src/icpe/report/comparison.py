"""``report.html`` of a comparison: methods on backbones, with all seeds."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from icpe.compare.grid import Cell, Grid
from icpe.compare.tables import FLOORS, Row, Table, backbone_name, find_subject, table_of
from icpe.report import comparison_words as words
from icpe.report.blocks import (
    check_page_name,
    commands,
    figures,
    folded,
    header,
    pairs,
    paragraphs,
    section,
    settings,
    write_page,
)
from icpe.report.grid_table import table_html
from icpe.report.making import machine
from icpe.report.page import about, inside, people, what_is_shown
from icpe.report.record import RunRecord, read_runs
from icpe.report.trade_off import scatter_figure, trade_off_figure
from icpe.runs.config import SECTIONS, RunConfig


def comparison_report(grid: Grid, path: Path | str, subject: str | None = "icpe", users: Sequence[str] = ()) -> Path:
    """Write a page about a grid; returns its path.

    Args:
        grid: of :func:`icpe.compare.grid.run_grid` or :func:`~icpe.compare.grid.open_grid`.
        path: ending in .html.
        subject: label or method the page is about; None for nobody in particular.
        users: whose lists to show, as typed; by default three typical users.

    Raises:
        DataError: a user is unknown, or a run is damaged.
        ConfigError: matplotlib is not installed, or the name does not end in .html.
    """
    path = check_page_name(Path(path))
    table = table_of(grid, subject=subject)
    title = _title(grid, table, subject)
    if not table.rows:
        return write_page(title, header(title, table.caption, []) + _failures(grid), path)
    runs = _shown_runs(grid, table, subject)
    heading = header(title, about(runs[0]) if runs else table.caption, _headline(table, subject))
    sections = [
        heading,
        section("All methods", table_html(table)),
        _failures(grid),
        section("Trade-off", _trade_off(grid, table)),
        *(_looked_at(runs, users) if runs else []),
        section("How it was made", _made(grid)),
    ]
    return write_page(title, "\n".join(sections), path)


def _title(grid: Grid, table: Table, subject: str | None) -> str:
    labels = list(dict.fromkeys(row.label for row in table.rows))
    source = grid.cells[0].config.data
    data = Path(str(source.get("source") or source.get("train") or "own data")).name
    ours = find_subject(table.rows, subject)
    others = [label for label in labels if ours is None or label != ours.label]
    if ours is None or not others:
        return f"{len(labels)} method{'s' * (len(labels) != 1)} on {data}"
    return f"{ours.label} against {', '.join(others) if len(others) < 3 else f'{len(others)} methods'} on {data}"


def _headline(table: Table, subject: str | None) -> list[tuple[str, str]]:
    backbones = dict.fromkeys(row.backbone for row in table.rows)
    rows = [[row for row in table.rows if row.backbone == backbone] for backbone in backbones]
    if all(find_subject(here, subject) is None for here in rows):
        return [words.headline(table, None, None)]
    said = ((find_subject(here, subject), _baseline(here)) for here in rows)
    return [words.headline(table, ours, baseline) for ours, baseline in said if ours is not None]


def _baseline(rows: Sequence[Row]) -> Row | None:
    """Normal if it is there, else the first that competes."""
    rivals = [row for row in rows if row.method not in FLOORS]
    return next((row for row in rivals if row.method == "normal"), rivals[0] if rivals else None)


def _shown_runs(grid: Grid, table: Table, subject: str | None) -> list[RunRecord]:
    """Baseline and subject (else the last) with the first seed both have, on the first backbone with both."""
    for backbone in dict.fromkeys(row.backbone for row in table.rows):
        here = [row for row in table.rows if row.backbone == backbone]
        first, last = _baseline(here), find_subject(here, subject) or here[-1]
        if first is None:
            continue
        seeds = [seed for seed in first.seeds if seed in last.seeds]
        cells = [_cell(grid, row) for row in ([first, last] if first.label != last.label else [first])]
        if seeds and (len(cells) == 2 or len(here) == 1):
            runs = read_runs([grid.run_folder(cell, seeds[0]) for cell in cells])
            return [replace(run, label=cell.label) for run, cell in zip(runs, cells, strict=True)]
    return []


def _cell(grid: Grid, row: Row) -> Cell:
    return next(cell for cell in grid.cells if (cell.label, cell.backbone) == (row.label, row.backbone))


def _trade_off(grid: Grid, table: Table) -> str:
    n = next((name.partition("@")[2] for name in table.metrics if "@" in name), "20")
    drawn = []
    for backbone in dict.fromkeys(row.backbone for row in table.rows if row.method not in FLOORS):
        name = backbone_name(backbone)
        over = "Means over seeds; bars are standard deviations. Up and right is better."
        both = partial(trade_off_figure, grid.results, backbone)
        shown = partial(scatter_figure, grid.results, backbone, f"ndcg@{n}", f"apt@{n}")
        drawn += [
            (f"Head against niche items, {name}", over, both),
            (f"Accuracy against niche items shown, {name}", over, shown),
        ]
    left = [row.label for row in table.rows if row.method in FLOORS]
    floors = [f"Not drawn, as they would stretch the axes: {', '.join(dict.fromkeys(left))}."] if left else []
    return figures(*drawn) + paragraphs(floors, "small")


def _looked_at(runs: Sequence[RunRecord], users: Sequence[str]) -> list[str]:
    """Sections about single runs, said to be so."""
    who = " and ".join(run.label for run in runs)
    name = runs[0].model.method.backbone.label
    told = f"This and what follows is of {who} on {name} with seed {runs[0].config.seed} alone."
    return [
        section("What people are shown", paragraphs([told]) + what_is_shown(runs)),
        *(section(f"Inside {run.label}", inside(run)) for run in runs if run.diagnostics),
        section("Lists of a few people", people(runs, users)),
    ]


def _failures(grid: Grid) -> str:
    if not grid.failures:
        return ""
    rows = {f"{one.label} on {backbone_name(one.backbone)}, seed {one.seed}": one.reason for one in grid.failures}
    return section("What failed", pairs(rows))


def _made(grid: Grid) -> str:
    folder = grid.folder
    again = shlex.join(
        ["icpe", "compare", "--cells", str(folder / "grid.toml"), "-o", str(folder.with_name(f"{folder.name}-again"))]
    )
    told = (
        f"This command trains everything again. Every run is a folder below {folder / 'runs'}; tables, tests of all "
        "differences and the values of every user are beside them (table.*, differences.*, results.parquet)."
    )
    return "".join(
        (
            paragraphs([told]),
            commands([again]),
            folded("Settings that differ", _differing(grid)),
            folded("Content hashes of the data", _hashes(grid)),
            machine(),
        )
    )


def _first_runs(grid: Grid) -> dict[str, Path]:
    """A finished run of each cell that has one."""
    found: dict[str, Path] = {}
    for cell, seed in grid.finished():
        found.setdefault(f"{cell.label} on {backbone_name(cell.backbone)}", grid.run_folder(cell, seed))
    return found


def _differing(grid: Grid) -> str:
    """The settings that not all cells share, as each run was made with them."""
    configs = {name: RunConfig.read(folder / "config.toml") for name, folder in _first_runs(grid).items()}
    flat = {
        name: {f"{part}.{key}": str(value) for part in SECTIONS for key, value in getattr(config, part).items()}
        for name, config in configs.items()
    }
    names = dict.fromkeys(name for one in flat.values() for name in one)
    differing = [name for name in names if name != "train.seed" and len({one.get(name) for one in flat.values()}) > 1]
    rows = {label: ", ".join(f"{name} {one[name]}" for name in differing if name in one) for label, one in flat.items()}
    return pairs(rows) if differing else "<p>None: all have the same.</p>"


def _hashes(grid: Grid) -> str:
    """Of the parts of each seed's split, as a run noted them."""
    found: dict[int, dict[str, str]] = {}
    for cell, seed in grid.finished():
        if seed not in found:
            manifest = json.loads((grid.run_folder(cell, seed) / "split.json").read_text(encoding="utf-8"))
            found[seed] = manifest["hashes"]
    parts = dict.fromkeys(name for one in found.values() for name in one)
    rows = {name: [str(one.get(name) or "unknown") for one in found.values()] for name in parts}
    return settings([f"seed {seed}" for seed in found], rows)
