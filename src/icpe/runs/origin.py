"""How a run begins and ends: from scratch, from the model of an earlier run, or as the refit of a run.

The section ``[start]`` of ``config.toml`` says which. ``init_from`` names the earlier run whose model is the start;
``wish`` is what its dial should achieve, and the counts say what was taken over. ``refit_of`` names the run whose
number of epochs and whose choices a refit on all parts follows.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from icpe.errors import ConfigError, DataError
from icpe.recommender.dial import CRITERIA, Wish
from icpe.recommender.model import Model
from icpe.recommender.warm_start import check_same, keep_choices, start_from
from icpe.runs.config import RunConfig
from icpe.runs.folder import CONFIG, CURVE, RESULT
from icpe.runs.load import load
from icpe.split import Parts
from icpe.suggest import unknown_name
from icpe.train import Trainer
from icpe.train.abilities import OnPlateau

_KEYS = ("init_from", "wish", "beta", "boost", "users", "items", "known", "refit_of", "epochs")


class Origin:
    """A run from scratch, and the base of all other origins.

    Args:
        start: the section ``[start]`` of the configuration.
        recorded: the section in the folder of a run that goes on from its checkpoint; else empty.

    Attributes:
        wish: what the dial should achieve, instead of the goal of training; None without a wish.
    """

    def __init__(self, start: dict[str, Any], recorded: dict[str, Any]) -> None:
        self._start, self._recorded = start, recorded
        self.wish: Wish | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint says about the start, so that another run cannot resume from it."""
        return {}

    @property
    def record(self) -> dict[str, Any]:
        """What ``result.json`` says about the origin."""
        return {}

    def begin(self, trainer: Trainer, parts: Parts) -> dict[str, Any]:
        """Prepare a trainer that has taken no step, and return the section ``[start]`` to write."""
        return {}

    def after_step(self, trainer: Trainer) -> None:
        """Do what is due after a step, before a checkpoint is saved."""

    def finish(self, model: Model) -> Model:
        """Return the trained model as the run keeps it."""
        return model


class WarmStart(Origin):
    """A run that starts from the model of an earlier run, and gives the dial the same wish."""

    @property
    def identity(self) -> dict[str, Any]:
        """The path of the earlier run."""
        return {"start": self._start["init_from"]}

    @property
    def record(self) -> dict[str, Any]:
        """What was taken over, and the wish."""
        about = {name: value for name, value in self._recorded.items() if name != "wish"}
        return {"start": about, **({} if self.wish is None else {"wish": self.wish.as_dict()})}

    def begin(self, trainer: Trainer, parts: Parts) -> dict[str, Any]:
        """Carry the rows over. A run that goes on from its checkpoint needs the earlier run no more."""
        if self._recorded:
            if len(parts.valid) == 0 and trainer.method.settings.beta is None:
                kept = {name: self._recorded.get(name) for name in ("beta", "boost")}
                trainer.method.settings = trainer.method.settings.replace(**kept)
        else:
            folder = Path(self._start["init_from"])
            model = load(folder)
            carried = start_from(trainer, parts.train, model, parts.valid, parts.test, str(folder))
            if len(parts.valid) == 0:
                keep_choices(trainer.method, model.method)
            wish = self._start["wish"] if "wish" in self._start else _read_result(folder).get("wish", {})
            self._recorded = {"init_from": str(folder), **model.setting, "wish": wish, **carried.as_dict()}
        wish = self._recorded["wish"]
        self.wish = Wish(**wish) if wish and len(parts.valid) else None
        return self._recorded


class Refit(Origin):
    """A run on all parts that trains for as many epochs as a run with validation has found to be best.

    It starts as that run did. Whatever that run has chosen on its validation part stays: the dial, the kind of
    ranking, and the moments at which a method changed because validation no longer improved.
    """

    def __init__(self, start: dict[str, Any], recorded: dict[str, Any]) -> None:
        super().__init__(start, recorded)
        self._folder = Path(start["refit_of"])
        self._result = _read_result(self._folder)
        if not self._result:
            raise DataError(f"{self._folder} holds no finished run, so there is nothing to refit; train it first")
        if "valid" not in self._result:
            raise ConfigError(
                f"{self._folder} has no validation part, so the best number of epochs is unknown; a refit needs one. "
                "Train with a validation part, or without --refit"
            )
        self._curve = _read_curve(self._folder)
        self._plateaus: list[int] = []

    @property
    def identity(self) -> dict[str, Any]:
        """The number of epochs, and when validation stopped to improve."""
        return {"refit": [self._epochs, *self._plateau_epochs()]}

    @property
    def record(self) -> dict[str, Any]:
        """What the model is, and the metrics of the run that has chosen its settings."""
        chosen = {name: self._result[name] for name in ("best_step", "valid", "test") if name in self._result}
        about = {
            "of": str(self._folder),
            "trained_on": "all parts, so no part is left to measure this model",
            "epochs": self._epochs,
            "selection": chosen,
        }
        return {"refit": about, **({"wish": self._result["wish"]} if "wish" in self._result else {})}

    def begin(self, trainer: Trainer, parts: Parts) -> dict[str, Any]:
        """Set the number of steps, and carry rows over if the run with validation has done so."""
        epoch = trainer.steps // trainer.settings.epochs
        earlier = self._start.get("init_from")
        if earlier is not None and not self._recorded:
            start_from(trainer, parts.train, load(Path(earlier)), name=earlier)
        trainer.steps = max(1, round(self._epochs * epoch))
        self._plateaus = [round(at * epoch) for at in self._plateau_epochs()]
        return {**self._start, "epochs": self._epochs}

    def after_step(self, trainer: Trainer) -> None:
        """Let the method change where it changed in the run with validation."""
        method = trainer.method
        if isinstance(method, OnPlateau):
            for _ in range(self._plateaus.count(trainer.position.step)):
                method.on_plateau()

    def finish(self, model: Model) -> Model:
        """Return the model with the choices of the run with validation, and with its front."""
        chosen = load(self._folder)
        keep_choices(model.method, chosen.method)
        front = chosen.front() if chosen.has_front else None
        return Model(model.method, model.log, front).adjusted(beta=chosen.beta)

    @property
    def _epochs(self) -> float:
        """Epochs until the best validation. After a warm start it is at least 1, because new rows are untrained."""
        best = self._result["best_step"]
        found = next(float(one["epoch"]) for one in self._curve if one["step"] == best)
        return max(1.0, found) if "init_from" in self._start else found

    def _plateau_epochs(self) -> list[float]:
        """The epochs of the validations before the best one that brought no better value."""
        goal = RunConfig.read(self._folder / CONFIG).train.get("goal", "traffic")
        best, found = -float("inf"), []
        for one in self._curve:
            value = one["valid"][f"{CRITERIA.get(goal, 'ndcg')}@20"]
            if value is not None and value > best:
                best = value
            elif one["step"] < self._result["best_step"]:
                found.append(float(one["epoch"]))
        return found


def origin_of(config: RunConfig, recorded: dict[str, Any]) -> Origin:
    """Return the origin that a configuration asks for.

    Args:
        config: the configuration of the run.
        recorded: the section ``[start]`` in the folder of a run that goes on from its checkpoint; else empty.

    Raises:
        ConfigError: the section has an unknown key.
    """
    for name in config.start:
        if name not in _KEYS:
            raise unknown_name("setting of [start]", name, _KEYS)
    if "refit_of" in config.start:
        return Refit(config.start, recorded)
    return WarmStart(config.start, recorded) if config.start else Origin({}, {})


def with_init_from(config: RunConfig, folder: Path, keep_wish: bool = True) -> RunConfig:
    """Return a configuration whose run starts from the model in a folder.

    Args:
        config: the configuration of the new run.
        folder: folder of the earlier run, or of a model.
        keep_wish: whether the dial gets the wish of the earlier run.

    Raises:
        ConfigError: the earlier run has another method or another backbone.
    """
    # The settings of one backbone can be impossible with another one, so the names are compared before all else.
    earlier = RunConfig.read(folder / CONFIG) if (folder / CONFIG).exists() else config
    for what, default in (("method", "normal"), ("backbone", "mf")):
        here, there = (getattr(one, what).get("name", default) for one in (config, earlier))
        check_same(what, here, there, str(folder))
    return replace(config, start={"init_from": str(folder.resolve()), **({} if keep_wish else {"wish": {}})})


def recorded_start(folder: Path | None) -> dict[str, Any]:
    """Return the section ``[start]`` of the run in a folder; empty if there is none."""
    return {} if folder is None or not (folder / CONFIG).exists() else RunConfig.read(folder / CONFIG).start


def _read_result(folder: Path) -> dict[str, Any]:
    """Return ``result.json`` of a run, or nothing for a folder that holds a model only."""
    try:
        found: dict[str, Any] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / RESULT} is damaged: {error}; train the run again") from error
    return found


def _read_curve(folder: Path) -> list[dict[str, Any]]:
    """Return the validations of a run."""
    lines = (folder / CURVE).read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if "valid" in record]
