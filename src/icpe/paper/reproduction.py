"""What all studies share: data, seeds, settings, and one folder of runs."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from icpe.compare.grid import Cell, Event, Grid, run_grid
from icpe.errors import ConfigError, IcpeError
from icpe.files import write_atomically, write_json
from icpe.jobs import Workers
from icpe.methods import METHODS as KNOWN_METHODS
from icpe.metrics.statistics import mean_and_std
from icpe.recommender import Model
from icpe.runs.config import RunConfig
from icpe.runs.load import load
from icpe.runs.presets import SECTIONS, find_preset, open_presets
from icpe.split import Parts

# The eight methods of the paper's tables, name → label.
METHODS = {
    name: KNOWN_METHODS[name].label
    for name in ("normal", "dice", "macr", "cpr", "causpref", "bc_loss", "invpref", "icpe")
}
BACKBONES = {"mf": "MF", "neumf": "NeuMF", "lightgcn": "LightGCN"}
PAPER = "ICPE paper"  # label of ICPE exactly as printed (preset "paper"), in contrast to "ICPE" with our settings
_INPUTS = "inputs.json"


@dataclass(frozen=True)
class Reproduction:
    """Data, seeds and settings of a reproduction of the paper.

    Attributes:
        dataset: name of the data set, used to look up the numbers the paper prints for it.
        base: data, split, and settings that apply to all runs.
        folder: folder for runs and results.
        seeds: seeds of each method and backbone.
        backbones: backbones of the studies that do not choose their own.
        preset: preset with tuned settings, or None for the defaults.
        quick: whether to use fewer values and shorter computations.
        workers: number of processes that train, or a cluster.
        on_event: called when a run begins or ends.
        on_stage: called with the name of each computation that begins.
        user: user whose lists the case study shows, or None for a random one.
        methods: methods of the tables and the trade-off, a selection of :data:`METHODS`.
    """

    dataset: str
    base: RunConfig
    folder: Path
    seeds: list[int]
    backbones: list[str]
    preset: str | None = None
    quick: bool = False
    workers: Workers = 1
    on_event: Callable[[Event], None] | None = None
    on_stage: Callable[[str], None] | None = None
    user: str | None = None
    methods: Sequence[str] = tuple(METHODS)

    @property
    def main_backbone(self) -> str:
        """Backbone of the studies that use only one: LightGCN as in the paper, or else the first backbone."""
        return "lightgcn" if "lightgcn" in self.backbones else self.backbones[0]

    def cell(self, label: str, method: str, backbone: str, **settings: Any) -> Cell:
        """Cell of a method, with the settings of the preset if it contains the method, else with the defaults."""
        tuned = self._tuned(method, backbone)
        config = self._on(backbone).updated(
            "method", {"name": method, "preset": self.preset if tuned else None, **settings}
        )
        return Cell(label, config, tuned=tuned)

    def paper_cell(self, label: str, backbone: str, **settings: Any) -> Cell:
        """Cell of ICPE as printed, with the epochs, batch size and learning rate of Normal, whose loss it shares."""
        config = self._on(backbone)
        tuned = self._tuned("normal", backbone)
        if tuned and self.preset is not None:
            found = find_preset(self.preset, "normal", backbone)
            for section in ("backbone", "train"):
                merged: dict[str, Any] = {section: {**found.get(section, {}), **getattr(config, section)}}
                config = replace(config, **merged)
        return Cell(label, config.updated("method", {"name": "icpe", "preset": "paper", **settings}), tuned=tuned)

    def trainings(self, backbones: Iterable[str] | None = None) -> list[Cell]:
        """Cells of the selected methods on each backbone. ICPE appears with our settings and as printed."""
        cells = []
        for backbone in backbones or self.backbones:
            cells += [self.cell(METHODS[method], method, backbone) for method in METHODS if method in self.methods]
            if "icpe" in self.methods:
                cells.append(self.paper_cell(PAPER, backbone))
        return cells

    def run(self, cells: Sequence[Cell]) -> Grid:
        """Train the runs that do not exist yet and return the results of all.

        Raises:
            IcpeError: no run could be trained.
        """
        grid = run_grid(cells, self.seeds, self.folder, workers=self.workers, on_event=self.on_event, tables=False)
        if grid.results.is_empty():
            raise IcpeError(
                f"no run could be trained: {grid.failures[0].reason if grid.failures else 'the grid is empty'}"
            )
        return grid

    def cached(
        self, name: str, config: RunConfig, make: Callable[[], Mapping[str, pl.DataFrame]], **settings: Any
    ) -> dict[str, pl.DataFrame]:
        """Frames of a long computation. They are read from the folder if it was made before from the same inputs.

        Args:
            name: name of the computation, used in file names.
            config: configuration of what is trained.
            make: function that computes the frames by name.
            settings: everything else that determines the frames.
        """
        method = config.make_method()
        inputs = {
            "settings": {**config.effective(method, config.train_settings(method)), "data": None, **settings},
            "train": self.parts.train.content_hash,
            "icpe": version("icpe"),
        }
        identity = hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()[:12]
        folder = self.folder / "computed" / f"{name}-{identity}"
        if (folder / _INPUTS).exists():
            return {path.stem: pl.read_parquet(path) for path in sorted(folder.glob("*.parquet"))}
        frames = dict(make())
        for stem, frame in frames.items():
            write_atomically(folder / f"{stem}.parquet", frame.write_parquet)
        write_json(folder / _INPUTS, inputs)  # last: a folder without this file is incomplete and ignored
        return frames

    def stage(self, name: str) -> None:
        """Report the name of the computation that begins."""
        if self.on_stage is not None:
            self.on_stage(name)

    @cached_property
    def parts(self) -> Parts:
        """Split of the first seed."""
        return self.base.updated("train", {"seed": self.seeds[0]}).open_parts()

    def model(self, grid: Grid, cell: Cell, seed: int) -> Model | None:
        """Trained model of a cell, or None if the run failed."""
        done = grid.results.filter(label=cell.label, backbone=cell.backbone, seed=seed)
        return None if done.is_empty() else load(grid.run_folder(cell, seed))

    def caption(self, grid: Grid | None = None) -> str:
        """Sentences on how the numbers were measured."""
        split = {"kind": "unbiased", **self.base.split}
        cut = split["kind"] + (f" ({split['mode']})" if "mode" in split else "")
        if grid is None:
            words = [f"{self.dataset}, split {cut}, seed {self.seeds[0]}."]
        else:
            seeds = f"{len(grid.seeds)} seed{'s' if len(grid.seeds) > 1 else ''}"
            words = [f"{self.dataset}, split {cut}, {seeds}, test part, lists of 20.", self._tuning(grid)]
        if self.quick:
            words.append(
                "This is a quick version with fewer seeds and short training; do not draw conclusions from it."
            )
        return " ".join(words)

    def _tuning(self, grid: Grid) -> str:
        untuned = sorted({f"{cell.label} on {BACKBONES[cell.backbone]}" for cell in grid.cells if not cell.tuned})
        if len(untuned) == len(grid.cells):
            words = "Default settings, not tuned"
        else:
            words = f"Settings of preset {self.preset}, tuned on validation data{self._tuned_on_other_data()}"
            if untuned:
                words += f"; default settings for {', '.join(untuned)}"
        shared = ", ".join(
            f"{section}.{name} = {value}"
            for section in SECTIONS
            for name, value in getattr(self.base, section).items()
            if name not in ("name", "preset", "seed")
        )
        return f"{words}; in all runs {shared}." if shared else f"{words}."

    def _tuned_on_other_data(self) -> str:
        """Names of the data sets the preset was tuned on, if they differ from this one."""
        assert self.preset is not None
        sources = {cell.get("data") for cells in open_presets(self.preset).values() for cell in cells.values()}
        others = sorted(str(one) for one in sources if one is not None and one != self.dataset)
        return f" of {' and '.join(others)}" if others else ""

    def _on(self, backbone: str) -> RunConfig:
        # Settings of a backbone apply only to the backbone they were given for.
        given = self.base.backbone if self.base.backbone.get("name", backbone) == backbone else {}
        return replace(self.base, backbone={**given, "name": backbone})

    def _tuned(self, method: str, backbone: str) -> bool:
        if self.preset is None:
            return False
        try:
            find_preset(self.preset, method, backbone)
        except ConfigError:
            return False
        return True


def means(grid: Grid, *metrics: str) -> pl.DataFrame:
    """Frame ``backbone, label, seeds`` with mean and standard deviation of each metric over seeds, in cell order."""
    rows = []
    for cell in grid.cells:
        runs = grid.results.filter(label=cell.label, backbone=cell.backbone)
        if runs.is_empty():
            continue
        row: dict[str, Any] = {"backbone": cell.backbone, "label": cell.label, "seeds": len(runs)}
        for metric in metrics:
            row[metric], row[f"{metric} std"] = mean_and_std(runs[metric].drop_nulls().to_numpy())
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
