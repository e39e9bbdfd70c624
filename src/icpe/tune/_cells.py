"""A method on a backbone in a tuning: its study, the task of its workers, and its result."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from icpe.data.datasets.catalogue import CATALOGUE
from icpe.jobs import Job
from icpe.runs.config import RunConfig
from icpe.runs.presets import SECTIONS
from icpe.tune.results import TuningResult
from icpe.tune.space import Space
from icpe.tune.study import CellStudy
from icpe.tune.trial import TrialTask

_NOT_COMPARED = ("name", "preset", "seed", "device")  # settings that trials of one study may differ in


@dataclass(frozen=True)
class TunedCell:
    """A method on a backbone.

    Attributes:
        study: its trials.
        task: what workers are asked to do.
    """

    study: CellStudy
    task: TrialTask

    @property
    def names(self) -> tuple[str, str]:
        """Names of the method and of the backbone."""
        return names_of(self.task.config)

    def job(self, key: str) -> Job:
        """Return the job that runs the next trial."""
        return Job(key, (replace(self.task, job=key),), group=self.names[1])

    def result(self) -> TuningResult:
        """Return the best settings that were found."""
        summary, config = self.study.summary(), self.task.config
        settings: dict[str, dict[str, Any]] = {}
        if summary.best is not None:
            settings = _fixed_settings(config)
            for section, found in self.task.space.settings(summary.best).items():
                settings[section].update(found)
        return TuningResult(
            method=self.names[0],
            backbone=self.names[1],
            trials=summary.ended,
            pruned=summary.pruned,
            failed=summary.failed,
            running=summary.running,
            score=summary.score,
            scores=summary.scores,
            settings=settings,
            seconds=summary.seconds,
            reason="" if summary.best is not None else summary.last_reason,
            data=_data_name(config),
            split={"kind": "given"} if "train" in config.data else {"kind": "unbiased", **config.split},
            seeds=list(self.task.seeds),
            criterion=self.task.criterion,
        )


def names_of(config: RunConfig) -> tuple[str, str]:
    """Return the names of method and backbone."""
    return config.method.get("name", "normal"), config.backbone.get("name", "mf")


def study_name(config: RunConfig) -> str:
    """Return the name of the study of a configuration, such as ``lastfm/icpe/mf``."""
    return "/".join((_data_name(config), *names_of(config)))


def identity(config: RunConfig, space: Space, content: str, seeds: Sequence[int], criterion: str) -> dict[str, Any]:
    """Return what must be the same for trials to be comparable, as plain values."""
    values = {name: list(labels) for name, labels in space.values.items()}
    return {
        "data": content,
        "split": config.split,
        "settings": _fixed_settings(config),
        "seeds": list(seeds),
        "criterion": criterion,
        "values": values,
    }


def _fixed_settings(config: RunConfig) -> dict[str, dict[str, Any]]:
    """Return the settings that all trials share, without names and without those that only say where a run happens."""
    config = config.expanded()
    return {
        section: {key: value for key, value in getattr(config, section).items() if key not in _NOT_COMPARED}
        for section in SECTIONS
    }


def _data_name(config: RunConfig) -> str:
    source = str(config.data.get("source") or config.data.get("train"))
    return source if source in CATALOGUE else Path(source).name
