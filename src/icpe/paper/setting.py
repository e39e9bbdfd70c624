"""What all studies of a reproduction share: the data, the seeds, the settings, and one folder of runs."""

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
from icpe.methods import find_method
from icpe.metrics.statistics import mean_and_std
from icpe.recommender import Model
from icpe.runs.config import RunConfig
from icpe.runs.load import load
from icpe.runs.presets import SECTIONS, find_preset, open_presets
from icpe.split import Parts

# The paper's rows, by our names.
METHODS = {
    name: find_method(name).label
    for name in ("normal", "dice", "macr", "cpr", "causpref", "bc_loss", "invpref", "icpe")
}
BACKBONES = {"mf": "MF", "neumf": "NeuMF", "lightgcn": "LightGCN"}
_WHOLE = "made_of.json"
PAPER = "ICPE paper"  # the preset with the paper's own form, beside ICPE as it is by default or tuned


@dataclass(frozen=True)
class Setting:
    """Data, seeds and settings of a reproduction.

    Attributes:
        dataset: its name, for looking up what the paper says of it.
        base: data, split and whatever settings hold for all runs.
        folder: where runs and results are kept.
        seeds: of each cell.
        backbones: to use, where a study does not name its own.
        methods: of the paper's eight, for the tables and the trade-off.
        preset: with tuned settings; None for defaults.
        quick: a smaller version: fewer values and shorter computations where a study has such.
        workers: processes that train.
        on_event: called as runs begin and end.
        on_stage: called with the name of what is computed now.
        user: whose lists the case study shows; None for one drawn at random.
    """

    dataset: str
    base: RunConfig
    folder: Path
    seeds: list[int]
    backbones: list[str]
    preset: str | None = None
    quick: bool = False
    workers: int = 1
    on_event: Callable[[Event], None] | None = None
    on_stage: Callable[[str], None] | None = None
    user: str | None = None
    methods: Sequence[str] = tuple(METHODS)

    @property
    def graph(self) -> str:
        """The backbone of the paper's closer looks: LightGCN, or the first there is."""
        return "lightgcn" if "lightgcn" in self.backbones else self.backbones[0]

    def cell(self, label: str, method: str, backbone: str, **settings: Any) -> Cell:
        """A method with the tuned settings of the preset where it has them, and with defaults where not."""
        tuned = self._tuned(method, backbone)
        config = self._on(backbone).updated(
            "method", {"name": method, "preset": self.preset if tuned else None, **settings}
        )
        return Cell(label, config, tuned=tuned)

    def paper_cell(self, label: str, backbone: str, **settings: Any) -> Cell:
        """ICPE as the paper prints it, trained as long and as fast as Normal, whose loss it shares."""
        config = self._on(backbone)
        tuned = self._tuned("normal", backbone)
        if tuned and self.preset is not None:
            found = find_preset(self.preset, "normal", backbone)
            for section in ("backbone", "train"):
                config = replace(config, **{section: {**found.get(section, {}), **getattr(config, section)}})
        return Cell(label, config.updated("method", {"name": "icpe", "preset": "paper", **settings}), tuned=tuned)

    def trainings(self, backbones: Iterable[str] | None = None) -> list[Cell]:
        """The trainings of the paper, and with ICPE its form in the paper, on each backbone."""
        cells = []
        for backbone in backbones or self.backbones:
            cells += [self.cell(METHODS[method], method, backbone) for method in METHODS if method in self.methods]
            if "icpe" in self.methods:
                cells.append(self.paper_cell(PAPER, backbone))
        return cells

    def run(self, cells: Sequence[Cell], seeds: Sequence[int] | None = None) -> Grid:
        """Train what is not there yet.

        Raises:
            IcpeError: nothing at all could be trained.
        """
        grid = run_grid(
            cells, seeds or self.seeds, self.folder, workers=self.workers, on_event=self.on_event, tables=False
        )
        if grid.results.is_empty():
            raise IcpeError(f"no run could be trained: {grid.failures[0].reason if grid.failures else 'none was due'}")
        return grid

    def kept(
        self, name: str, config: RunConfig, make: Callable[[], Mapping[str, pl.DataFrame]], **settings: Any
    ) -> dict[str, pl.DataFrame]:
        """Frames that take long to compute: those in the folder, if they were made of the same, or else made now.

        Args:
            name: of the computation, for the files.
            config: of what is trained.
            make: computes the frames by name.
            settings: whatever else decides the frames.
        """
        method = config.make_method()
        made_of = {
            "settings": {**config.effective(method, config.train_settings(method)), "data": None, **settings},
            "train": self.parts.train.content_hash,
            "icpe": version("icpe"),
        }
        identity = hashlib.sha256(json.dumps(made_of, sort_keys=True, default=str).encode()).hexdigest()[:12]
        folder = self.folder / "computed" / f"{name}-{identity}"
        if (folder / _WHOLE).exists():
            return {path.stem: pl.read_parquet(path) for path in sorted(folder.glob("*.parquet"))}
        frames = dict(make())
        for stem, frame in frames.items():
            write_atomically(folder / f"{stem}.parquet", frame.write_parquet)
        write_json(folder / _WHOLE, made_of)  # last: without it the others do not count
        return frames

    def stage(self, name: str) -> None:
        """Say what is computed now."""
        if self.on_stage is not None:
            self.on_stage(name)

    def config(self, cell: Cell, seed: int) -> RunConfig:
        """Everything that decides a run."""
        return cell.config.updated("train", {"seed": seed})

    @cached_property
    def parts(self) -> Parts:
        """The split of the first seed."""
        return self.base.updated("train", {"seed": self.seeds[0]}).open_parts()

    def model(self, grid: Grid, cell: Cell, seed: int) -> Model | None:
        """The trained model, None if the run failed."""
        done = grid.results.filter(label=cell.label, backbone=cell.backbone, seed=seed)
        return None if done.is_empty() else load(grid.run_folder(cell, seed))

    def caption(self, grid: Grid | None = None) -> str:
        """How it was measured."""
        split = {"kind": "unbiased", **self.base.split}
        cut = split["kind"] + (f" ({split['mode']})" if "mode" in split else "")
        if grid is None:
            words = [f"{self.dataset}, split {cut}, seed {self.seeds[0]}."]
        else:
            seeds = f"{len(grid.seeds)} seed{'s' if len(grid.seeds) > 1 else ''}"
            words = [f"{self.dataset}, split {cut}, {seeds}, test part, lists of 20.", self._tuning(grid)]
        if self.quick:
            words.append("A quick version: fewer seeds and short training; not for conclusions.")
        return " ".join(words)

    def _tuning(self, grid: Grid) -> str:
        untuned = sorted({f"{cell.label} on {BACKBONES[cell.backbone]}" for cell in grid.cells if not cell.tuned})
        if len(untuned) == len(grid.cells):
            words = "Not tuned: default settings"
        else:
            words = f"Settings of preset {self.preset}, found on validation data{self._elsewhere()}"
            if untuned:
                words += f"; default settings for {', '.join(untuned)}"
        given = ", ".join(
            f"{section}.{name} = {value}"
            for section in SECTIONS
            for name, value in getattr(self.base, section).items()
            if name not in ("name", "preset", "seed")
        )
        return f"{words}; for all runs {given}." if given else f"{words}."

    def _elsewhere(self) -> str:
        """Whose validation data, if not these."""
        assert self.preset is not None
        known = {cell.get("data") for cells in open_presets(self.preset).values() for cell in cells.values()}
        others = sorted(str(one) for one in known if one is not None and one != self.dataset)
        return f" of {' and '.join(others)}" if others else ""

    def _on(self, backbone: str) -> RunConfig:
        # Settings of the backbone hold for the one they were given with.
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
    """``backbone, label`` with mean and standard deviation over seeds of each metric, in the order of the cells."""
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
