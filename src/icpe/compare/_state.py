"""The data model of a comparison, and the reading of its run folders."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from icpe import columns as col
from icpe.errors import DataError
from icpe.files import check_files, read_json
from icpe.recommender.front import MEASURES, SETTING
from icpe.recommender.store import read_front
from icpe.runs.config import RunConfig
from icpe.runs.folder import CONFIG, PER_USER, RESULT, SPLIT, TEST_FRONT

RUNS, NOTE, DIALS = "runs", "grid.json", "dials.json"
_KEYS = {"label": pl.String, "backbone": pl.String, "method": pl.String, "seed": pl.Int64}
_FIRST = {**_KEYS, "steps": pl.Int64, "best_step": pl.Int64, "seconds": pl.Float64}


@dataclass(frozen=True)
class Cell:
    """One row of the tables: settings that are trained with every seed.

    Attributes:
        label: name of the row. Label and backbone together are unique in a comparison.
        config: all settings except the seed.
        tuned: False marks the row in tables as using default settings.
        ranking: settings of ranking to evaluate after training, each with the values to try.
    """

    label: str
    config: RunConfig
    tuned: bool = True
    ranking: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def backbone(self) -> str:
        """Name of the backbone."""
        return str(self.config.backbone.get("name", "mf"))

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.config.method.get("name", "normal"))

    def run_config(self, seed: int) -> RunConfig:
        """Return the settings of the run with a seed."""
        return self.config.updated("train", {"seed": seed})


@dataclass(frozen=True)
class Failure:
    """A run that failed.

    Attributes:
        label: of its cell.
        backbone: of its cell.
        seed: of the run.
        reason: why, in one line.
    """

    label: str
    backbone: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Grid:
    """A comparison: cells, seeds and the results of their runs.

    Attributes:
        cells: what is compared.
        seeds: that each cell is trained with.
        folder: of the comparison.
        results: one row per finished run: label, backbone, method, seed, steps, best_step, seconds, all test metrics
            by name, the numbers that summarise the front, ``users_skipped``, and ``valid_ndcg@20``.
        failures: runs that failed.
    """

    cells: list[Cell]
    seeds: list[int]
    folder: Path
    results: pl.DataFrame
    failures: list[Failure] = field(default_factory=list)

    def run_folder(self, cell: Cell, seed: int) -> Path:
        """Return the folder of a run."""
        return run_folder(self.folder, cell, seed)

    def per_user(self) -> pl.DataFrame:
        """Return label, backbone, method, seed, ``user_id`` and the metrics of every user, for all finished runs."""
        return self.scan_per_user().collect()

    def scan_per_user(self) -> pl.LazyFrame:
        """Return :meth:`per_user` as a lazy frame, for comparisons that do not fit into memory."""
        frames = []
        for cell, seed in self.finished():
            keys = {"label": cell.label, "backbone": cell.backbone, "method": cell.method, "seed": seed}
            constants = [pl.lit(keys[name], kind).alias(name) for name, kind in _KEYS.items()]
            frames.append(pl.scan_parquet(self.run_folder(cell, seed) / PER_USER).select(*constants, pl.all()))
        if not frames:
            return pl.LazyFrame(schema={**_KEYS, col.USER: pl.String})
        return pl.concat(frames, how="diagonal_relaxed")

    def dials(self) -> pl.DataFrame:
        """Return label, backbone, method, seed, ``dial``, ``value`` and test metrics for the cells' ``ranking``."""
        rows = []
        for cell, seed in self.finished():
            for found in read_dials(self.run_folder(cell, seed)) if cell.ranking else []:
                keys = {"label": cell.label, "backbone": cell.backbone, "method": cell.method, "seed": seed}
                value = float(found["value"])
                rows.append({**keys, "dial": found["dial"], "value": value, **found["test"]})
        kinds = {**_KEYS, "dial": pl.String, "value": pl.Float64}
        return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None) if rows else pl.DataFrame([], kinds)

    def fronts(self) -> pl.DataFrame:
        """Return the fronts of all finished runs on the test part.

        The columns are label, backbone, method, seed, ``chosen`` (the setting of the run) and those of
        ``front_test.parquet``. Runs without this file are left out.
        """
        kinds = {**_KEYS, "chosen": pl.Float64, **dict.fromkeys((SETTING, *MEASURES), pl.Float64)}
        frames = [pl.DataFrame(schema={**kinds, "n": pl.Int32, "balanced_pairs": pl.Float64})]
        for cell, seed in self.finished():
            folder = self.run_folder(cell, seed)
            if (front := read_front(folder / TEST_FRONT)) is None:
                continue
            chosen = read_json(folder / RESULT)["beta"]
            keys = {"label": cell.label, "backbone": cell.backbone, "method": cell.method, "seed": seed}
            constants = [pl.lit(value, kinds[name]).alias(name) for name, value in {**keys, "chosen": chosen}.items()]
            frames.append(front.as_frame().select(*constants, pl.all()))
        return pl.concat(frames, how="vertical_relaxed")

    def finished(self) -> Iterator[tuple[Cell, int]]:
        """Yield cell and seed of every finished run, in the order of the results."""
        cells = {(cell.label, cell.backbone): cell for cell in self.cells}
        for label, backbone, seed in self.results.select("label", "backbone", "seed").iter_rows():
            yield cells[label, backbone], seed


def run_folder(folder: Path, cell: Cell, seed: int) -> Path:
    """Return the folder of a run.

    Example:
        >>> run_folder(Path("cmp"), Cell("ICPE w/o CR", RunConfig()), 3).as_posix()
        'cmp/runs/icpe-w-o-cr-mf-3'
    """
    slug = re.sub(r"[^\w.]+", "-", cell.label.casefold()).strip("-.") or "cell"
    return folder / RUNS / f"{slug}-{cell.backbone}-{seed}"


def is_finished(folder: Path, cell: Cell) -> bool:
    """Return whether the run in a folder is finished, including the dial values that the cell asks for."""
    wanted = [CONFIG, RESULT, PER_USER, *([DIALS] if cell.ranking else [])]
    if not all((folder / name).exists() for name in wanted):
        return False
    if not cell.ranking:
        return True
    return {(one["dial"], float(one["value"])) for one in read_dials(folder)} >= set(dial_values(cell))


def read_dials(folder: Path) -> list[dict[str, Any]]:
    """Return the evaluations of a run at the ranking settings that its cell asks for.

    Raises:
        DataError: the file is damaged.
    """
    check_files(folder, [DIALS])
    try:
        found: list[dict[str, Any]] = read_json(folder / DIALS)
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from error
    return found


def dial_values(cell: Cell) -> list[tuple[str, float]]:
    """Return name and value of every setting of ranking that is evaluated after training."""
    return [(name, float(value)) for name, values in cell.ranking.items() for value in values]


def read_note(folder: Path) -> dict[str, Any]:
    """Return what the comparison noted about a run, such as its seconds; empty if nothing was noted."""
    try:
        note: dict[str, Any] = read_json(folder / NOTE)
    except (OSError, ValueError):
        return {}
    return note


def read_row(folder: Path, cell: Cell, seed: int) -> dict[str, Any]:
    """Return the row of a finished run in the results.

    Raises:
        DataError: its files are damaged.
    """
    check_files(folder, [RESULT, SPLIT, PER_USER, TEST_FRONT])
    try:
        result, counts = read_json(folder / RESULT), read_json(folder / SPLIT)["counts"]
        return {
            "label": cell.label,
            "backbone": cell.backbone,
            "method": cell.method,
            "seed": seed,
            "steps": result["steps"],
            "best_step": result["best_step"],
            "seconds": read_note(folder).get("seconds"),
            **result["test"],
            **result.get("front", {}),  # runs of earlier versions have none
            "users_skipped": counts["train"]["users"] - result["test"]["users"],
            "valid_ndcg@20": result.get("valid", {}).get("ndcg@20"),
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, error) from error


def _damaged(folder: Path, error: Exception) -> DataError:
    return DataError(f"{folder} is damaged ({error!r}); delete it and run the command again")


def results_frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Return rows as the frame ``Grid.results``. Metrics that a run does not have are null."""
    names = dict.fromkeys(name for row in rows for name in row)
    counts = [name for name in names if name.startswith("users")]
    rest = {name: pl.Int64 if name in counts else pl.Float64 for name in names if name not in _FIRST}
    return pl.DataFrame([{name: row.get(name) for name in names} for row in rows], schema={**_FIRST, **rest})
