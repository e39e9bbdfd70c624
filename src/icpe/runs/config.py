"""The configuration of a run, as ``config.toml`` stores it."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field

from icpe.backbones import MF, Backbone, make_backbone
from icpe.data import open_log
from icpe.data.datasets import CATALOGUE
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.methods import Method, make_method
from icpe.runs.earlier_versions import upgraded
from icpe.runs.plugins import load_plugins
from icpe.runs.presets import find_preset
from icpe.settings import Settings, setting
from icpe.shown import shortened
from icpe.split import KINDS, Parts, cut, everything, given
from icpe.suggest import missing_file, unknown_name
from icpe.toml import parse_toml
from icpe.train import TrainSettings
from icpe.train.method import TrainingMethod

SECTIONS = ("data", "split", "backbone", "method", "train", "evaluate", "start")
DATA = ("train", "valid", "test", "k_core", "data_dir", *inspect.signature(Interactions.read).parameters)

_PATHS = ("source", "train", "valid", "test", "data_dir", "item_info")


class EvaluateSettings(Settings):
    """Settings of the evaluation."""

    n: tuple[Annotated[int, Field(ge=1)], ...] = setting(
        (20,), "List lengths to evaluate.", expected="list lengths such as 20 or [10, 20]"
    )


@dataclass(frozen=True)
class RunConfig:
    """Configuration of a run: one plain mapping for each section of ``config.toml``.

    Attributes:
        data: ``source`` (path or catalogue name) or ``train, valid, test`` (paths); ``k_core``, ``data_dir`` and the
            options of ``Interactions.read``.
        split: ``kind`` and its settings.
        backbone: ``name`` and its settings.
        method: ``name``, ``preset`` and further settings. A preset may also contain settings of ``backbone`` and
            ``train``; values given in the sections override those of the preset.
        train: ``seed`` and the settings of the training loop.
        evaluate: ``n``, the list lengths.
        start: the earlier run that this one builds on, see :mod:`icpe.runs.origin`; empty if it starts from scratch.
        plugins: Python files with further backbones and methods. They are not written to the file.
        opened: what :meth:`read_data` would return, if the data were read already; they are not written to the file.
    """

    data: dict[str, Any] = field(default_factory=dict)
    split: dict[str, Any] = field(default_factory=dict)
    backbone: dict[str, Any] = field(default_factory=dict)
    method: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    evaluate: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()
    opened: Interactions | Parts | None = field(default=None, repr=False, compare=False)

    @classmethod
    def read(cls, path: Path) -> "RunConfig":
        """Return the configuration in a TOML file. Sections may be missing.

        Raises:
            ConfigError: The file cannot be read, or it has an unknown section.
        """
        try:
            content = parse_toml(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise missing_file(path) from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read as TOML: {error}") from error
        for name, values in content.items():
            if name not in SECTIONS or not isinstance(values, dict):
                raise ConfigError(f"{path}: {unknown_name('section', shortened(name), SECTIONS)}")
            if not isinstance(values.get("name", ""), str):
                raise ConfigError(f"{path}: {name}.name is {shortened(repr(values['name']))}; expected a text")
        return cls(**upgraded(content))

    def updated(self, section: str, values: dict[str, Any]) -> "RunConfig":
        """Return a copy with some values of a section replaced. Values that are None change nothing."""
        given_values = {key: value for key, value in values.items() if value is not None}
        changed: dict[str, Any] = {section: {**getattr(self, section), **given_values}}
        return replace(self, **changed)

    @property
    def seed(self) -> int:
        """Seed of everything random in the run."""
        seed = self.train.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ConfigError(f"train.seed is {seed!r}; expected a whole number from 0 up")
        return seed

    @property
    def depths(self) -> list[int]:
        """List lengths to evaluate."""
        values = {key: [value] if isinstance(value, int) else value for key, value in self.evaluate.items()}
        return list(EvaluateSettings.parse(values, "[evaluate]").n)

    def open_parts(self, progress: bool = False) -> Parts:
        """Return the parts: read the log and split it, or read the parts that the user gives.

        A refit has all parts together as its training part.
        """
        found = self.read_data(progress) if self.opened is None else self.opened
        if isinstance(found, Parts):
            return found
        return everything(found) if self._is_refit else self._cut(found)

    def read_data(self, progress: bool = False) -> Interactions | Parts:
        """Return what the section ``[data]`` describes: a log, or the parts that the user gives."""
        for name in self.data:
            if name not in DATA:
                raise unknown_name("setting of [data]", name, DATA)
        options = dict(self.data)
        source, k_core, data_dir = (options.pop(name, None) for name in ("source", "k_core", "data_dir"))
        parts = {name: options.pop(name, None) for name in ("train", "valid", "test")}
        if parts["train"] is None and any(parts.values()):
            raise ConfigError("a given validation or test part belongs to a given training part: add --train FILE")
        if parts["train"] is not None and source is not None:
            raise ConfigError(
                f"both DATA ({source}) and a given training part ({parts['train']}); name only one of them"
            )
        if parts["train"] is not None:
            files = [file for file in parts.values() if file is not None]
            return Interactions.read(files, **options) if self._is_refit else given(*parts.values(), **options)
        if source is None:
            raise ConfigError("no data: name a file, a folder or a data set, or pass --train, --valid and --test")
        return open_log(source, data_dir, k_core=k_core, progress=progress, **options)

    @property
    def _is_refit(self) -> bool:
        return "refit_of" in self.start

    def portable(self) -> "RunConfig":
        """Return a copy that means the same in another folder: paths are absolute, and the preset is filled in."""
        data = {key: _with_absolute_path(key, value) for key, value in self.data.items()}
        return replace(self.expanded(), data=data)

    def with_data(self, opened: Interactions | Parts | None) -> "RunConfig":
        """Return a copy for a machine to which the data have come, and with them the plugins; None changes nothing."""
        return self if opened is None else replace(self, opened=opened, plugins=())

    def _cut(self, log: Interactions) -> Parts:
        settings = dict(self.split)
        kind = settings.pop("kind", "unbiased")
        if kind in KINDS and "seed" in KINDS[kind].model_fields:
            settings.setdefault("seed", self.seed)
        return cut(log, kind, **settings)

    def expanded(self) -> "RunConfig":
        """Return a copy in which the settings of the preset are filled in. Settings given here override the preset.

        Raises:
            ConfigError: The preset does not exist for this method and backbone.
        """
        preset = self.method.get("preset")
        if preset is None:
            return self
        found = find_preset(preset, self.method.get("name", "normal"), self.backbone.get("name", "mf"))
        named = replace(self, method={key: value for key, value in self.method.items() if key != "preset"})
        merged: dict[str, Any] = {section: {**found[section], **getattr(named, section)} for section in found}
        return replace(named, **merged)

    def make_method(self) -> Method:
        """Return the untrained method on its backbone.

        Raises:
            ConfigError: Some settings are wrong. The message lists all mistakes in the method and the backbone.
        """
        load_plugins(self.plugins)
        config = self.expanded()
        backbone, method = dict(config.backbone), dict(config.method)
        mistakes: list[str] = []
        with _collected(mistakes):
            made: Backbone = MF()  # stands in for a backbone with mistakes, to find mistakes in the method too
            name = method.pop("name", "normal")
            with _collected(mistakes):
                made = make_backbone(backbone.pop("name", "mf"), **backbone)
            found = make_method(name, made, **method)
        if mistakes:
            raise ConfigError("\n".join(mistakes))
        return found

    def prepare(self) -> tuple[Method, TrainSettings, list[int]]:
        """Return the method, the settings of the training loop and the list lengths. No data are read.

        Raises:
            ConfigError: Some settings are wrong. The message lists all mistakes, one per line.
        """
        mistakes: list[str] = []
        with _collected(mistakes):
            method = self.make_method()
        defaults = {} if mistakes else method.train_defaults()
        with _collected(mistakes):
            loop = self._loop_settings(defaults)
        with _collected(mistakes):
            depths = self.depths
        if mistakes:
            raise ConfigError("\n".join(mistakes))
        return method, loop, depths

    def train_settings(self, method: TrainingMethod) -> TrainSettings:
        """Return the settings of the training loop.

        Values given here come first, then those of the preset, then the defaults of the method.
        """
        return self._loop_settings(method.train_defaults())

    def _loop_settings(self, defaults: dict[str, Any]) -> TrainSettings:
        values = {key: value for key, value in self.expanded().train.items() if key != "seed"}
        return TrainSettings.parse({**defaults, **values}, "[train]")

    def effective(self, method: Method, settings: TrainSettings) -> dict[str, dict[str, Any]]:
        """Return all values in effect, including defaults, by section."""
        return {
            "data": {key: _with_absolute_path(key, value) for key, value in self.data.items()},
            "split": self.split,
            "backbone": {"name": method.backbone.name, **method.backbone.settings.as_dict()},
            # TOML has no null, so settings that are None are left out; the method chooses them again when it is loaded.
            "method": {"name": method.name, **{k: v for k, v in method.settings.as_dict().items() if v is not None}},
            "train": {"seed": self.seed, **settings.as_dict()},
            "evaluate": {"n": self.depths},
            **({"start": self.start} if self.start else {}),
        }

    def as_toml(self, method: Method, settings: TrainSettings) -> str:
        """Return all values in effect, including defaults, as the text of ``config.toml``."""
        return tomli_w.dumps(self.effective(method, settings))


@contextmanager
def _collected(mistakes: list[str]) -> Iterator[None]:
    """Collect the message of a ConfigError instead of raising it, so that the user sees all mistakes at once."""
    try:
        yield
    except ConfigError as error:
        mistakes.extend(line for line in str(error).splitlines() if line not in mistakes)


def _with_absolute_path(key: str, value: Any) -> Any:
    """Return a setting of ``[data]`` as it is written to the file. Paths become absolute."""
    if key not in _PATHS or not isinstance(value, str | Path) or (key == "source" and str(value) in CATALOGUE):
        return value
    return str(Path(value).absolute())
