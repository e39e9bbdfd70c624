"""What a tuning reports and returns, and the presets it writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icpe.runs.presets import Cells, update_presets

PRESETS = "presets.toml"


@dataclass(frozen=True)
class TrialEvent:
    """A trial has ended.

    Attributes:
        method: name of the method.
        backbone: name of the backbone.
        state: "complete", "pruned" or "failed".
        score: mean of the criterion on validation over the seeds; of the first seed alone if pruned; None if failed.
        reason: why it failed.
        settings: what was tried, by section.
        seconds: of training.
        ended: number of trials of this method and backbone that have ended.
        best: best score of this method and backbone so far, or None.
        done: number of trials of the whole tuning that have ended.
        total: number of trials of the whole tuning.
    """

    method: str
    backbone: str
    state: str
    score: float | None
    reason: str
    settings: dict[str, dict[str, Any]]
    seconds: float
    ended: int
    best: float | None
    done: int
    total: int


@dataclass(frozen=True)
class TuningResult:
    """What was found for a method on a backbone.

    Attributes:
        method: name of the method.
        backbone: name of the backbone.
        trials: number of trials that have ended, including pruned and failed ones.
        pruned: number of trials that were stopped after the first seed.
        failed: number of trials that could not be trained.
        running: number of trials that other processes still run.
        score: best mean of the criterion on validation, None if no trial was completed.
        scores: of the best trial, by seed.
        settings: of the best trial, by section, including those that were fixed.
        seconds: of training in all trials.
        reason: why the last trial failed, if none was completed.
        data: name of the data.
        split: settings of the split.
        seeds: of each trial.
        criterion: what the scores measure, such as ``ndcg``.
    """

    method: str
    backbone: str
    trials: int
    pruned: int
    failed: int
    running: int
    score: float | None
    scores: dict[int, float]
    settings: dict[str, dict[str, Any]]
    seconds: float
    reason: str
    data: str
    split: dict[str, Any]
    seeds: list[int]
    criterion: str


def write_presets(folder: Path, found: Sequence[TuningResult], version: str) -> Path:
    """Write the best settings to ``presets.toml`` in the folder and return its path.

    Tables of other methods and backbones in the file are kept. Results without a score are left out.

    Args:
        folder: of the tuning.
        found: what :func:`tune` returned.
        version: of this package, which is recorded beside the settings.
    """
    cells: Cells = {}
    for one in found:
        if one.score is None:
            continue
        cells.setdefault(one.method, {})[one.backbone] = {
            f"valid_{one.criterion}": round(one.score, 6),
            "trials": one.trials,
            "pruned": one.pruned,
            "failed": one.failed,
            "seeds": one.seeds,
            "data": one.data,
            "icpe": version,
            "split": one.split,
            **{section: values for section, values in one.settings.items() if values},
        }
    path = folder / PRESETS
    if cells:
        update_presets(path, cells)
    return path
