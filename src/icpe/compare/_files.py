"""The files beside the runs of a grid: what is compared, results, tables, failures."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w

from icpe.compare._run import effective
from icpe.compare._state import Cell, Failure, Grid, is_finished, read_row, results_frame, run_folder
from icpe.compare.differences import differences_of
from icpe.compare.study_file import read_cells
from icpe.compare.tables import table_of
from icpe.errors import ConfigError, DataError
from icpe.files import write_atomically, write_json

GRID, RESULTS, SUMMARY, FAILURES, DIALS = (
    "grid.toml",
    "results.parquet",
    "summary.parquet",
    "failures.json",
    "dials.parquet",
)


def write_so_far(grid: Grid, subject: str | None) -> None:
    """Everything that is quickly made: what is compared, tables, failures."""
    folder = grid.folder
    _write(folder / GRID, as_toml(grid.cells, grid.seeds))
    table = table_of(grid, subject=subject)
    write_atomically(folder / SUMMARY, table.frame().write_parquet)
    for suffix, text in (
        ("txt", table.as_text()),
        ("md", table.as_markdown()),
        ("tex", table.as_latex()),
        ("csv", table.as_csv()),
    ):
        _write(folder / f"table.{suffix}", text)
    write_json(folder / FAILURES, [asdict(one) for one in grid.failures])


def write_all(grid: Grid, subject: str | None) -> None:
    """Also what needs the values of every user."""
    write_so_far(grid, subject)
    write_atomically(grid.folder / RESULTS, lambda path: grid.scan_per_user().sink_parquet(path))
    differences = differences_of(grid, subject=subject)
    _write(grid.folder / "differences.md", differences.as_markdown())
    _write(grid.folder / "differences.csv", differences.as_csv())
    if any(cell.serving for cell in grid.cells):
        write_atomically(grid.folder / DIALS, grid.dials().write_parquet)


def as_toml(cells: list[Cell], seeds: list[int]) -> str:
    """All settings of the cells, in the format that ``icpe compare --cells`` reads."""
    tables: dict[str, Any] = {}
    for cell in cells:
        sections = effective(cell.config)
        del sections["train"]["seed"]
        said = {"label": cell.label, "tuned": cell.tuned, **({"serving": cell.serving} if cell.serving else {})}
        tables[f"{cell.label} on {cell.backbone}"] = {**said, **sections}
    return tomli_w.dumps({"seeds": seeds, "cells": tables})


def read_grid(folder: Path) -> Grid:
    """What a folder holds.

    Raises:
        DataError: no grid.
    """
    try:
        cells, seeds = read_cells(folder / GRID)
        failures = [Failure(**one) for one in json.loads((folder / FAILURES).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, ConfigError) as error:
        raise DataError(
            f"{folder} holds no comparison ({error}); make one with `icpe compare … -o {folder}`"
        ) from error
    places = [(cell, seed, run_folder(folder, cell, seed)) for cell in cells for seed in sorted(seeds or [])]
    done = [(cell, seed, place) for cell, seed, place in places if is_finished(place, cell)]
    names = {(cell.label, cell.backbone, seed) for cell, seed, _ in done}
    left = [one for one in failures if (one.label, one.backbone, one.seed) not in names]
    return Grid(
        cells, seeds or [], folder, results_frame([read_row(place, cell, seed) for cell, seed, place in done]), left
    )


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
