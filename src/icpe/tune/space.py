"""The search space of one method on one backbone."""

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
    """Values to choose from, by dotted name such as ``method.alpha``. A point has one label for each name.

    Attributes:
        values: for each name, labels that a database can hold and the values they stand for.
        defaults: the point of the default settings, which is tried first.
    """

    values: dict[str, dict[Label, Any]]
    defaults: Point

    @property
    def size(self) -> int:
        """Number of points in the space."""
        return math.prod(len(values) for values in self.values.values())

    def apply(self, config: RunConfig, point: Point) -> RunConfig:
        """Return the configuration with the settings of a point."""
        for section, settings in self.settings(point).items():
            config = config.updated(section, settings)
        return config

    def settings(self, point: Point) -> dict[str, dict[str, Any]]:
        """Return the settings that a point stands for, as section → setting → value."""
        found: dict[str, dict[str, Any]] = {"method": {}, "train": {}}
        for name, values in self.values.items():
            section, setting = name.split(".", 1)
            found[section][setting] = values[point[name]]
        return found


def search_space(config: RunConfig) -> Space:
    """Return the search space: the method's own values, and those of ``reg`` and ``train.lr`` that all methods share.

    Settings that the configuration names are fixed and not searched. The search starts from the preset, if there is
    one, or from the defaults. A default that is not among the values is added to them.

    Raises:
        ConfigError: the configuration is wrong.

    Example:
        >>> space = search_space(RunConfig(method={"name": "normal", "reg": 0.0}))
        >>> list(space.values), space.defaults
        (['method.negatives', 'train.lr'], {'method.negatives': 1, 'train.lr': 0.001})
    """
    method = config.make_method()
    wanted = {f"method.{name}": choices for name, choices in {"reg": REG, **method.Settings.search_space()}.items()}
    if any(not one.ranking for one in method.Settings.declared()):  # a method that learns nothing has none
        wanted["train.lr"] = LR
    values: dict[str, dict[Label, Any]] = {}
    defaults: Point = {}
    for dotted, choices in sorted(wanted.items()):
        section, name = dotted.split(".", 1)
        if name in getattr(config, section) or name not in _effective(config, section):
            continue
        default, all_choices = _with_default(config, section, name, choices)
        values[dotted] = {_label(choice): choice for choice in all_choices}
        defaults[dotted] = _label(default)
    return Space(values, defaults)


def _with_default(config: RunConfig, section: str, name: str, choices: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return the choice that equals the default, and all choices."""
    default = _effective(config, section)[name]
    for choice in choices:
        # Choices are compared by their effect, because a method may keep 0.85 as [0.85, 0.85].
        try:
            if _effective(config.updated(section, {name: choice}), section)[name] == default:
                return choice, choices
        except ConfigError:  # impossible with the settings that are fixed; its trials will report that
            continue
    return default, (default, *choices)


def _effective(config: RunConfig, section: str) -> dict[str, Any]:
    method = config.make_method()
    return method.settings.as_dict() if section == "method" else config.train_settings(method).as_dict()


def _label(value: Any) -> Label:
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)
