"""The settings to try next: the defaults first, then proposals of Optuna's TPE sampler, never the same twice."""

from collections.abc import Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState

from icpe.rng import random_keys
from icpe.tune.space import Point, Space
from icpe.tune.storage import experimental_features

_RANDOM_TRIALS = 8  # trials before the sampler learns from them
_ATTEMPTS = 20  # proposals of the sampler before a random point is taken


def distributions_of(space: Space) -> dict[str, BaseDistribution]:
    """Return the values of a search space as Optuna's distributions."""
    return {name: CategoricalDistribution(list(labels)) for name, labels in space.values.items()}


def propose(trials: Sequence[FrozenTrial], space: Space, name: str) -> Point | None:
    """Return a point that no trial has tried, or None if all were tried.

    The sampler works on a copy of the study in memory, so that a proposal that was tried already costs no trial. Its
    seed depends on the number of trials, so that an interrupted tuning continues as it would have without the
    interruption.

    Args:
        trials: all that count against the budget, including those that run.
        space: of the search.
        name: of the study; other names have other random streams.
    """
    tried = [trial.params for trial in trials]
    if space.defaults not in tried:
        return dict(space.defaults)
    if len(tried) >= space.size:
        return None
    seed = int(random_keys(len(tried), f"tune/{name}", 1)[0] >> 33)
    study = optuna.create_study(direction="maximize", sampler=_sampler(seed))
    study.add_trials([trial for trial in trials if trial.state != TrialState.FAIL])
    distributions = distributions_of(space)
    for _ in range(_ATTEMPTS):
        point: Point = study.ask(distributions).params
        if point not in tried:
            return point
    return _random_point(tried, space, f"tune/{name}/any", seed)


def _random_point(tried: Sequence[Point], space: Space, stream: str, seed: int) -> Point | None:
    for key in random_keys(seed, stream, 1_000_000):
        rest, point = int(key), {}
        for setting, values in space.values.items():
            rest, place = divmod(rest, len(values))
            point[setting] = list(values)[place]
        if point not in tried:
            return point
    return None


def _sampler(seed: int) -> TPESampler:
    """Return a sampler that proposes all settings together and takes running trials into account."""
    with experimental_features():
        return TPESampler(seed=seed, n_startup_trials=_RANDOM_TRIALS, multivariate=True, constant_liar=True)
