"""Where trials run: here, in worker processes, or with their trainings on a cluster."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from icpe.data.interactions import Interactions
from icpe.jobs import Engine, Job, RayCluster, Workers
from icpe.jobs.engine import make_engine
from icpe.jobs.travel import data_input
from icpe.runs.config import RunConfig
from icpe.split import Parts
from icpe.tune.trial import Score, TrialResult, TrialTask, run_trial


def trial_engine(workers: Workers) -> Engine[TrialResult | None]:
    """Return the engine that runs trials.

    Worker processes use the database themselves. Other machines do not: there a task is the training with one seed, and
    a thread of this process keeps the record of the trial.
    """
    if not isinstance(workers, RayCluster):
        return make_engine(run_trial, workers)
    from icpe.jobs.ray import RayTasks  # late: Ray is optional
    from icpe.jobs.threads import ThreadsBeside

    tasks = RayTasks(_score, workers)

    def execute(job: Job) -> float:
        result = tasks.execute(job)
        if result.failed or result.value is None:
            raise result.as_error()
        return result.value

    def run(task: TrialTask) -> TrialResult | None:
        return run_trial(replace(task, score=partial(_score_elsewhere, execute, task.score)))

    return ThreadsBeside(run, tasks)


def _score_elsewhere(execute: Callable[[Job], float], score: Score, config: RunConfig, seed: int) -> float:
    config = config.portable()
    group = str(config.backbone.get("name", "mf"))
    return execute(Job(None, (score, config, seed), group, inputs=(data_input(config),)))


def _score(score: Score, config: RunConfig, seed: int, data: Interactions | Parts | None = None) -> float:
    return score(config.with_data(data), seed)
