"""What the folders of finished runs tell."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from icpe.errors import DataError
from icpe.metrics.exposure import exposure
from icpe.ranking import top_n
from icpe.ranking.tables import DotScores
from icpe.recommender import Model
from icpe.runs.config import RunConfig
from icpe.runs.load import load
from icpe.types import IntArray

_USERS = 5000  # whose lists are counted; more would change shares by less than a picture shows
_PAIRS = 1_000_000  # scores to compute where they are no inner products, which takes seconds


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A finished run, as reports need it.

    Attributes:
        folder: where it lies.
        label: a name to tell it from the others of the report.
        config: all settings.
        manifest: of the split.
        result: metrics on validation and test.
        curve: a record for each validation.
        model: the trained model.
        n: length of the lists: 20 if they were measured there.
    """

    folder: Path
    label: str
    config: RunConfig
    manifest: dict[str, Any]
    result: dict[str, Any]
    curve: list[dict[str, Any]]
    model: Model
    n: int

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read a run.

        Raises:
            DataError: the folder holds no finished run.
        """
        try:
            manifest, result = (
                json.loads((folder / name).read_text("utf-8")) for name in ("split.json", "result.json")
            )
            curve = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
        except (OSError, ValueError) as error:
            raise DataError(
                f"{folder} holds no finished run ({error}); train with `icpe train … -o {folder}`"
            ) from error
        model = load(folder)
        config = RunConfig.read(folder / "config.toml")
        return cls(folder, model.method.label, config, manifest, result, curve, model, _length(config.depths))

    @property
    def part(self) -> str:
        """The part the figures are about: the test part, if there is one."""
        return "test" if "test" in self.result else "valid"

    @property
    def values(self) -> dict[str, float | None]:
        """Metrics on that part."""
        found: dict[str, float | None] = self.result.get(self.part, {})
        return found

    @cached_property
    def listed(self) -> IntArray:
        """Codes of up to 5,000 users, evenly over all; of fewer where scores take long."""
        size, most = len(self.model.log.users), _USERS
        if not isinstance(self.model.scores, DotScores):
            most = min(most, max(100, _PAIRS // len(self.model.log.items)))
        return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.int32))

    @cached_property
    def shown(self) -> IntArray:
        """In how many of their lists each item is, int64 [items]; what they have used in training is hidden."""
        log = self.model.log
        lists = top_n(self.model.scores, self.listed, min(self.n, len(log.items)), hide=[log])
        return exposure(lists.items, len(log.items))

    @property
    def diagnostics(self) -> list[dict[str, Any]]:
        """What ICPE noted at each validation, with the step; empty for other methods."""
        return [{"step": record["step"], **record["icpe"]} for record in self.curve if "icpe" in record]

    @property
    def kept(self) -> int:
        """The step whose state was kept."""
        return int(self.result["best_step"])


def read_runs(folders: Sequence[Path]) -> list[RunRecord]:
    """The runs with labels that tell them apart.

    Raises:
        DataError: a folder holds no finished run, or the runs are of different data or splits or were measured at
            different lengths.
    """
    runs = [RunRecord.read(folder) for folder in folders]
    for run in runs[1:]:
        if run.manifest["hashes"] != runs[0].manifest["hashes"]:
            raise DataError(
                f"{run.folder} and {runs[0].folder} were trained on different data or splits, so their figures cannot "
                "be compared; train both with the same data and the same [split], seed included"
            )
    depths = [n for n in runs[0].config.depths if all(n in run.config.depths for run in runs)]
    if not depths:
        raise DataError("the runs were measured at different list lengths; train them with the same -n")
    names = (
        [run.label for run in runs],
        [f"{run.label} on {run.model.method.backbone.label}" for run in runs],
        [f"{run.label} ({_short(run.folder.name)})" for run in runs],
        [f"{run.label} {number}" for number, run in enumerate(runs, 1)],
    )
    labels = next((some for some in names if max(Counter(some).values()) == 1), names[-1])
    return [replace(run, label=label, n=_length(depths)) for run, label in zip(runs, labels, strict=True)]


def _short(name: str) -> str:
    """A name that fits into a legend."""
    return name if len(name) <= 24 else f"{name[:11]}…{name[-12:]}"


def _length(depths: Sequence[int]) -> int:
    return 20 if 20 in depths else depths[0]
