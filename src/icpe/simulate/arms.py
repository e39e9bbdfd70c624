"""The arms of a simulation: methods that are trained on their own log, and four arms to compare them with."""

from collections.abc import Sequence
from typing import Any

from icpe.compare.names import BASELINES
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.methods import METHODS
from icpe.ranking import ScoreTable
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.simulate.population import Population
from icpe.train import TrainSettings

NONE, ORACLE = "none", "oracle"
REFERENCES = (ORACLE, "random", "popularity", NONE)
_HELD_OUT = 0.1  # share of the log that chooses the moment to stop training and the setting of the dial
# Normal is what people have today, so nobody turns its dial.
_AT_REST = ("normal", *BASELINES)
# Every method is trained many times, so trainings are shorter than those of `icpe train`, with a larger learning rate.
_TRAINING = {"epochs": 20, "lr": 0.003, "patience": 5, "goal": "balanced"}
_VALIDATE = {"epochs": 2, "steps": 100}  # at least, between two validations


def arms_of(methods: Sequence[str]) -> list[str]:
    """Return the names of all arms: the methods, then the arms to compare them with.

    Raises:
        ConfigError: there is no method, a method is unknown, or it is named twice.

    Example:
        >>> arms_of(["normal", "icpe"])
        ['normal', 'icpe', 'oracle', 'random', 'popularity', 'none']
    """
    if isinstance(methods, str) or not methods:
        raise ConfigError(
            f"methods is {methods!r}; expected names of methods. Pass ['normal', 'icpe'] or others (command line: "
            "--methods normal,icpe)"
        )
    named = [name for name in methods if name not in REFERENCES]
    for name in named:
        METHODS.find(name)
    if len(set(named)) < len(named):
        raise ConfigError(f"methods is {', '.join(methods)}; expected every method once")
    return [*named, *REFERENCES]


def arm_label(arm: str) -> str:
    """Return how tables and figures call an arm."""
    return {NONE: "No recommender", ORACLE: "Oracle"}.get(arm) or METHODS.find(arm).label


def arm_config(arm: str, config: RunConfig) -> RunConfig:
    """Return the configuration of an arm's training: that of the simulation, with the wish for its dial."""
    train: dict[str, Any] = {**_TRAINING, **config.train}
    if arm in _AT_REST:
        train = {**train, "goal": "none", "niche_share": None}
    given = {name: value for name, value in train.items() if value is not None and name != "seed"}
    return RunConfig(backbone=config.backbone, method={"name": arm}, train=given, plugins=config.plugins)


def rank_with(arm: str, population: Population, log: Interactions, config: RunConfig, seed: int) -> ScoreTable | None:
    """Return the scores that rank the items for an arm, or None if it has no recommender.

    Args:
        arm: name of the arm.
        population: users and items, whose true preferences only the oracle knows.
        log: the arm's own log, on which a method is trained; a random tenth of it is held out for validation.
        config: settings of the backbone and of training.
        seed: seed of the training and of the held-out tenth.
    """
    if arm == NONE:
        return None
    if arm == ORACLE:
        return population.truth
    own = arm_config(arm, config)
    if arm in BASELINES:  # nothing to validate
        return own.make_method().fit(log, seed=seed).scores
    held_out = stream(seed, "simulate/held-out").random(len(log)) < _HELD_OUT
    train, valid = log.keep(~held_out), log.keep(held_out)
    steps = _VALIDATE["epochs"] * len(train) // int(own.train.get("batch_size", TrainSettings().batch_size))
    settings = {"evaluate_every": max(_VALIDATE["steps"], steps), **own.train}
    return own.make_method().fit(train, valid, seed, **settings).scores
