"""Everything that decides a run, as it stands in ``config.toml``."""

import inspect
import tomllib
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import tomli_w

from icpe.backbones import make_backbone
from icpe.data import open_log
from icpe.data.datasets.catalogue import CATALOGUE
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.files import write_atomically
from icpe.methods import Method, make_method
from icpe.runs.presets import find_preset
from icpe.split import Parts, chronological, given, random, unbiased
from icpe.train import TrainSettings
from icpe.train.method import make_from_settings, refuse_unknown

SECTIONS = ("data", "split", "backbone", "method", "train", "evaluate")
_DATA = ("train", "valid", "test", "k_core", "data_dir", *inspect.signature(Interactions.read).parameters)

_PATHS = ("source", "train", "valid", "test", "data_dir", "item_info")


@dataclass(frozen=True)
class RunConfig:
    """The sections of the file, each a plain mapping; ``data`` and ``split`` hold what opens and cuts the log.

    Attributes:
        data: ``source`` (path or catalogue name) or ``train, valid, test`` (paths); ``k_core``, ``data_dir`` and the
            options of ``Interactions.read``.
        split: ``kind`` and its settings.
        backbone: ``name`` and its settings.
        method: ``name``, a ``preset`` and further settings. A preset may hold some of ``backbone`` and ``train`` too;
            what the sections say wins over it.
        train: ``seed`` and the settings of the loop.
        evaluate: ``n``, the list lengths.
    """

    data: dict[str, Any] = field(default_factory=dict)
    split: dict[str, Any] = field(default_factory=dict)
    backbone: dict[str, Any] = field(default_factory=dict)
    method: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    evaluate: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "RunConfig":
        """Read a file; sections may be missing, unknown ones are refused."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read as TOML: {error}") from error
        for name, values in content.items():
            if name not in SECTIONS or not isinstance(values, dict):
                near = get_close_matches(name, SECTIONS, n=1)
                hint = f"; did you mean [{near[0]}]?" if near else f"; there are {', '.join(SECTIONS)}"
                raise ConfigError(f"{path} has no section [{name}]{hint}")
        return cls(**content)

    def updated(self, section: str, values: dict[str, Any]) -> "RunConfig":
        """With some values of a section replaced; those that are None are left as they were."""
        given_values = {key: value for key, value in values.items() if value is not None}
        return replace(self, **{section: {**getattr(self, section), **given_values}})

    @property
    def seed(self) -> int:
        """Of everything random."""
        seed = self.train.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ConfigError(f"train.seed is {seed!r}; expected a whole number from 0 up")
        return seed

    @property
    def depths(self) -> list[int]:
        """List lengths to evaluate."""
        refuse_unknown(self.evaluate, ["n"], "[evaluate]")
        found = self.evaluate.get("n", [20])
        depths = list(found) if isinstance(found, list | tuple) else [found]
        if not depths or not all(isinstance(n, int) and n > 0 for n in depths):
            raise ConfigError(f"evaluate.n is {found!r}; expected list lengths such as 20 or [10, 20]")
        return depths

    def open_parts(self, progress: bool = False) -> Parts:
        """Read the log and cut it, or read the given parts."""
        refuse_unknown(self.data, _DATA, "[data]")
        options = dict(self.data)
        source, k_core, data_dir = (options.pop(name, None) for name in ("source", "k_core", "data_dir"))
        parts = {name: options.pop(name, None) for name in ("train", "valid", "test")}
        if parts["train"] is None and any(parts.values()):
            raise ConfigError("a given validation or test part belongs to a given training part: add --train FILE")
        if parts["train"] is not None and source is not None:
            raise ConfigError(f"both DATA ({source}) and a given training part ({parts['train']}); name one of them")
        if parts["train"] is not None:
            return given(parts["train"], parts["valid"], parts["test"], **options)
        if source is None:
            raise ConfigError("no data: name a file, a folder or a data set, or give --train, --valid and --test")
        log = open_log(source, data_dir, progress, **options)
        if k_core is None and source in CATALOGUE:
            k_core = CATALOGUE[source].k_core
        return self._cut(log if k_core is None else log.k_core(k_core))

    def _cut(self, log: Any) -> Parts:
        kinds = {"unbiased": unbiased, "chronological": chronological, "random": random}
        settings = dict(self.split)
        kind = settings.pop("kind", "unbiased")
        if kind not in kinds:
            raise ConfigError(f"split.kind is {kind!r}; expected one of {', '.join(kinds)}")
        if kind != "chronological":
            settings.setdefault("seed", self.seed)
        made: Parts = make_from_settings(kinds[kind], settings, f"split {kind!r}", log)  # type: ignore[arg-type]
        return made

    def expanded(self) -> "RunConfig":
        """With the settings of the preset written out, under those given here.

        Raises:
            ConfigError: there is no such preset for the method and the backbone.
        """
        preset = self.method.get("preset")
        if preset is None:
            return self
        found = find_preset(preset, self.method.get("name", "normal"), self.backbone.get("name", "mf"))
        named = replace(self, method={key: value for key, value in self.method.items() if key != "preset"})
        return replace(named, **{section: {**found[section], **getattr(named, section)} for section in found})

    def make_method(self) -> Method:
        """The method on its backbone, not trained yet."""
        config = self.expanded()
        backbone, method = dict(config.backbone), dict(config.method)
        made = make_backbone(backbone.pop("name", "mf"), **backbone)
        return make_method(method.pop("name", "normal"), made, **method)

    def train_settings(self, method: Method) -> TrainSettings:
        """Settings of the loop: the method's defaults, the preset's, and what is said here."""
        values = {key: value for key, value in self.expanded().train.items() if key != "seed"}
        values = {**method.train_defaults(), **values}
        made: TrainSettings = make_from_settings(TrainSettings, values, "[train]")
        return made

    def effective(self, method: Method, settings: TrainSettings) -> dict[str, dict[str, Any]]:
        """All values in effect by section, defaults included."""
        return {
            "data": {key: _from_anywhere(key, value) for key, value in self.data.items()},
            "split": self.split,
            "backbone": {"name": method.backbone.name, **method.backbone.settings()},
            # TOML has no null: what is None here is left to the method again.
            "method": {"name": method.name, **{k: v for k, v in method.settings().items() if v is not None}},
            "train": {"seed": self.seed, **settings.as_dict()},
            "evaluate": {"n": self.depths},
        }

    def write(self, path: Path, method: Method, settings: TrainSettings) -> None:
        """Write all values in effect."""
        text = tomli_w.dumps(self.effective(method, settings))
        write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def _from_anywhere(key: str, value: Any) -> Any:
    """A setting of ``[data]`` as it stands in the file: paths that hold in other working folders too."""
    if key not in _PATHS or not isinstance(value, str | Path) or (key == "source" and str(value) in CATALOGUE):
        return value
    return str(Path(value).absolute())
