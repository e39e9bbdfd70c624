"""Many runs side by side: cells × seeds in one folder, which goes on from whatever it holds."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from icpe.errors import ConfigError
from icpe.model.config import RunConfig

RUNS = "runs"


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
class Event:
    """Something happened in a grid.

    Attributes:
        kind: ``found`` (a run was there already), ``started``, ``finished``, ``failed``, ``elsewhere`` (another
            machine has it), or ``waiting`` (a run would not fit into memory now).
        label: of the cell.
        backbone: of the cell.
        seed: of the run.
        row: what ``Grid.results`` has of a run that was found or finished.
        reason: of a failure or of waiting.
        done: runs that have ended, well or not.
        total: runs of the grid.
        seconds_left: how long the rest will take, None where nothing is known yet.
    """

    kind: Literal["found", "started", "finished", "failed", "elsewhere", "waiting"]
    label: str
    backbone: str
    seed: int
    row: dict[str, Any] | None = None
    reason: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None


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
        raise NotImplementedError


def run_folder(folder: Path, cell: Cell, seed: int) -> Path:
    """Where the run of a cell is.

    Example:
        >>> run_folder(Path("cmp"), Cell("ICPE w/o CR", RunConfig()), 3).as_posix()
        'cmp/runs/icpe-w-o-cr-mf-3'
    """
    slug = re.sub(r"[^\w.]+", "-", cell.label.casefold()).strip("-.")
    return folder / RUNS / f"{slug}-{cell.backbone}-{seed}"


def run_grid(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    folder: Path,
    *,
    workers: int = 1,
    storage: str | None = None,
    on_event: Callable[[Event], None] | None = None,
    keep_checkpoints: bool = False,
) -> Grid:
    """Train what is not there yet, and give all that is there."""
    raise ConfigError("not there yet")
