"""What a grid is and what its folder holds."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from icpe import columns as col
from icpe.errors import DataError
from icpe.runs.config import RunConfig
from icpe.runs.run import CONFIG, PER_USER, RESULT, SPLIT

RUNS, NOTE, DIALS = "runs", "grid.json", "dials.json"
_KEYS = {"label": pl.String, "backbone": pl.String, "method": pl.String, "seed": pl.Int64}
_FIRST = {**_KEYS, "steps": pl.Int64, "best_step": pl.Int64, "seconds": pl.Float64}


@dataclass(frozen=True)
class Cell:
    """What is trained with every seed: a row of the tables.

    Attributes:
        label: the row's name; with the backbone it is unique in a grid.
        config: all settings but the seed.
        tuned: False marks it in tables as run with default settings.
        serving: settings of ranking to measure after training, each with the values to try.
    """

    label: str
    config: RunConfig
    tuned: bool = True
    serving: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def backbone(self) -> str:
        """Name of the backbone."""
        return str(self.config.backbone.get("name", "mf"))

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.config.method.get("name", "normal"))

    def run_config(self, seed: int) -> RunConfig:
        """The settings of one run."""
        return self.config.updated("train", {"seed": seed})


@dataclass(frozen=True)
class Failure:
    """A run that could not be trained.

    Attributes:
        label: of its cell.
        backbone: of its cell.
        seed: of the run.
        reason: in one line.
    """

    label: str
    backbone: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Grid:
    """Cells, seeds, and what is known of their runs.

    Attributes:
        cells: what is compared.
        seeds: each cell is trained with.
        folder: where everything is.
        results: a row per finished run: label, backbone, method, seed, steps, best_step, seconds, every test metric by
            its name, ``users_skipped``, and ``valid_ndcg@20``.
        failures: runs that could not be trained.
    """

    cells: list[Cell]
    seeds: list[int]
    folder: Path
    results: pl.DataFrame
    failures: list[Failure] = field(default_factory=list)

    def run_folder(self, cell: Cell, seed: int) -> Path:
        """Where the run of a cell is."""
        return run_folder(self.folder, cell, seed)

    def per_user(self) -> pl.DataFrame:
        """Label, backbone, method, seed, ``user_id`` and the metrics users have one by one, of all finished runs."""
        return self.scan_per_user().collect()

    def scan_per_user(self) -> pl.LazyFrame:
        """:meth:`per_user` before it is read, for grids that do not fit into memory."""
        frames = []
        for cell, seed in self.finished():
            keys = {"label": cell.label, "backbone": cell.backbone, "method": cell.method, "seed": seed}
            said = [pl.lit(keys[name], kind).alias(name) for name, kind in _KEYS.items()]
            frames.append(pl.scan_parquet(self.run_folder(cell, seed) / PER_USER).select(*said, pl.all()))
        if not frames:
            return pl.LazyFrame(schema={**_KEYS, col.USER: pl.String})
        return pl.concat(frames, how="diagonal_relaxed")

    def dials(self) -> pl.DataFrame:
        """Label, backbone, method, seed, ``dial``, ``value`` and test metrics, for what cells have in ``serving``."""
        rows = []
        for cell, seed in self.finished():
            path = self.run_folder(cell, seed) / DIALS
            for found in json.loads(path.read_text(encoding="utf-8")) if cell.serving else []:
                keys = {"label": cell.label, "backbone": cell.backbone, "method": cell.method, "seed": seed}
                value = float(found["value"])
                rows.append({**keys, "dial": found["dial"], "value": value, **found["test"]})
        kinds = {**_KEYS, "dial": pl.String, "value": pl.Float64}
        return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None) if rows else pl.DataFrame([], kinds)

    def finished(self) -> Iterator[tuple[Cell, int]]:
        """Cells and seeds whose runs are there, in the order of the results."""
        cells = {(cell.label, cell.backbone): cell for cell in self.cells}
        for label, backbone, seed in self.results.select("label", "backbone", "seed").iter_rows():
            yield cells[label, backbone], seed


def run_folder(folder: Path, cell: Cell, seed: int) -> Path:
    """Where the run of a cell is.

    Example:
        >>> run_folder(Path("cmp"), Cell("ICPE w/o CR", RunConfig()), 3).as_posix()
        'cmp/runs/icpe-w-o-cr-mf-3'
    """
    slug = re.sub(r"[^\w.]+", "-", cell.label.casefold()).strip("-.") or "cell"
    return folder / RUNS / f"{slug}-{cell.backbone}-{seed}"


def is_finished(folder: Path, cell: Cell) -> bool:
    """Whether the run in a folder has ended well, with everything that is asked of it."""
    wanted = [CONFIG, RESULT, PER_USER, *([DIALS] if cell.serving else [])]
    if not all((folder / name).exists() for name in wanted):
        return False
    if not cell.serving:
        return True
    found = json.loads((folder / DIALS).read_text(encoding="utf-8"))
    return {(one["dial"], float(one["value"])) for one in found} >= set(dial_values(cell))


def dial_values(cell: Cell) -> list[tuple[str, float]]:
    """Everything that is measured after training."""
    return [(name, float(value)) for name, values in cell.serving.items() for value in values]


def read_note(folder: Path) -> dict[str, Any]:
    """What the grid noted about a run: seconds and peak memory; empty where it did not."""
    try:
        note: dict[str, Any] = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note


def read_row(folder: Path, cell: Cell, seed: int) -> dict[str, Any]:
    """What a finished run gives to the results.

    Raises:
        DataError: its files are damaged.
    """
    try:
        result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        counts = json.loads((folder / SPLIT).read_text(encoding="utf-8"))["counts"]
        return {
            "label": cell.label,
            "backbone": cell.backbone,
            "method": cell.method,
            "seed": seed,
            "steps": result["steps"],
            "best_step": result["best_step"],
            "seconds": read_note(folder).get("seconds"),
            **result["test"],
            "users_skipped": counts["train"]["users"] - result["test"]["users"],
            "valid_ndcg@20": result.get("valid", {}).get("ndcg@20"),
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder} is damaged ({error!r}); delete it and give the command again") from error


def results_frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Rows as ``Grid.results``; metrics that a run was not asked for are null."""
    names = dict.fromkeys(name for row in rows for name in row)
    counts = [name for name in names if name.startswith("users")]
    rest = {name: pl.Int64 if name in counts else pl.Float64 for name in names if name not in _FIRST}
    return pl.DataFrame([{name: row.get(name) for name in names} for row in rows], schema={**_FIRST, **rest})
