"""Finished runs, read from their folders."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from icpe.errors import DataError
from icpe.files import check_files, read_json
from icpe.metrics.exposure import exposure
from icpe.ranking import top_n
from icpe.ranking.tables import DotScores
from icpe.recommender import Model
from icpe.recommender.front import Front
from icpe.recommender.store import read_front
from icpe.runs.config import RunConfig
from icpe.runs.folder import CONFIG, CURVE, PER_USER, RECORDS, RESULT, SPLIT, TEST_FRONT
from icpe.runs.load import load
from icpe.runs.saved import check_same_data
from icpe.types import IntArray

MAX_USERS = 5000  # users whose lists are counted; more would change the shares by less than a figure shows
MAX_SCORES = 1_000_000  # scores to compute when they are not inner products; this many take seconds


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A finished run.

    Attributes:
        folder: Folder of the run.
        label: Name of the run, unique among the runs that were read together.
        config: All settings.
        manifest: Manifest of the split.
        result: Metrics on the validation and the test part.
        curve: One record for each validation.
        model: The trained model.
        n: Length of the lists: 20 if the run was measured at 20, otherwise its first length.
        max_scores: Largest number of scores to compute for :attr:`shown` when scores are not inner products.
    """

    folder: Path
    label: str
    config: RunConfig
    manifest: dict[str, Any]
    result: dict[str, Any]
    curve: list[dict[str, Any]]
    model: Model
    n: int
    max_scores: int = MAX_SCORES

    @classmethod
    def read(cls, folder: Path, verify: bool = True) -> "RunRecord":
        """Return the finished run in a folder.

        Args:
            folder: folder of the run.
            verify: whether to compare the files with their checksums.

        Raises:
            DataError: The folder does not contain a finished run, or it is damaged.
        """
        if verify:
            check_files(folder, [*RECORDS, PER_USER, TEST_FRONT])
        try:
            manifest, result = (read_json(folder / name) for name in (SPLIT, RESULT))
            curve = [json.loads(line) for line in (folder / CURVE).read_text("utf-8").splitlines()]
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(
                f"{folder} contains no finished run ({error}); train one with `icpe train … -o {folder}`"
            ) from error
        model = load(folder, verify=verify)
        check_same_data(folder, manifest["hashes"])
        config = RunConfig.read(folder / CONFIG)
        return cls(folder, model.method.label, config, manifest, result, curve, model, _length(config.depths))

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.model.method.name

    @property
    def part(self) -> str:
        """The part that was measured: the test part, or the validation part if there is no test part."""
        return "test" if "test" in self.result else "valid"

    @property
    def values(self) -> dict[str, float | None]:
        """Metrics on that part by name."""
        found: dict[str, float | None] = self.result.get(self.part, {})
        return found

    @cached_property
    def front(self) -> Front | None:
        """The front on the test part; None for runs without validation or test part and for those of version 0.1."""
        return read_front(self.folder / TEST_FRONT)

    @cached_property
    def listed(self) -> IntArray:
        """Codes of the users whose lists are counted: at most 5,000, evenly spaced, and fewer for slow scores."""
        size, most = len(self.model.log.users), MAX_USERS
        if not isinstance(self.model.scores, DotScores):
            most = min(most, max(100, self.max_scores // len(self.model.log.items)))
        return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.int32))

    @cached_property
    def shown(self) -> IntArray:
        """Number of those lists that contain each item, int64 [items]. Training items of a user are hidden."""
        log = self.model.log
        lists = top_n(self.model.scores, self.listed, min(self.n, len(log.items)), hide=[log])
        return exposure(lists.items, len(log.items))

    @property
    def diagnostics(self) -> list[dict[str, Any]]:
        """Diagnostics of ICPE at each validation, with the step; empty for other methods."""
        return [{"step": record["step"], **record["icpe"]} for record in self.curve if "icpe" in record]

    @property
    def best_step(self) -> int:
        """The step of the validation whose state was kept."""
        return int(self.result["best_step"])


def read_runs(folders: Sequence[Path], verify: bool = True) -> list[RunRecord]:
    """Return the runs of these folders, with unique labels.

    Raises:
        DataError: A folder contains no finished run, or the runs have different data or splits, or they were measured
            at different list lengths.
    """
    runs = [RunRecord.read(folder, verify) for folder in folders]
    for run in runs[1:]:
        if run.manifest["hashes"] != runs[0].manifest["hashes"]:
            raise DataError(
                f"{run.folder} and {runs[0].folder} were trained on different data or splits, so their results "
                "cannot be compared; train both with the same data, the same split settings and the same seed"
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
    """Return the name, shortened to fit into a legend."""
    return name if len(name) <= 24 else f"{name[:11]}…{name[-12:]}"


def _length(depths: Sequence[int]) -> int:
    return 20 if 20 in depths else depths[0]
