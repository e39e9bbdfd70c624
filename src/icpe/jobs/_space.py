"""What is searched for one method on one backbone."""

import json
import math
from dataclasses import dataclass
from typing import Any

from icpe.errors import ConfigError
from icpe.runs.config import RunConfig

REG = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3)
LR = (5e-4, 1e-3, 2e-3, 4e-3, 1e-2)

Label = str | int | float | bool | None
Point = dict[str, Label]


@dataclass(frozen=True)
class Space:
    """Values to choose from, by dotted name such as ``method.alpha``; a point has one label of each.

    Attributes:
        values: for each name the labels, which databases can hold, and what they stand for.
        usual: the point of the defaults, which is tried first.
    """

    values: dict[str, dict[Label, Any]]
    usual: Point

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(len(values) for values in self.values.values())

    def apply(self, config: RunConfig, point: Point) -> RunConfig:
        """The configuration with the settings of a point."""
        for section, settings in self.settings(point).items():
            config = config.updated(section, settings)
        return config

    def settings(self, point: Point) -> dict[str, dict[str, Any]]:
        """What a point stands for: section → setting → value."""
        found: dict[str, dict[str, Any]] = {"method": {}, "train": {}}
        for name, values in self.values.items():
            section, setting = name.split(".", 1)
            found[section][setting] = values[point[name]]
        return found


def search_space(config: RunConfig) -> Space:
    """The method's own values, and those of ``reg`` and ``train.lr`` that all methods share.

    What the configuration names is fixed and not searched; what its preset says is where the search starts. The
    default is among the values: where it is not, it is added.

    Raises:
        ConfigError: the configuration is wrong.

    Example:
        >>> space = search_space(RunConfig(method={"name": "normal", "reg": 0.0}))
        >>> list(space.values), space.usual
        (['method.negatives', 'train.lr'], {'method.negatives': 1, 'train.lr': 0.001})
    """
    method = config.make_method()
    wanted = {f"method.{name}": choices for name, choices in {"reg": REG, **type(method).search}.items()}
    if method.settings():  # a ranking that learns nothing has none
        wanted["train.lr"] = LR
    values: dict[str, dict[Label, Any]] = {}
    usual: Point = {}
    for dotted, choices in sorted(wanted.items()):
        section, name = dotted.split(".", 1)
        if name in getattr(config, section) or name not in _effective(config, section):
            continue
        default, all_choices = _with_default(config, section, name, choices)
        values[dotted] = {_label(choice): choice for choice in all_choices}
        usual[dotted] = _label(default)
    return Space(values, usual)


def _with_default(config: RunConfig, section: str, name: str, choices: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The choice that stands for the default, and all choices."""
    default = _effective(config, section)[name]
    for choice in choices:
        # Compared by their effect: a method may keep 0.85 as [0.85, 0.85].
        try:
            if _effective(config.updated(section, {name: choice}), section)[name] == default:
                return choice, choices
        except ConfigError:  # not with the settings that are fixed; its trials will say so
            continue
    return default, (default, *choices)


def _effective(config: RunConfig, section: str) -> dict[str, Any]:
    method = config.make_method()
    return method.settings() if section == "method" else config.train_settings(method).as_dict()


def _label(value: Any) -> Label:
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)
