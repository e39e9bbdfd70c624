"""Fair tuning: the same number of trials for every method, chosen on validation data and nothing else."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from icpe.errors import ConfigError
from icpe.extras import require
from icpe.files import lock_folder
from icpe.jobs import Workers, check_workers
from icpe.runs.config import RunConfig
from icpe.suggest import unknown_name
from icpe.tune.results import TrialEvent, TuningResult, write_presets
from icpe.tune.space import search_space

if TYPE_CHECKING:
    from icpe.tune.trial import Criterion

__all__ = ["TrialEvent", "TuningResult", "tune", "write_presets"]

STUDY = "study.db"


def tune(
    configs: Sequence[RunConfig],
    folder: Path,
    *,
    trials: int = 20,
    seeds: Sequence[int] = (100, 101),
    workers: Workers = 1,
    minutes: float | None = None,
    prune: bool = True,
    criterion: "Criterion" = "ndcg",
    storage: str | None = None,
    score: Callable[[RunConfig, int], float] | None = None,
    on_trial: Callable[[TrialEvent], None] | None = None,
) -> list[TuningResult]:
    """Search settings for each configuration and return the best. A tuning that is in the folder continues.

    The first trial takes the defaults. Optuna's TPE sampler chooses the others from the search values of the method,
    of ``reg`` and of ``train.lr``. No settings are tried twice. The configuration with the fewest trials is always
    next, so that budgets are equal at any time.

    Args:
        configs: one per method and backbone; settings they name are fixed.
        folder: holds the study (``study.db``).
        trials: number of trials for each; failed and pruned ones count.
        seeds: of each trial; a seed decides the split, the initial values and all sampling.
        workers: number of processes that train, with one thread each; 1 trains in this process;
            ``icpe.jobs.RayCluster("auto")`` trains on the machines of a cluster, while this process keeps the study.
        minutes: start no further trial of a configuration that has trained for so long.
        prune: whether to skip the other seeds of a trial whose first seed is below the median of earlier trials.
        criterion: what is maximised on validation: ``ndcg`` (NDCG@20 at the setting of the dial that training chooses),
            ``balanced_ndcg`` (the same with all items counted alike, which is then also the goal of training), or
            ``hypervolume`` (the area below the front of niche share and NDCG@20).
        storage: URL of a database for the study, which several processes and machines can share.
        score: trains with a configuration and a seed and returns what is maximised, instead of the
            criterion. With several workers it must be defined at the top of a module.
        on_trial: called when a trial has ended.

    Returns:
        What was found, in the order of the configurations.

    Raises:
        ConfigError: a setting is wrong, Optuna is missing, or the study was made with other data or settings.
        DataError: the data cannot be read.
        KeyboardInterrupt: after Ctrl-C. All trials that have ended are kept, and those that ran are tried again.
    """
    _check(configs, trials, seeds, workers, minutes)
    require("optuna", "tune", "tuning")
    return _tune(configs, Path(folder), trials, seeds, workers, minutes, prune, criterion, storage, score, on_trial)


def _tune(
    configs: Sequence[RunConfig],
    folder: Path,
    trials: int,
    seeds: Sequence[int],
    workers: Workers,
    minutes: float | None,
    prune: bool,
    criterion: "Criterion",
    storage: str | None,
    score: Callable[[RunConfig, int], float] | None,
    on_trial: Callable[[TrialEvent], None] | None,
) -> list[TuningResult]:
    # These modules need Optuna, which is optional.
    from icpe.tune._cells import TunedCell, identity, study_name
    from icpe.tune._schedule import Schedule
    from icpe.tune.storage import open_storage, quiet_optuna, storage_errors
    from icpe.tune.study import CellStudy
    from icpe.tune.trial import Criterion, TrialTask, forget_data, open_training, validation_score

    if criterion not in get_args(Criterion):
        raise unknown_name("criterion", criterion, get_args(Criterion))
    configs = [_with_goal(config, criterion) for config in configs]
    spaces = [search_space(config) for config in configs]
    for config in configs:
        config.train_settings(config.make_method()).torch_device()
    hashes = [open_training(config, seeds[0])[2] for config in configs]
    if workers != 1:
        forget_data()  # the workers read the data themselves
    with lock_folder(folder), quiet_optuna(), storage_errors():
        url = storage or f"sqlite:///{(folder / STUDY).absolute()}"
        database, alone, cells = open_storage(url), storage is None, []
        for config, space, content in zip(configs, spaces, hashes, strict=True):
            study = CellStudy(database, study_name(config), space)
            study.check_identity(identity(config, space, content, seeds, criterion))
            study.requeue(all_running=alone)  # whatever ran in the locked folder before is gone
            task = TrialTask(
                job="",
                url=url,
                study=study.name,
                config=config,
                space=space,
                seeds=tuple(seeds),
                budget=trials,
                most_seconds=math.inf if minutes is None else 60 * minutes,
                prune=prune,
                criterion=criterion,
                score=score or partial(validation_score, criterion=criterion),
            )
            cells.append(TunedCell(study, task))
        Schedule(cells, trials, on_trial, alone).run(workers)
        return [cell.result() for cell in cells]


def _with_goal(config: RunConfig, criterion: "Criterion") -> RunConfig:
    """Return the configuration with the goal of training that fits the criterion."""
    if criterion != "balanced_ndcg":
        return config
    goal = config.train.get("goal", "balanced")
    if goal != "balanced":
        raise ConfigError(
            f"the criterion balanced_ndcg needs training with the goal 'balanced'; found {goal!r}. Remove --train.goal"
        )
    return config.updated("train", {"goal": "balanced"})


def _check(
    configs: Sequence[RunConfig], trials: int, seeds: Sequence[int], workers: Workers, minutes: float | None
) -> None:
    check_workers(workers)
    if not isinstance(trials, int) or isinstance(trials, bool) or trials < 1:
        raise ConfigError(f"trials is {trials!r}; expected a whole number from 1 up")
    if not seeds or len(set(seeds)) < len(seeds) or not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
        raise ConfigError(f"seeds are {list(seeds)!r}; expected different whole numbers from 0 up, such as [100, 101]")
    if minutes is not None and not minutes > 0:
        raise ConfigError(f"minutes is {minutes!r}; expected a number above 0")
    named = [(config.method.get("name", "normal"), config.backbone.get("name", "mf")) for config in configs]
    for method, backbone in named:
        if named.count((method, backbone)) > 1:
            raise ConfigError(f"{method} on {backbone} appears twice; each can be tuned once at a time")
    if not named:
        raise ConfigError("nothing to tune: name at least one method with --methods")
