"""The declared settings behind dotted flags, and the check of flags against them.

This module imports the library; commands import it only when they need it.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from pydantic import ValidationError

from icpe.backbones import BACKBONES
from icpe.cli._flag_names import with_flags
from icpe.errors import ConfigError
from icpe.methods import METHODS
from icpe.runs.config import DATA, EvaluateSettings, RunConfig
from icpe.settings import Declaration, Settings, setting
from icpe.split import KINDS
from icpe.suggest import nearest, unknown_name
from icpe.train.settings import TrainSettings

_LISTS = (tuple, Sequence)
DEFAULTS = {"split": "unbiased", "backbone": "mf", "method": "normal"}
"""What a run uses when neither a flag nor a file names something else."""


class TrainFlags(TrainSettings):
    """The section ``[train]``: the settings of the training loop, and the seed."""

    seed: int = setting(0, "Seed of every random choice.", least=0)


@dataclass(frozen=True)
class Section:
    """The settings of one section of a run.

    Attributes:
        name: of the section, such as ``method``.
        owner: what the settings belong to, such as ``method 'icpe'``.
        kind: the class that declares them.
    """

    name: str
    owner: str
    kind: type[Settings]

    def declared(self) -> Iterator[Declaration]:
        """Yield every declared setting."""
        return self.kind.declared()

    def with_lists(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values with a list around each single value of a setting that takes a list."""
        takes_list = {name for name, one in self.kind.model_fields.items() if get_origin(one.annotation) in _LISTS}
        return {
            name: [value] if name in takes_list and not isinstance(value, list) else value
            for name, value in values.items()
        }

    def flag(self, name: str) -> str:
        """Return the flag of a setting."""
        return f"--{self.name}.{name}"


def find_section(section: str, name: str | None = None) -> Section:
    """Return the settings of a section.

    Args:
        section: one of split, backbone, method, train, evaluate and loop.
        name: of the split, backbone or method; the default if None.

    Raises:
        ConfigError: no split, backbone or method has this name.
    """
    if section == "train":
        return Section(section, "the training loop", TrainFlags)
    if section == "evaluate":
        return Section(section, "the evaluation", EvaluateSettings)
    if section == "loop":
        from icpe.simulate.settings import LoopSettings  # late: only the feedback loop needs it

        return Section(section, "the feedback loop", LoopSettings)
    name = name or DEFAULTS[section]
    owner = f"{section} {name!r}"
    if section == "method":
        return Section(section, owner, METHODS.find(name).Settings)
    if section == "backbone":
        return Section(section, owner, BACKBONES.find(name).Settings)
    if name not in KINDS:
        raise unknown_name(section, name, KINDS)
    return Section(section, owner, KINDS[name])


def known_names(section: str) -> list[str]:
    """Return the names of all splits, backbones or methods."""
    return {"split": list(KINDS), "backbone": BACKBONES.names(), "method": METHODS.names()}[section]


def check_flags(dotted: Mapping[str, Mapping[str, Any]], config: RunConfig) -> RunConfig:
    """Check names and values of dotted flags, and return the configuration with the values in their declared types.

    Args:
        dotted: section → name → value.
        config: the configuration with the flags in it, which names the split, the backbone and the method.

    Raises:
        ConfigError: lists all mistakes, one line each, by their flags.
    """
    names = {one: getattr(config, one).get("kind" if one == "split" else "name") for one in DEFAULTS}
    mistakes: list[str] = []
    for section in dict.fromkeys([*DEFAULTS, *dotted]):
        try:
            found = find_section(section, names.get(section))
        except ConfigError as error:
            mistakes.append(f"--{section}: {error}")
            continue
        values = dotted.get(section, {})
        mistakes += find_mistakes(found, values)
        config = config.updated(section, found.with_lists(values))
        if section == "split":  # no preset fills these in later, so a rule about several of them can be checked here
            mistakes += _broken_rules(found, {name: one for name, one in config.split.items() if name != "kind"})
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return config


def check_file(path: Path, config: RunConfig, replaced: Container[str] = ()) -> None:
    """Check the names and values of the settings in a configuration file.

    Args:
        path: the file.
        config: its content.
        replaced: sections that flags replace, so that the file does not matter.

    Raises:
        ConfigError: lists all mistakes, one line each, with the file.
    """
    mistakes = [str(unknown_name("setting of [data]", name, DATA)) for name in config.data if name not in DATA]
    for section in ("split", "backbone", "method", "train", "evaluate"):
        values = dict(getattr(config, section))
        name = values.pop("kind" if section == "split" else "name", None)
        values.pop("preset", None)
        if section in replaced or not isinstance(name, str | None):
            continue
        try:
            found = find_section(section, name)
        except ConfigError as error:
            mistakes.append(str(error))
            continue
        try:
            found.kind.parse(found.with_lists(values), found.owner if section in DEFAULTS else f"[{section}]")
        except ConfigError as error:
            # A rule about several settings is checked later, with the values of the flags.
            mistakes += str(error).splitlines() if _at_fault(found, found.with_lists(values)) else []
    if mistakes:
        raise ConfigError("\n".join(f"{path}: {one}" for one in mistakes))


def find_mistakes(section: Section, values: Mapping[str, Any], only: Iterable[Declaration] | None = None) -> list[str]:
    """Return what is wrong with flags of a section, one line each.

    Args:
        section: the settings.
        values: by name.
        only: the settings that can be given here; all by default.
    """
    declared = {one.name: one for one in (section.declared() if only is None else only)}
    known = {name: value for name, value in values.items() if name in declared}
    mistakes = [_unknown_flag(section, name, declared) for name in values if name not in known]
    # A rule about several settings has no place; the library checks it with the values of the file.
    return mistakes + [
        f"{section.flag(name)} is {values[name]!r}; expected {declared[name].expected}"
        for name in _at_fault(section, section.with_lists(known))
        if name in declared
    ]


def _at_fault(section: Section, values: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that are unknown or have a wrong value of their own."""
    try:
        section.kind(**values)
    except ConfigError as error:
        found = error.__cause__.errors() if isinstance(error.__cause__, ValidationError) else []
        return list(dict.fromkeys(str(one["loc"][0]) for one in found if one["loc"]))
    return []


def _broken_rules(section: Section, values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the values together, by their flags; nothing if one is wrong by itself."""
    if _at_fault(section, values):
        return []
    try:
        section.kind(**values)
    except ConfigError as error:
        return with_flags(str(error), {name: section.flag(name) for name in section.kind.model_fields}).splitlines()
    return []


def _unknown_flag(section: Section, name: str, declared: Iterable[str]) -> str:
    near = nearest(name, declared)
    flags = ", ".join(map(section.flag, declared)) or "none"
    hint = f"did you mean {section.flag(near)}?" if near else f"its settings are: {flags}"
    return f"no such option {section.flag(name)}: {section.owner} has no such setting; {hint}"
