"""The files beside the runs of a comparison: cells, results, tables and failures."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w

from icpe.compare._checks import effective_settings
from icpe.compare._state import Cell, Failure, Grid, is_finished, read_row, results_frame, run_folder
from icpe.compare.differences import differences_of
from icpe.compare.study_file import read_cells
from icpe.compare.tables import ResultTable, front_metrics_of, metrics_of, table_of
from icpe.errors import ConfigError, DataError
from icpe.files import read_json, write_atomically, write_json, write_text

GRID, RESULTS, SUMMARY, FAILURES, DIALS = (
    "grid.toml",
    "results.parquet",
    "summary.parquet",
    "failures.json",
    "dials.parquet",
)
FRONTS = "fronts.parquet"


def write_tables(grid: Grid, subject: str | None) -> None:
    """Write what is quickly made: the cells, the tables and the failures."""
    folder = grid.folder
    write_text(folder / GRID, as_toml(grid.cells, grid.seeds))
    table = table_of(grid, subject=subject)
    write_atomically(folder / SUMMARY, table.frame().write_parquet)
    write_table(table, folder, "table")
    if front_metrics := front_metrics_of(grid):
        write_table(table_of(grid, front_metrics, subject), folder, "fronts")
    write_json(folder / FAILURES, [asdict(one) for one in grid.failures])


def write_table(table: ResultTable, folder: Path, name: str) -> None:
    """Write a table as text, Markdown, LaTeX and CSV."""
    forms = {"txt": table.as_text, "md": table.as_markdown, "tex": table.as_latex, "csv": table.as_csv}
    for suffix, form in forms.items():
        write_text(folder / f"{name}.{suffix}", form())


def write_results(grid: Grid, subject: str | None) -> None:
    """Write everything, including the files that need the values of every user."""
    write_tables(grid, subject)
    write_atomically(grid.folder / RESULTS, lambda path: grid.scan_per_user().sink_parquet(path))
    fronts = grid.fronts()
    if len(fronts):
        write_atomically(grid.folder / FRONTS, fronts.write_parquet)
    differences = differences_of(grid, [*metrics_of(grid, None), *front_metrics_of(grid)], subject)
    write_text(grid.folder / "differences.md", differences.as_markdown())
    write_text(grid.folder / "differences.csv", differences.as_csv())
    if any(cell.ranking for cell in grid.cells):
        write_atomically(grid.folder / DIALS, grid.dials().write_parquet)


def as_toml(cells: list[Cell], seeds: list[int]) -> str:
    """Return all settings of the cells as TOML that ``icpe compare --cells`` reads."""
    tables: dict[str, Any] = {}
    for cell in cells:
        sections = effective_settings(cell.config)
        del sections["train"]["seed"]
        ranking = {"ranking": cell.ranking} if cell.ranking else {}
        cell_keys = {"label": cell.label, "tuned": cell.tuned, **ranking}
        tables[f"{cell.label} on {cell.backbone}"] = {**cell_keys, **sections}
    return tomli_w.dumps({"seeds": seeds, "cells": tables})


def read_grid(folder: Path) -> Grid:
    """Return the comparison in a folder.

    Raises:
        DataError: the folder holds none.
    """
    try:
        cells, seeds = read_cells(folder / GRID)
        failures = [Failure(**one) for one in read_json(folder / FAILURES)]
    except (OSError, ValueError, TypeError, ConfigError) as error:
        raise DataError(
            f"{folder} holds no comparison ({error}); create one with `icpe compare … -o {folder}`"
        ) from error
    places = [(cell, seed, run_folder(folder, cell, seed)) for cell in cells for seed in sorted(seeds or [])]
    done = [(cell, seed, place) for cell, seed, place in places if is_finished(place, cell)]
    names = {(cell.label, cell.backbone, seed) for cell, seed, _ in done}
    left = [one for one in failures if (one.label, one.backbone, one.seed) not in names]
    return Grid(
        cells, seeds or [], folder, results_frame([read_row(place, cell, seed) for cell, seed, place in done]), left
    )
