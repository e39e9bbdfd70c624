"""The arms of a simulation: methods that are trained on their own log, and four arms to compare them with.

An arm is called by its method, or ``method/backbone`` in a simulation with several backbones.
"""

from collections.abc import Sequence
from typing import Any

from icpe.backbones import BACKBONES
from icpe.compare.names import BASELINES, backbone_name
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.methods import METHODS
from icpe.recommender.model import Model
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.train import TrainSettings
from icpe.types import BoolArray

NONE, ORACLE = "none", "oracle"
REFERENCES = (ORACLE, "random", "popularity", NONE)
_HELD_OUT = 0.1  # share of the log that chooses the moment to stop training and the setting of the dial
# Normal is what people have today, so nobody turns its dial.
_AT_REST = ("normal", *BASELINES)
# Every method is trained many times, so trainings are shorter than those of `icpe train`, with a larger learning rate.
_TRAINING = {"epochs": 20, "lr": 0.003, "patience": 5, "goal": "balanced"}
_VALIDATE = {"epochs": 2, "steps": 100}  # at least, between two validations


def arms_of(methods: Sequence[str], backbones: Sequence[str] = ("mf",)) -> list[str]:
    """Return the names of all arms: the methods on every backbone, then the arms to compare them with.

    Raises:
        ConfigError: there is no method or no backbone, a name is unknown, or it occurs twice.

    Example:
        >>> arms_of(["normal", "icpe"])
        ['normal', 'icpe', 'oracle', 'random', 'popularity', 'none']
        >>> arms_of(["icpe"], ["mf", "lightgcn"])[:2]
        ['icpe/mf', 'icpe/lightgcn']
    """
    for what, names in (("method", methods), ("backbone", backbones)):
        example = "normal,icpe" if what == "method" else "mf,lightgcn"
        if isinstance(names, str) or not names:
            raise ConfigError(
                f"{what}s is {names!r}; expected names of {what}s. Pass {example.split(',')} or others (command line: "
                f"--{what}s {example})"
            )
        if len(set(names)) < len(names):
            raise ConfigError(f"{what}s is {', '.join(names)}; expected every {what} once")
    named = [name for name in methods if name not in REFERENCES]
    for name in named:
        METHODS.find(name)
    for name in backbones:
        BACKBONES.find(name)
    if len(backbones) > 1:
        named = [f"{method}/{backbone}" for backbone in backbones for method in named]
    return [*named, *REFERENCES]


def arm_label(arm: str) -> str:
    """Return how tables and figures call an arm.

    Example:
        >>> arm_label("none"), arm_label("icpe/mf")
        ('No recommender', 'ICPE on MF')
    """
    if arm in (NONE, ORACLE):
        return {NONE: "No recommender", ORACLE: "Oracle"}[arm]
    method, _, backbone = arm.partition("/")
    label = METHODS.find(method).label
    return f"{label} on {backbone_name(backbone)}" if backbone else label


def arm_config(arm: str, config: RunConfig) -> RunConfig:
    """Return the configuration of an arm's training: that of the simulation, with the wish for its dial."""
    method, _, backbone = arm.partition("/")
    train: dict[str, Any] = {**_TRAINING, **config.train}
    if method in _AT_REST:
        train = {**train, "goal": "none", "niche_share": None}
    given = {name: value for name, value in train.items() if value is not None and name != "seed"}
    own = {**config.backbone, **({"name": backbone} if backbone else {})}
    return RunConfig(backbone=own, method={"name": method}, train=given, plugins=config.plugins)


def train_arm(
    arm: str, log: Interactions, config: RunConfig, seed: int, sides: int, earlier: Model | None = None
) -> Model:
    """Return the model of an arm, trained on its own log.

    Args:
        arm: name of the arm, which is one with a model.
        log: the log of the arm. A random tenth of its pairs is held out for validation.
        config: settings of the backbone and of training.
        seed: seed of the training.
        sides: seed that decides which pairs are held out. A pair is always on the same side, so that a model that
            starts from an earlier one has not seen what is held out.
        earlier: the model to start from; None to train from scratch.
    """
    own = arm_config(arm, config)
    if arm in BASELINES:  # nothing to validate
        return own.make_method().fit(log, seed=seed)
    held_out = held_out_pairs(log, sides)
    train, valid = log.keep(~held_out), log.keep(held_out)
    steps = _VALIDATE["epochs"] * len(train) // int(own.train.get("batch_size", TrainSettings().batch_size))
    settings = {"evaluate_every": max(_VALIDATE["steps"], steps), **own.train}
    return own.make_method().fit(train, valid, seed, init_from=earlier, **settings)


def held_out_pairs(log: Interactions, seed: int) -> BoolArray:
    """Which pairs are held out, bool [pairs].

    The sum of a random number of the user and one of the item, modulo 1, is uniform and independent for any two pairs,
    and it does not change when the log grows.
    """
    user, item = (
        stream(seed, f"simulate/held-out/{what}").random(len(ids))
        for what, ids in (("users", log.users), ("items", log.items))
    )
    return (user[log.user] + item[log.item]) % 1 < _HELD_OUT
